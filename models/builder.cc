#include "models/builder.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rewright::models {

ValueId Builder::input(const std::string& name, Sizes sizes, DataType type) {
  return graph_.add_input(name, {type, to_indices(sizes)});
}

std::vector<ValueId> Builder::nodes(std::string_view name, std::vector<ValueId> inputs, NamedAttributes named) {
  const Operator& op = registry().get(name);
  Attributes attributes = op.defaults();
  for (const auto& [field, value] : named) {
    const auto at = op.field(field);
    if (!at) throw Error(ErrorCode::kUsage, "operator " + op.name() + " has no attribute " + std::string(field));
    attributes[*at] = value;
  }
  return graph_.add_node(op, std::move(attributes), std::move(inputs));
}

double Builder::next_uniform() {  // xorshift64*: Vigna, 2016
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return static_cast<double>((state_ * 0x2545f4914f6cdd1dULL) >> 11) * 0x1p-53;
}

std::string Builder::weight_name(std::string_view kind) { return std::string(kind) + "_" + std::to_string(weights_++); }

ValueId Builder::normal(Sizes sizes, double mean, double deviation) {
  Tensor t(DataType::kFloat, std::move(sizes));
  auto out = t.mutable_data<float>();
  for (std::size_t i = 0; i < out.size(); i += 2) {  // Box and Muller, 1958
    const double radius = deviation * std::sqrt(-2 * std::log(1 - next_uniform()));
    const double angle = 2 * std::numbers::pi * next_uniform();
    out[i] = static_cast<float>(mean + radius * std::cos(angle));
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(mean + radius * std::sin(angle));
  }
  return graph_.add_constant(std::move(t), weight_name("weight"));
}

ValueId Builder::uniform(Sizes sizes, double low, double high) {
  Tensor t(DataType::kFloat, std::move(sizes));
  for (float& v : t.mutable_data<float>()) v = static_cast<float>(low + (high - low) * next_uniform());
  return graph_.add_constant(std::move(t), weight_name("weight"));
}

ValueId Builder::scalar(double value) {
  return graph_.add_constant(Tensor::scalar(DataType::kFloat, value), weight_name("scalar"));
}

ValueId Builder::causal_mask(std::int64_t n) {
  Tensor t(DataType::kFloat, {1, 1, n, n});
  auto out = t.mutable_data<float>();
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t column = 0; column < n; ++column) out[row * n + column] = column > row ? -1e4f : 0;
  return graph_.add_constant(std::move(t), weight_name("mask"));
}

ValueId Builder::conv(ValueId x, std::int64_t channels, Window w, std::int64_t group, bool bias) {
  const std::int64_t in = size(x, 1) / group;
  const double deviation = std::sqrt(2.0 / static_cast<double>(in * w.height * w.width));
  std::vector<ValueId> inputs = {x, normal({channels, in, w.height, w.width}, 0, deviation)};
  if (bias) inputs.push_back(normal({channels}, 0, 0.05));
  return node("Conv", std::move(inputs),
              {{"strides", Indices{w.stride, w.stride}},
               {"dilations", Indices{1, 1}},
               {"pads_begin", Indices{w.pad_height, w.pad_width}},
               {"pads_end", Indices{w.pad_height, w.pad_width}},
               {"group", Index(group)}});
}

ValueId Builder::batch_norm(ValueId x, double epsilon, double gain) {
  const Sizes channels = {size(x, 1)};
  const ValueId scale = uniform(channels, 0.7 * gain, 1.3 * gain), shift = normal(channels, 0, 0.1);
  const ValueId mean = normal(channels, 0, 0.2), variance = uniform(channels, 0.5, 1.5);
  return node("BatchNormalization", {x, scale, shift, mean, variance}, {{"epsilon", Real(epsilon)}});
}

ValueId Builder::pool(std::string_view op, ValueId x, Window w, bool ceil_mode) {
  return node(op, {x},
              {{"kernel", Indices{w.height, w.width}},
               {"strides", Indices{w.stride, w.stride}},
               {"dilations", Indices{1, 1}},
               {"pads_begin", Indices{w.pad_height, w.pad_width}},
               {"pads_end", Indices{w.pad_height, w.pad_width}},
               {"ceil_mode", ceil_mode}});
}

ValueId Builder::average_pool(ValueId x, Window w, bool count_include_pad) {
  return node("AveragePool", {x},
              {{"kernel", Indices{w.height, w.width}},
               {"strides", Indices{w.stride, w.stride}},
               {"dilations", Indices{1, 1}},
               {"pads_begin", Indices{w.pad_height, w.pad_width}},
               {"pads_end", Indices{w.pad_height, w.pad_width}},
               {"count_include_pad", count_include_pad}});
}

ValueId Builder::classifier(ValueId x, std::int64_t count) {
  const std::int64_t features = size(x, 1);
  const ValueId w = normal({count, features}, 0, std::sqrt(1.0 / static_cast<double>(features)));
  return node("Gemm", {x, w, normal({count}, 0, 0.05)}, {{"transB", true}});
}

ValueId Builder::linear(ValueId x, std::int64_t features, bool bias) {
  const std::int64_t in = size(x, graph_.value(x).type.rank() - 1);
  const ValueId y = node("MatMul", {x, normal({in, features}, 0, std::sqrt(1.0 / static_cast<double>(in)))});
  return bias ? add(y, normal({features}, 0, 0.05)) : y;
}

ValueId Builder::layer_norm(ValueId x, double epsilon) {
  const Sizes features = {size(x, graph_.value(x).type.rank() - 1)};
  return node("LayerNormalization", {x, uniform(features, 0.5, 1.5), normal(features, 0, 0.1)},
              {{"axis", Index(-1)}, {"epsilon", Real(epsilon)}});
}

}  // namespace rewright::models
