// Shared by convolutions, their gradients, and quantized convolutions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "operators/definitions/lists.h"
#include "operators/definitions/window.h"
#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

inline Indices spatial_part(const Indices& shape) {
  return shape.size() < 2 ? Indices{} : Indices(shape.begin() + 2, shape.end());
}

// Require the element types, and the ranks and a positive number of groups. `other` is the weight, or the output's gradient.
void require_reals(Definition& d, const Operand& x, const Operand& other);
void require_ranks(Definition& d, const Operand& x, const Operand& other, const std::string& what, const Index& group);
// Requires ranks and channels of x and a convolution's weight that fit each other.
void require_weight(Definition& d, const Operand& x, const Operand& w, const Index& group);
// Requires that `group` divides `channels`. The message: "WHOSE has 5 WHAT, not a multiple of group 2".
void require_groups(Definition& d, const Index& channels, const Index& group, const std::string& whose,
                    const std::string& what);
// The first input channel of the group of an output channel. There are `channels` output channels; a group has `depth` input
// channels.
Index first_of_group(const Index& channel, const Index& channels, const Index& depth, const Index& group);

// For y = conv(x, w): the gradient of x from g, the gradient of y.
ValueId input_gradient(GraphBuilder& b, const Indices& x_shape, ValueId g, ValueId w, const Window& window, const Index& group);
// conv(x, w), cropped to this shape.
ValueId convolved(GraphBuilder& b, ValueId x, ValueId w, const Window& window, const Index& group, const Indices& shape);

// The kernel, strides and dilations of a node whose weight has this shape. Throws Error(kBadInput) if they contradict it.
Window import_window(const OnnxSource& source, const Indices& weight);
// The ONNX attributes of a window. `weight` is the node's weight.
OnnxSink::NamedAttributes window_attributes(const OnnxSink& sink, const Window& window, const Index& group, OnnxValue weight);
std::vector<OnnxValue> inputs_of(const OnnxSource& source);

template <class Op>
void fill_absent_window(Op& op, std::size_t rank) {
  fill_absent(op.strides, rank, 1), fill_absent(op.dilations, rank, 1);
  fill_absent(op.pads_begin, rank, 0), fill_absent(op.pads_end, rank, 0);
}

// Imports a node with explicit or automatic pads whose weight is input number `weight`.
template <class Op>
std::optional<std::vector<OnnxValue>> import_convolution(OnnxSource& source, std::size_t weight, std::string& reason) {
  const Window window = import_window(source, source.type_of(source.input(weight)).shape);
  const Indices sizes = spatial_part(source.type_of(source.input(0)).shape);
  if (sizes.size() != window.rank())
    throw Error(ErrorCode::kBadInput,
                "input has " + std::to_string(sizes.size()) + " spatial axes, weight has " + std::to_string(window.rank()));
  const auto pads = import_pads(source, sizes, window, reason);
  if (!pads) return std::nullopt;
  Op op;
  op.strides = window.strides, op.dilations = window.dilations;
  op.pads_begin = pads->begin, op.pads_end = pads->end;
  op.group = source.integer("group", 1);
  return source.node(registry().get(Op::kName), to_attributes(op), inputs_of(source));
}

}  // namespace rewright::operators
