// Parts of tensors of any element type, also strings.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "expressions/tensor.h"

namespace rewright::operators {

// The most elements that a result may have. Tensors without elements may have axes of any size, so loops over an axis check
// this first.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 32;
// One zero for each element of a tensor of these sizes; throws Error(kMissing) beyond kMostElements.
std::vector<double> zeros(const Sizes& sizes);
// Throws Error(kMissing) if there are more than kMostElements.
void require_few(std::int64_t count);

// The axis counted from the front; throws Error(kBadInput) unless -rank <= axis < rank.
std::size_t checked_axis(std::int64_t axis, std::size_t rank);

// A tensor seen as `before` x `size` x `after` elements, where `size` is that of an axis.
struct AxisView {
  std::int64_t before = 1, size = 1, after = 1;
  AxisView(const Sizes& sizes, std::size_t axis);
};

// The elements at these row-major places, as a tensor of these sizes.
Tensor picked(const Tensor& tensor, Sizes sizes, std::span<const std::int64_t> places);
// The tensor with only these entries of an axis, in this order.
Tensor entries_of(const Tensor& tensor, std::size_t axis, std::span<const std::int64_t> entries);
// One entry of an axis, without that axis.
Tensor entry_of(const Tensor& tensor, std::size_t axis, std::int64_t entry);
// Along an existing axis, and along a new one. Throw Error(kBadInput) unless types and all other sizes agree.
Tensor concatenated(std::span<const Tensor> tensors, std::size_t axis);
Tensor stacked(std::span<const Tensor> tensors, std::size_t axis);

}  // namespace rewright::operators
