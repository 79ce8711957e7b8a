// Convolutions with their epilogues.
#include <algorithm>

#include "base/error.h"
#include "runtime/cuda/plugin/graph_operation.h"

namespace rewright::cuda {

namespace {

// cuDNN's convolutions have two or three spatial axes: a single axis gets another of size 1 before it.
std::vector<std::int64_t> widened(std::vector<std::int64_t> list, std::size_t rank, std::int64_t value, std::size_t at) {
  if (rank == 1) list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), value);
  return list;
}

cudnnPointwiseMode_t pointwise_mode(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return CUDNN_POINTWISE_GELU_APPROX_TANH_FWD;
    case Activation::kSilu:
      return CUDNN_POINTWISE_SWISH_FWD;
    case Activation::kSigmoid:
      return CUDNN_POINTWISE_SIGMOID_FWD;
    default:
      return CUDNN_POINTWISE_RELU_FWD;  // also kClip, with its bounds
  }
}

// The descriptor of a pass, and its attributes: of the tensors x, w and y or their gradients, of the window and of the scales.
struct Pass {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, window, alpha, beta;
};
constexpr Pass kPasses[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

}  // namespace

OperationGraph operation_graph(const ConvolutionShape& c) {
  // Kernels of our own fuse what follows gradients: cuDNN would compile engines for it.
  if (c.pass != ConvolutionPass::kForward && c.has_epilogue())
    throw Error(ErrorCode::kUnsupported, "a gradient of a convolution has no epilogue");
  const Pass& pass = kPasses[static_cast<std::size_t>(c.pass)];
  OperationGraph graph;
  const std::size_t rank = c.x.size() - 2;
  const bool wide = c.type == DataType::kDouble;
  const cudnnDataType_t compute = wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const auto sizes = [&](const std::vector<std::int64_t>& list) { return widened(list, rank, 1, 2); };
  const auto input = [&](const std::vector<std::int64_t>& list) -> const Descriptor& {
    return graph.input(list, packed(list, c.channels_last), c.type);
  };
  const Descriptor* const x = c.pass == ConvolutionPass::kBackwardData ? nullptr : &input(sizes(c.x));
  const Descriptor* const y = c.pass == ConvolutionPass::kForward ? nullptr : &input(sizes(c.y));
  const Descriptor* const w = c.pass == ConvolutionPass::kBackwardFilter ? nullptr : &input(sizes(c.w));
  const std::vector<std::int64_t> of_result = sizes(c.result());
  std::vector<std::int64_t> by_channel(of_result.size(), 1);
  by_channel[1] = of_result[1];
  const Descriptor* const bias = c.bias ? &input(by_channel) : nullptr;
  const Descriptor* const residual = c.residual ? &input(of_result) : nullptr;
  int behind = (c.bias ? 1 : 0) + (c.residual ? 1 : 0) + (c.activation != Activation::kNone ? 1 : 0);
  // The tensor for the next operation's result: the output for the last one.
  const auto result = [&]() -> const Descriptor& {
    const std::vector<std::int64_t> distances = packed(of_result, c.channels_last);
    return behind-- == 0 ? graph.output(of_result, distances, c.type) : graph.between(of_result, distances, compute);
  };

  Descriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  window.set_one(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, compute);
  window.set_one(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  window.set_number(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(std::max<std::size_t>(rank, 2)));
  window.set_numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS, widened(c.dilations, rank, 1, 0));
  window.set_numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, widened(c.strides, rank, 1, 0));
  window.set_numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, widened(c.pads_begin, rank, 0, 0));
  window.set_numbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, widened(c.pads_end, rank, 0, 0));
  window.finalize();

  const Descriptor* last = &result();
  Descriptor o(pass.type);
  o.set_descriptor(pass.x, x != nullptr ? *x : *last);
  o.set_descriptor(pass.w, w != nullptr ? *w : *last);
  o.set_descriptor(pass.y, y != nullptr ? *y : *last);
  o.set_descriptor(pass.window, graph.keep(std::move(window)));
  const auto scalar = [&](cudnnBackendAttributeName_t name, double value) {
    if (wide)
      o.set_one(name, CUDNN_TYPE_DOUBLE, value);
    else
      o.set_one(name, CUDNN_TYPE_FLOAT, static_cast<float>(value));
  };
  scalar(pass.alpha, 1);
  scalar(pass.beta, 0);
  o.finalize();
  graph.add(std::move(o));
  const auto pointwise = [&](const OperationGraph::Pointwise& what, const Descriptor* other) {
    const Descriptor& to = result();
    graph.pointwise(what, *last, other, nullptr, to);
    last = &to;
  };
  for (const Descriptor* added : {bias, residual})
    if (added != nullptr) pointwise({CUDNN_POINTWISE_ADD, compute}, added);
  if (c.activation != Activation::kNone)
    pointwise({pointwise_mode(c.activation), compute, -1, c.low, c.high, c.activation == Activation::kClip}, nullptr);
  return graph;
}

}  // namespace rewright::cuda
