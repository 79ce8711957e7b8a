// Tensors: a type, known sizes, and immutable shared bytes in row-major order.
//
//   const double values[] = {1, 2, 3, 4, 5, 6};
//   const Tensor t = Tensor::from_reals(DataType::kHalf, {2, 3}, values);
//   t.reals()[4];                                                   // 5
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "expressions/data_type.h"

namespace rewright {

using Sizes = std::vector<std::int64_t>;

// The number of elements; throws Error(kBadInput) if it is negative or overflows.
std::int64_t element_count(std::span<const std::int64_t> sizes);

class Tensor {
 public:
  Tensor() = default;
  // Uninitialized memory, aligned to 64 bytes; for kString, empty strings.
  Tensor(DataType type, Sizes sizes);
  // A view of bytes of another owner (a mapped file, a Python buffer), which `owner` keeps alive.
  Tensor(DataType type, Sizes sizes, std::shared_ptr<const void> owner, const std::byte* bytes);

  // A tensor of any numeric type with the given elements, rounded as a cast does.
  static Tensor from_reals(DataType type, Sizes sizes, std::span<const double> values);
  static Tensor from_integers(DataType type, Sizes sizes, std::span<const std::int64_t> values);
  static Tensor scalar(DataType type, double value);
  static Tensor from_strings(Sizes sizes, std::vector<std::string> values);

  DataType type() const { return type_; }
  const Sizes& sizes() const { return sizes_; }
  std::int64_t size() const { return count_; }
  std::size_t byte_count() const { return static_cast<std::size_t>(count_) * byte_size(type_); }
  std::span<const std::byte> bytes() const { return {bytes_, byte_count()}; }
  std::span<std::byte> mutable_bytes();  // only for a tensor that owns its bytes and has no copies yet

  template <class T>
  std::span<const T> data() const {
    return {reinterpret_cast<const T*>(bytes_), static_cast<std::size_t>(count_)};
  }
  template <class T>
  std::span<T> mutable_data() {
    return {reinterpret_cast<T*>(mutable_bytes().data()), static_cast<std::size_t>(count_)};
  }

  // The elements of a tensor of strings, which has no bytes. Throws Error(kUnsupported) for other types.
  std::span<const std::string> strings() const;

  std::vector<double> reals() const;                         // every element as a double (bool 0 or 1)
  std::vector<std::int64_t> integers() const;                // every element as an int64 (reals truncated)
  Tensor reshaped(Sizes sizes) const;                        // shares the bytes; throws Error if the counts differ
  std::uint64_t content_hash() const;                        // of type, sizes and bytes (XXH3)
  friend bool operator==(const Tensor& a, const Tensor& b);  // same type, sizes and bytes
  explicit operator bool() const { return bytes_ != nullptr || type_ != DataType::kUndefined; }

 private:
  DataType type_ = DataType::kUndefined;
  Sizes sizes_;
  std::int64_t count_ = 0;
  std::shared_ptr<const void> owner_;
  const std::byte* bytes_ = nullptr;
  bool writable_ = false;
};

// IEEE 754 half and bfloat16, round to nearest even.
float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);
float bfloat16_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat16(float value);

}  // namespace rewright
