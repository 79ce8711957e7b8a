#include "generator/enumeration/leaves.h"

#include <algorithm>
#include <utility>

#include "generator/enumeration/operator_list.h"

namespace rewright::generator {

Leaves::BatchNormParameters Leaves::add_batch_norm() {
  std::array<std::uint32_t, 4> own{};
  const Index channels = output_channels();
  for (std::size_t k = 0; k < own.size(); ++k) {
    static constexpr std::array<const char*, 4> kNames = {"gamma", "beta", "mean", "var"};
    own[k] = static_cast<std::uint32_t>(leaves_.size());
    add_variables(kNames[k], 1, {channels}, true);
    leaves_.back().parameter = true;
  }
  const auto zeros = static_cast<std::uint32_t>(leaves_.size());
  const Operator& fill = operator_named("Fill");
  add_constant("zeros", "Fill", attributes_of(fill, {{"value", Real(0.0)}, {"shape", Indices{channels}}}), true);
  leaves_.back().parameter = true;
  return {own, zeros};
}

void Leaves::add_variables(const std::string& name, std::size_t count, const Indices& shape, bool weight) {
  if (weight) count = std::min(count, weight_variables);
  for (std::size_t i = 1; i <= count; ++i)
    leaves_.push_back({name + (count > 1 ? std::to_string(i) : ""), {DataType::kFloat, shape}, groups_, weight});
  ++groups_;
}
void Leaves::add_constant(const std::string& name, const std::string& op, Attributes attributes, bool weight) {
  const Operator& o = operator_named(op);
  const Inputs none(std::vector<Operand>{});
  attributes = o.normalized(std::move(attributes), none);
  const TensorType type = o.define(attributes, none.types_only()).outputs().at(0).type;
  leaves_.push_back({name, type, -1, weight, &o, std::move(attributes)});
}

void Leaves::add_needed() {
  const auto symbol = [](const char* name) { return Index::symbol(name); };
  const Index n = symbol("N"), c = symbol("C"), h = symbol("H"), w = symbol("W"), m = symbol("M"), k = symbol("K");
  for (std::size_t s = 0; s < shapes.size(); ++s)
    add_variables(std::string(1, "xwuv"[s]), variables_of_shape, shapes[s], false);
  if (shapes.empty() && (matrices || !images)) add_variables("x", 3, {m, k}, false);
  if (shapes.empty() && matrices) add_variables("w", 3, {k, k}, true);
  if (biases) add_variables("b", 2, {k}, true);
  if (images && one_even_image) add_variables("i", 1, {n * 2, groups() * c, h * 2, w * 2}, false);
  if (images && !one_even_image) add_variables("i", 3, {n, c, h, w}, false);
  for (const KernelSize& size : kernels) {
    const std::string suffix = std::to_string(size.height) + std::to_string(size.width) + "_";
    add_variables("k" + suffix, 3, {output_channels(), c, size.height, size.width}, true);
  }
  for (const KernelSize& size : transposed) {
    const std::string suffix = std::to_string(size.height) + std::to_string(size.width) + "_";
    add_variables("t" + suffix, 3, {c, output_channels(), size.height, size.width}, true);
  }
  if (channel_biases) add_variables("c", 3, {output_channels()}, true);
  if (kernels.count({3, 3}) && !other_channels) add_variables("d33", 1, {c, 1, 3, 3}, true);
  if (multiplies) add_variables("s", 1, {}, false);
  const Operator &fill = operator_named("Fill"), &dirac = operator_named("DiracKernel"), &eye = operator_named("Eye");
  if (adds) add_constant("zero", "Fill", attributes_of(fill, {{"value", Real(0.0)}}), false);
  if (multiplies) add_constant("one", "Fill", attributes_of(fill, {{"value", Real(1.0)}}), false);
  for (const std::int64_t n : numbers)
    add_constant("number " + std::to_string(n), "Fill", attributes_of(fill, {{"value", Real(static_cast<double>(n))}}), false);
  if (batch_norms)
    add_constant("row", "Fill", attributes_of(fill, {{"value", Real(0.0)}, {"shape", Indices{1, output_channels()}}}), true);
  if (matrices) add_constant("eye", "Eye", attributes_of(eye, {{"size", k}}), true);
  for (const KernelSize& size : kernels)
    if (size.height % 2 == 1 && size.width % 2 == 1 && !other_channels)
      add_constant("dirac" + std::to_string(size.height) + std::to_string(size.width), "DiracKernel",
                   attributes_of(dirac, {{"channels", c},
                                         {"kernel", Indices{size.height, size.width}},
                                         {"centre", Indices{(size.height - 1) / 2, (size.width - 1) / 2}}}),
                   true);
  for (const KernelSize& size : averages)
    if (kernels.count(size)) {
      add_constant("mean" + std::to_string(size.height) + std::to_string(size.width), "Fill",
                   attributes_of(fill, {{"value", Real(1.0)}, {"shape", Indices{c, 1, size.height, size.width}}}), true);
      leaves_.back().divisor = size.height * size.width;
    }
}

}  // namespace rewright::generator
