// Parts of tensors of any type, strings included.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "expressions/tensor.h"

namespace rewright::operators {

// Tensors without elements may have axes of any size: what loops over an axis asks first.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 32;
// As many zeros as a tensor of these sizes has elements; throws Error(kMissing) beyond kMostElements.
std::vector<double> zeros(const Sizes& sizes);
// Throws Error(kMissing) if there are more than kMostElements.
void require_few(std::int64_t count);

// The axis counted from the front; throws Error(kBadInput) if there is none.
std::size_t checked_axis(std::int64_t axis, std::size_t rank);
// Throws Error(kBadInput) unless 0 <= index < size, after a negative index is counted from the end.

// A tensor as a block of `before` times `size` times `after` elements around an axis.
struct AxisView {
  std::int64_t before = 1, size = 1, after = 1;
  AxisView(const Sizes& sizes, std::size_t axis);
};

// The elements at these places, in a tensor of these sizes.
Tensor picked(const Tensor& tensor, Sizes sizes, std::span<const std::int64_t> places);
// The entries of an axis, in this order.
Tensor taken(const Tensor& tensor, std::size_t axis, std::span<const std::int64_t> entries);
// One entry of an axis, which is not there in the result.
Tensor entry_of(const Tensor& tensor, std::size_t axis, std::int64_t entry);
// Throw Error(kBadInput) unless types and all other sizes agree.
Tensor concatenated(std::span<const Tensor> tensors, std::size_t axis);
Tensor stacked(std::span<const Tensor> tensors, std::size_t axis);

}  // namespace rewright::operators
