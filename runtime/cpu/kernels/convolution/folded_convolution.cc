#include "runtime/cpu/kernels/convolution/folded_convolution.h"

#include <algorithm>

namespace rewright::cpu {

bool FoldedConvolution::is_by_channel() const {
  const std::optional<ImageShape> s = image();
  return s && cpu::is_by_channel(*s);
}

bool FoldedConvolution::is_one_by_one() const {
  const std::optional<ImageShape> s = image();
  return s && is_pointwise(*s);
}

bool FoldedConvolution::has_shift() const {
  const std::vector<double>& shift = epilogue.affine()->shift;
  return std::any_of(shift.begin(), shift.end(), [](double v) { return v != 0; });
}

Tensor FoldedConvolution::scaled_weights(const Planner& planner) const {
  const Tensor& given = planner.constant(node.inputs[1]);
  if (!epilogue.affine()) return given;
  const float* w = given.data<float>().data();
  Tensor result(DataType::kFloat, given.sizes());
  float* to = result.mutable_data<float>().data();
  const std::vector<double>& scale = epilogue.affine()->scale;
  const std::size_t axis = shape.output_axis();
  std::int64_t inner = 1;
  for (std::size_t a = axis + 1; a < shape.w.size(); ++a) inner *= shape.w[a];
  const std::int64_t outputs = shape.w[axis], rows = given.size() / inner;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t channel = row % outputs;
    if (shape.transposed)  // outputs of the input channel's group
      channel += row / outputs / (shape.w[0] / shape.group) * outputs;
    const double by = scale[static_cast<std::size_t>(channel)];
    for (std::int64_t i = row * inner; i < (row + 1) * inner; ++i) to[i] = static_cast<float>(w[i] * by);
  }
  return result;
}

std::vector<double> FoldedConvolution::exact_bias(const Planner& planner) const {
  std::vector<double> result(static_cast<std::size_t>(shape.y[1]));
  if (planner.has(node, 2)) {
    const auto bias = planner.constant(node.inputs[2]).data<float>();
    std::copy(bias.begin(), bias.end(), result.begin());
  }
  if (const ChannelAffine* const affine = epilogue.affine().get())
    for (std::size_t c = 0; c < result.size(); ++c) result[c] = result[c] * affine->scale[c] + affine->shift[c];
  return result;
}

Tensor FoldedConvolution::shifted_bias(const Planner& planner) const {
  return Tensor::from_reals(DataType::kFloat, {shape.y[1]}, exact_bias(planner));
}

std::vector<float> FoldedConvolution::bias(const Planner& planner) const {
  const std::vector<double> exact = exact_bias(planner);
  return {exact.begin(), exact.end()};
}

Weights FoldedConvolution::weights(Planner& planner) const {
  return {[this, &planner] { return scaled_weights(planner); }, origin(planner),
          [&planner](const ConstantOrigin& origin, const std::string& how, std::size_t bytes,
                     const std::function<void(std::byte*)>& fill) { return planner.prepared(origin, how, bytes, fill); }};
}

ConstantOrigin FoldedConvolution::origin(const Planner& planner) const {
  ConstantOrigin result(planner.constant(node.inputs[1]));
  result.add(shape.group).add(shape.transposed);
  for (const std::int64_t d : shape.dilations) result.add(d);
  if (epilogue.affine()) result.add(std::span(epilogue.affine()->scale));
  return result;
}

Finish FoldedConvolution::finish(const Planner& planner) const {
  const auto simple = epilogue.simple(planner.options().isa);
  return {bias(planner), simple->addition, simple->low, simple->high, simple->function};
}

std::optional<FoldedConvolution> read_folded_convolution(const Planner& planner, const Node& node) {
  std::optional<ConvolutionShape> shape = read_convolution(planner, node, node.op->name() == "ConvTranspose");
  if (!shape) return std::nullopt;
  const bool bias_is_constant = !planner.has(node, 2) || planner.constant(node.inputs[2]);
  FoldedConvolution result{node, std::move(*shape)};
  result.constant_weights = planner.constant(node.inputs[1]) && bias_is_constant;
  result.input = node.inputs[0];
  return result;
}

}  // namespace rewright::cpu
