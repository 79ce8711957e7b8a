// Layouts of tensors: row-major, or with channels last (axis 1 behind all others in memory), which tensor cores want for
// convolutions. Expressions know nothing of layouts: their reads and writes are addressed through axes in another order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "expressions/element.h"
#include "expressions/tensor.h"

namespace rewright::cuda {

enum Layout : bool { kRows, kChannelsLast };

// The entries of a list by axis in the order of memory with channels last.
template <class T>
std::vector<T> channels_last(std::vector<T> axes) {
  std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
  return axes;
}

// May tensors of these sizes have their channels last?
inline bool has_channels(const Sizes& sizes) { return sizes.size() >= 3 && sizes.size() <= 5; }

// Is the order of the elements the same in both layouts?
bool same_either_way(const Sizes& sizes);

// The expression over operands of which the marked ones have their channels last.
Element over_channels_last(const Element& element, const std::vector<bool>& marked);

// The bytes of a row-major tensor with channels last.
std::vector<std::byte> bytes_channels_last(const Tensor& tensor);

}  // namespace rewright::cuda
