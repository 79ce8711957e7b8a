// Channels last: axis 1 of a tensor behind all others in memory, as tensor cores want it for convolutions. Expressions know
// nothing of it: what they read and write is only addressed through axes in another order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "expressions/element.h"
#include "expressions/tensor.h"

namespace rewright::cuda {

template <class T>
std::vector<T> channels_last(std::vector<T> axes) {
  std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
  return axes;
}

// May tensors of these sizes lie with channels last?
inline bool has_channels(const Sizes& sizes) { return sizes.size() >= 3 && sizes.size() <= 5; }

// Do the elements stand in the same order either way?
bool same_either_way(const Sizes& sizes);

// The expression over operands of which those that are marked have their axes in the order of channels last.
Element over_channels_last(const Element& element, const std::vector<bool>& marked);

// Elements in the other order, as bytes.
std::vector<std::byte> bytes_channels_last(const Tensor& tensor);

}  // namespace rewright::cuda
