// Sizes and attributes of convolutions, pools and products, read once for the kernels of all devices.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace rewright::planning {

// x[N, C, spatial...] * w[K, C / group, kernel...] -> y[N, K, spatial...]; for a ConvTranspose w[C, K / group, kernel...].
// Lists have one entry for each spatial axis.
struct ConvolutionNode {
  Sizes x, w, y;
  std::vector<std::int64_t> strides, dilations, pads_begin, pads_end;
  std::int64_t group = 1;

  // Does a convolution of x with this padding at the end of an axis give as many positions as y has?
  bool fits(std::size_t axis, std::int64_t end) const;
};
// Reads a Conv, or another node with its attributes. nullopt unless it has 1 to 3 spatial axes, tensors are not empty, and
// padding is not negative.
std::optional<ConvolutionNode> read_convolution_node(const Node& node, const Sizes& x, const Sizes& w, const Sizes& y);

// Reads the node of a gradient as the convolution that it belongs to: the gradient of x, a ConvTranspose of the gradient of y
// and w, or the gradient of w, a ConvWeightGradient of x and the gradient of y. nullopt as above, or if y does not reach a
// position of each stride of x.
std::optional<ConvolutionNode> read_convolution_gradient_node(const Node& node, const Sizes& a, const Sizes& b,
                                                              const Sizes& result);

// Maxima or means of windows of x[N, C, spatial...]. Lists have one entry for each spatial axis.
struct PoolNode {
  bool is_mean = false;
  Sizes x, y;
  std::vector<std::int64_t> kernel, strides, dilations, pads_begin, pads_end;
  bool counts_padding = false;  // means divide by the full window size
  bool rounds_up = false;       // the last window may extend beyond the padding

  std::int64_t extent(std::size_t axis) const { return dilations[axis] * (kernel[axis] - 1) + 1; }
  // How far the last window extends beyond the end of x; negative if it ends before.
  std::int64_t reach(std::size_t axis) const {
    return (y[axis + 2] - 1) * strides[axis] + extent(axis) - x[axis + 2] - pads_begin[axis];
  }
};
// Reads a MaxPool, AveragePool, GlobalMaxPool or GlobalAveragePool (the latter two have windows of all of x). nullopt unless it
// has 1 to 3 spatial axes and neither tensor is empty.
std::optional<PoolNode> read_pool_node(const Node& node, const Sizes& x, const Sizes& y);

// y[batch..., m, n] = alpha * a[..., m, k] * b[..., k, n] + beta * c. A transposed factor has its last two axes swapped.
struct ProductAttributes {
  double alpha = 1, beta = 1;
  bool a_transposed = false, b_transposed = false;
};
struct ProductNode : ProductAttributes {
  bool has_rows = true, has_columns = true;  // false: a (or b) is a vector, and y lacks that axis
  std::int64_t m = 1, k = 1, n = 1;
  Sizes batch;  // of y
};
// Read a Gemm, or a MatMul (with default attributes).
ProductAttributes read_product_attributes(const Node& node);
ProductNode read_product_node(const Node& node, const Sizes& a, const Sizes& b, const Sizes& y);

}  // namespace rewright::planning
