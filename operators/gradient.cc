#include "operators/gradient.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "operators/determinant.h"
#include "operators/quantization.h"

namespace rewright {

// ---- Building

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

// ---- Stated and derived

const GradientFunction* Gradients::find(const Operator& op) const {
  const auto at = stated_.find(op.name());
  return at == stated_.end() ? nullptr : &at->second;
}

const TrainingFunction* Gradients::find_training_form(const Operator& op) const {
  const auto at = forms_.find(op.name());
  return at == forms_.end() ? nullptr : &at->second;
}

const Gradients& stated_gradients() {
  static const Gradients all = [] {
    Gradients g;
    for (const auto& add : {register_convolution_gradients, register_pooling_gradients, register_softmax_gradients,
                            register_normalization_gradients, register_reduction_gradients, register_layout_gradients,
                            register_blocks_gradients, register_assembly_gradients, register_slice_gradients,
                            register_indexing_gradients, register_scatter_gradients, register_generation_gradients,
                            register_resize_gradients, register_determinant_gradients, register_quantization_gradients})
      add(g);
    return g;
  }();
  return all;
}

std::vector<ValueId> add_gradient(const GradientCall& call) {
  GradientCall real = call;
  real.wanted.resize(call.inputs.size(), false);
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (call.inputs[i] == kNoGradient || !is_real(call.graph.type_of(call.inputs[i]).type)) real.wanted[i] = false;
  const bool none_given =
      std::all_of(call.output_gradients.begin(), call.output_gradients.end(), [](ValueId g) { return g == kNoGradient; });
  if (none_given || std::find(real.wanted.begin(), real.wanted.end(), true) == real.wanted.end()) return call.none();
  const GradientFunction* stated = stated_gradients().find(call.op);
  return stated ? (*stated)(real) : derived_gradient(real);
}

// ---- Functions

Element derivative(const Function& f, std::span<const Element> arguments, const Element& value, std::size_t which) {
  namespace fn = functions;
  static const std::set<const Function*> flat{
      &fn::sign,        &fn::floor,       &fn::ceil,       &fn::round_even,  &fn::equal,  &fn::less,       &fn::less_equal,
      &fn::logical_not, &fn::logical_and, &fn::logical_or, &fn::logical_xor, &fn::is_nan, &fn::is_infinite};
  if (flat.contains(&f)) return nullptr;
  const Element& x = arguments[0];
  const Element one = real(1);
  const auto square = [](const Element& e) { return e * e; };
  if (&f == &fn::nearest_float) return one;  // as a cast to float
  if (&f == &fn::exp) return value;
  if (&f == &fn::log) return one / x;
  if (&f == &fn::sqrt) return real(0.5) / value;
  if (&f == &fn::rsqrt) return real(-0.5) * value / x;
  if (&f == &fn::erf) return real(2 / std::sqrt(std::numbers::pi)) * apply(fn::exp, -square(x));
  if (&f == &fn::tanh) return one - square(value);
  if (&f == &fn::sigmoid) return value * (one - value);
  if (&f == &fn::softplus) return apply(fn::sigmoid, x);
  if (&f == &fn::sin) return apply(fn::cos, x);
  if (&f == &fn::cos) return -apply(fn::sin, x);
  if (&f == &fn::tan) return one + square(value);
  if (&f == &fn::asin) return one / apply(fn::sqrt, one - square(x));
  if (&f == &fn::acos) return real(-1) / apply(fn::sqrt, one - square(x));
  if (&f == &fn::atan) return one / (one + square(x));
  if (&f == &fn::sinh) return apply(fn::cosh, x);
  if (&f == &fn::cosh) return apply(fn::sinh, x);
  if (&f == &fn::asinh) return one / apply(fn::sqrt, square(x) + one);
  if (&f == &fn::acosh) return one / apply(fn::sqrt, square(x) - one);
  if (&f == &fn::atanh) return one / (one - square(x));
  if (&f == &fn::abs) return apply(fn::sign, x);
  if (&f == &fn::pow && which == 0) return arguments[1] * apply(fn::pow, x, arguments[1] - one);
  if (&f == &fn::pow) {  // at x = 0 the value is flat in a positive exponent
    const Element positive = apply(fn::less, real(0), x);
    return select(positive, value * apply(fn::log, select(positive, x, one)), real(0));
  }
  if (&f == &fn::floor_modulo || &f == &fn::truncated_modulo) {
    if (which == 0) return one;
    const Element quotient = (x - value) / arguments[1];  // a whole number
    return -quotient;
  }
  throw Error(ErrorCode::kUnsupported, "the function " + std::string(f.name) + " has no derivative");
}

}  // namespace rewright
