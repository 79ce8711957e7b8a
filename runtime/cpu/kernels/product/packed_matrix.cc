#include "runtime/cpu/kernels/product/packed_matrix.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace rewright::cpu {

namespace {

// Cycles for each k. A cycle has two vector loads and two multiply-adds, which have a latency of four cycles; the second-level
// cache delivers half a vector for each block of rows, and memory eight bytes.
double cycles(const ProductLoops& loops, std::int64_t left_rows, std::int64_t vectors, std::int64_t panels) {
  const std::int64_t most = std::min(left_rows, loops.most_rows[vectors]);
  const std::int64_t blocks = (left_rows + most - 1) / most;
  const double rows = static_cast<double>(left_rows) / static_cast<double>(blocks);
  const double v = static_cast<double>(vectors);
  const double one = std::max({4.0, rows * v / 2, (rows + v + 1) / 2, 2 * v});
  const double streamed = v * static_cast<double>(loops.lanes) * sizeof(float) / 8;
  return static_cast<double>(panels) * std::max(streamed, static_cast<double>(blocks) * one);
}

}  // namespace

PackedShape packed_shape(const ProductLoops& loops, std::int64_t left_rows, std::int64_t rows, std::int64_t columns) {
  PackedShape best;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t vectors = ProductLoops::kMostVectors; vectors > 0; --vectors) {
    if (loops.most_rows[vectors] == 0) continue;
    const PackedShape shape{rows, columns, vectors, vectors * loops.lanes};
    const double cost = cycles(loops, left_rows, vectors, shape.panels());
    if (cost >= least) continue;
    least = cost;
    best = shape;
  }
  return best;
}

namespace {

// The vectors of panels that are nearly fastest for any number of rows.
std::int64_t vectors_for_any(const ProductLoops& loops, std::int64_t columns) {
  constexpr std::int64_t kMostLeftRows = 64;  // beyond, results hardly differ
  double least[kMostLeftRows + 1] = {};
  for (std::int64_t left = 1; left <= kMostLeftRows; ++left) {
    const PackedShape best = packed_shape(loops, left, 1, columns);
    least[left] = cycles(loops, left, best.vectors, best.panels());
  }
  std::int64_t result = 1;
  double least_loss = std::numeric_limits<double>::infinity();
  for (std::int64_t vectors = ProductLoops::kMostVectors; vectors > 0; --vectors) {
    if (loops.most_rows[vectors] == 0) continue;
    const PackedShape shape{1, columns, vectors, vectors * loops.lanes};
    double loss = 1;
    for (std::int64_t left = 1; left <= kMostLeftRows; ++left)
      loss = std::max(loss, cycles(loops, left, vectors, shape.panels()) / least[left]);
    if (loss >= least_loss) continue;
    least_loss = loss;
    result = vectors;
  }
  return result;
}

}  // namespace

// Weights have few numbers of columns, and each plan asks for all of them.
PackedShape packed_shape(const ProductLoops& loops, std::int64_t rows, std::int64_t columns) {
  static std::mutex mutex;
  static std::map<std::pair<const ProductLoops*, std::int64_t>, std::int64_t> known;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = known.try_emplace({&loops, columns});
  if (is_new) entry->second = vectors_for_any(loops, columns);
  return {rows, columns, entry->second, entry->second * loops.lanes};
}

void pack(const ProductLoops& loops, const float* source, const StridedMatrix& matrix, const PackedShape& shape,
          std::span<const float> column_factors, float* target, std::int64_t first, std::int64_t last) {
  constexpr std::int64_t kTile = 16, kColumns = 8;
  const std::int64_t width = shape.width;
  for (std::int64_t p = first; p < last; ++p) {
    float* const panel = target + (p - first) * shape.panel_floats();
    const std::int64_t columns = std::min(width, shape.columns - p * width);
    const float* const from = source + p * width * matrix.column_stride;
    if (matrix.column_stride == 1) {
      for (std::int64_t k = 0; k < shape.rows; ++k) std::copy_n(from + k * matrix.row_stride, columns, panel + k * width);
    } else if (matrix.row_stride == 1) {
      loops.transpose(panel, width, from, matrix.column_stride, shape.rows, columns);
    } else {
      // Few enough columns at a time that their lines stay in the first-level cache even if they share a set.
      for (std::int64_t start = 0; start < shape.rows; start += kTile) {
        const std::int64_t end = std::min(start + kTile, shape.rows);
        for (std::int64_t left = 0; left < columns; left += kColumns) {
          const std::int64_t right = std::min(left + kColumns, columns);
          for (std::int64_t k = start; k < end; ++k)
            for (std::int64_t c = left; c < right; ++c)
              panel[k * width + c] = from[k * matrix.row_stride + c * matrix.column_stride];
        }
      }
    }
    for (std::int64_t k = 0; k < shape.rows && columns < width; ++k)
      std::fill(panel + k * width + columns, panel + (k + 1) * width, 0.0f);
    if (column_factors.empty()) continue;
    for (std::int64_t k = 0; k < shape.rows; ++k)
      for (std::int64_t c = 0; c < columns; ++c) panel[k * width + c] *= column_factors[p * width + c];
  }
}

namespace {

bool are_short(const float* x, std::int64_t count, std::int64_t step) {
  constexpr std::int64_t kAtOnce = 1024;  // then a matrix that has other numbers is left
  for (std::int64_t from = 0; from < count; from += kAtOnce) {
    std::uint32_t bits = 0;
    for (std::int64_t i = from; i < std::min(count, from + kAtOnce); ++i) bits |= std::bit_cast<std::uint32_t>(x[i * step]);
    if ((bits & 0xffff) != 0) return false;
  }
  return true;
}

}  // namespace

bool fits_16_bits(const float* source, const StridedMatrix& m) {
  const bool by_rows = m.column_stride <= m.row_stride;
  const std::int64_t outer = by_rows ? m.rows : m.columns, outer_stride = by_rows ? m.row_stride : m.column_stride;
  const std::int64_t inner = by_rows ? m.columns : m.rows, inner_stride = by_rows ? m.column_stride : m.row_stride;
  for (std::int64_t i = 0; i < outer; ++i)
    if (!are_short(source + i * outer_stride, inner, inner_stride)) return false;
  return true;
}

void pack_short(const ProductLoops& loops, const float* source, const StridedMatrix& matrix, const PackedShape& shape,
                std::uint16_t* target) {
  const auto upper = [](float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); };
  const std::int64_t lanes = loops.lanes, paired = shape.vectors / 2 * 2 * lanes;
  std::vector<float> panel(static_cast<std::size_t>(shape.panel_floats()));
  for (std::int64_t p = 0; p < shape.panels(); ++p) {
    pack(loops, source, matrix, shape, {}, panel.data(), p, p + 1);
    for (const float* row = panel.data(); row != panel.data() + panel.size(); row += shape.width, target += shape.width) {
      for (std::int64_t v = 0; v < paired; v += 2 * lanes)
        for (std::int64_t l = 0; l < lanes; ++l) {
          target[v + 2 * l] = upper(row[v + l]);
          target[v + 2 * l + 1] = upper(row[v + lanes + l]);
        }
      for (std::int64_t c = paired; c < shape.width; ++c) target[c] = upper(row[c]);
    }
  }
}

}  // namespace rewright::cpu
