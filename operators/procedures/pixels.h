// Images with the channels of a pixel side by side, for procedures that sample regions of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "expressions/tensor.h"

namespace rewright::operators {

// Some elements at a time: the baseline instruction set does without vectors in plain loops. These are its own vectors; wider
// ones are compared element by element, through memory.
template <class T>
struct Together {
  static constexpr std::int64_t kCount = 16 / sizeof(T);
  typedef T Type __attribute__((vector_size(kCount * sizeof(T)), aligned(alignof(T)), may_alias));
};

template <class T>
bool are_finite(const T* x, std::int64_t count) {
  using V = typename Together<T>::Type;
  V zeros{};  // 0 times what is not finite is NaN
  T sum = 0;
  std::int64_t k = 0;
  for (; k + Together<T>::kCount <= count; k += Together<T>::kCount) zeros += T(0) * *reinterpret_cast<const V*>(x + k);
  for (; k < count; ++k) sum += T(0) * x[k];
  for (std::int64_t l = 0; l < Together<T>::kCount; ++l) sum += zeros[l];
  return sum == 0;
}

// Four rows of four elements.
inline void transpose_square(float* to, std::int64_t to_rows, const float* from, std::int64_t from_rows) {
  using V = Together<float>::Type;
  const auto row = [&](std::int64_t r) { return reinterpret_cast<const V*>(from + r * from_rows); };
  const V a = *row(0), b = *row(1), c = *row(2), d = *row(3);
  const V low_ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), high_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const V low_cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), high_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const auto column = [&](std::int64_t n) { return reinterpret_cast<V*>(to + n * to_rows); };
  *column(0) = __builtin_shufflevector(low_ab, low_cd, 0, 1, 4, 5);
  *column(1) = __builtin_shufflevector(low_ab, low_cd, 2, 3, 6, 7);
  *column(2) = __builtin_shufflevector(high_ab, high_cd, 0, 1, 4, 5);
  *column(3) = __builtin_shufflevector(high_ab, high_cd, 2, 3, 6, 7);
}

// to[column, row] = from[row, column], some lines of the cache at a time; rows are so far apart.
template <class To, class T>
void transpose(To* to, std::int64_t to_rows, const T* from, std::int64_t from_rows, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kBlock = 8;
  constexpr std::int64_t kSide = Together<float>::kCount;
  for (std::int64_t r = 0; r < rows; r += kBlock)
    for (std::int64_t q = 0; q < columns; q += kBlock) {
      if constexpr (std::is_same_v<To, float> && std::is_same_v<T, float>)
        if (r + kBlock <= rows && q + kBlock <= columns) {
          for (std::int64_t c = q; c < q + kBlock; c += kSide)
            for (std::int64_t i = r; i < r + kBlock; i += kSide)
              transpose_square(to + c * to_rows + i, to_rows, from + i * from_rows + c, from_rows);
          continue;
        }
      for (std::int64_t c = q; c < std::min(columns, q + kBlock); ++c)
        for (std::int64_t i = r; i < std::min(rows, r + kBlock); ++i)
          to[c * to_rows + i] = static_cast<To>(from[i * from_rows + c]);
    }
}

// Images with the channels of a pixel side by side: a region's samples are sums, or maxima, of pixels. Only those that are
// needed are there.
template <class T>
class Pixels {
 public:
  explicit Pixels(const Sizes& images)
      : channels_(images[1]),
        height_(images[2]),
        width_(images[3]),
        columns_(static_cast<std::size_t>(images[0] * height_), {width_, 0}),
        pixels_(std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(element_count(images)))) {}

  // The pixels of a row from column `first` up to `behind` will be read.
  void need(std::int64_t image, std::int64_t row, std::int64_t first, std::int64_t behind) {
    auto& [from, to] = columns_[static_cast<std::size_t>(image * height_ + row)];
    from = std::min(from, first), to = std::max(to, behind);
  }

  // Returns whether all of them are finite.
  template <class From>
  bool fill(const From* images) {
    bool finite = true;
    for (std::size_t line = 0; line < columns_.size(); ++line) {
      const auto [from, to] = columns_[line];
      if (from >= to) continue;
      const auto image = static_cast<std::int64_t>(line) / height_, row = static_cast<std::int64_t>(line) % height_;
      T* const pixels = pixels_.get() + (static_cast<std::int64_t>(line) * width_ + from) * channels_;
      transpose(pixels, channels_, images + (image * channels_ * height_ + row) * width_ + from, height_ * width_, channels_,
                to - from);
      finite = finite && are_finite(pixels, (to - from) * channels_);
    }
    return finite;
  }

  // Elements from a pixel to the next one, and from a row to the next one.
  std::int64_t across() const { return channels_; }
  std::int64_t down() const { return width_ * channels_; }
  const T* at(std::int64_t image, std::int64_t row, std::int64_t column) const {
    return pixels_.get() + ((image * height_ + row) * width_ + column) * channels_;
  }

 private:
  std::int64_t channels_, height_, width_;
  std::vector<std::pair<std::int64_t, std::int64_t>> columns_;  // of each row: from the first to behind the last
  std::unique_ptr<T[]> pixels_;
};

}  // namespace rewright::operators
