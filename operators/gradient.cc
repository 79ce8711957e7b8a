#include "operators/gradient.h"

#include <algorithm>

namespace rewright::operators {

ValueId GraphBuilder::add(std::string_view name, std::vector<ValueId> inputs, const Fields& fields) {
  const Operator& op = registry().get(name);
  Attributes attributes = op.defaults();
  for (const auto& [field, value] : fields) attributes.at(op.field(field).value()) = value;
  return node(op, std::move(attributes), std::move(inputs)).at(0);
}

ValueId GraphBuilder::scalar(DataType type, double value) { return constant(Tensor::scalar(type, value)); }

ValueId GraphBuilder::filled(const TensorType& type, double value) {
  return add("Fill", {}, {{"value", Real(value)}, {"type", type.type}, {"shape", type.shape}});
}

ValueId GraphBuilder::reshaped(ValueId x, const Indices& shape) {
  return shape_of(x) == shape ? x : add("Reshape", {x}, {{"shape", shape}});
}

ValueId GraphBuilder::transposed(ValueId x, const Indices& perm) {
  for (std::size_t a = 0; a < perm.size(); ++a)
    if (!(perm[a] == Index(a))) return add("Transpose", {x}, {{"perm", perm}});
  return x;
}

ValueId GraphBuilder::cast(ValueId x, DataType type) { return type_of(x).type == type ? x : add("Cast", {x}, {{"to", type}}); }

ValueId GraphBuilder::summed(ValueId x, const Indices& axes) {
  if (axes.empty()) return x;
  const Indices& shape = shape_of(x);
  Indices rest;
  bool ones = true;
  for (std::size_t a = 0; a < shape.size(); ++a) {
    if (std::find(axes.begin(), axes.end(), Index(a)) == axes.end())
      rest.push_back(shape[a]);
    else
      ones = ones && shape[a] == Index(1);
  }
  return ones ? reshaped(x, rest) : add("ReduceSum", {x}, {{"axes", axes}, {"keepdims", false}});
}

std::vector<ValueId> add_gradient(const GradientCall& call) {
  GradientCall real = call;
  real.wanted.resize(call.inputs.size(), false);
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (call.inputs[i] == kNoGradient || !is_real(call.graph.type_of(call.inputs[i]).type)) real.wanted[i] = false;
  const bool none_given =
      std::all_of(call.output_gradients.begin(), call.output_gradients.end(), [](ValueId g) { return g == kNoGradient; });
  if (none_given || std::find(real.wanted.begin(), real.wanted.end(), true) == real.wanted.end()) return call.none();
  return call.op.gradient() ? call.op.gradient()(real) : derived_gradient(real);
}

}  // namespace rewright::operators
