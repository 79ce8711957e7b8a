// Layouts of tensors: row-major, or channels-last (axis 1 innermost in memory), which tensor cores need for convolutions.
// Expressions are independent of layouts: their reads and writes are addressed through permuted axes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "expressions/element.h"
#include "expressions/tensor.h"

namespace rewright::cuda {

enum Layout : bool { kRows, kChannelsLast };

// A list by axis, reordered as the axes are in channels-last memory.
template <class T>
std::vector<T> channels_last(std::vector<T> axes) {
  std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
  return axes;
}

// Can tensors of these sizes be channels-last?
inline bool has_channels(const Sizes& sizes) { return sizes.size() >= 3 && sizes.size() <= 5; }

// Is the order of the elements the same in both layouts?
bool same_either_way(const Sizes& sizes);

// The expression with marked operands read as channels-last.
Element over_channels_last(const Element& element, const std::vector<bool>& marked);

// A row-major tensor's bytes in channels-last order.
std::vector<std::byte> bytes_channels_last(const Tensor& tensor);

}  // namespace rewright::cuda
