// Gates, and the streams of hyper-connections (Zhu et al., arXiv:2409.19606) that are mixed with them.
#include <cmath>
#include <string>

#include "operators/contrib/contrib.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

ValueId as_floats(ContribNode& n, std::size_t i) { return n.b.cast(n.input(i), DataType::kFloat); }

// Rows divided by their root mean square, times `scale`, which is broadcast; kNoGradient: 1.
ValueId root_mean_square(ContribNode& n, ValueId x, ValueId scale, double epsilon) {
  n.require(!n.b.shape_of(x).empty(), "an operand has no axes");
  const ValueId ones = n.b.filled({n.b.type_of(x).type, {n.b.shape_of(x).back()}}, 1);
  const ValueId y = n.b.add("RMSNormalization", {x, ones}, {{"axis", Index(-1)}, {"epsilon", Real(epsilon)}});
  return scale == kNoGradient ? y : n.b.add("Mul", {y, scale});
}

// [..., parts * size] as [..., parts, size].
ValueId divided(ContribNode& n, ValueId x, const Index& parts) {
  Indices shape = n.b.shape_of(x);
  n.require(!shape.empty(), "an operand has no axes");
  const Index all = shape.back();
  n.require(all.is_constant() && parts.is_constant() && parts.value() > 0 && all.value() % parts.value() == 0,
            all.to_string() + " columns cannot be divided into " + parts.to_string());
  shape.back() = parts;
  shape.emplace_back(all.value() / parts.value());
  return n.b.reshaped(x, shape);
}

Results gated_root_mean_square(ContribNode& n, std::string&) {
  const std::string activation = n.source.text("activation", "silu");
  n.require(activation == "silu" || activation == "swish" || activation == "sigmoid",
            "activation is " + activation + ", must be silu, swish or sigmoid");
  n.require_rank(1, 1);
  const Indices shape = n.shape(0);
  n.require(!shape.empty() && shape.back().is_constant() && n.shape(1)[0].is_constant() && n.shape(1)[0].value() > 0,
            "the number of its columns is not known");
  const ValueId x = divided(n, as_floats(n, 0), shape.back().value() / n.shape(1)[0].value());
  n.require_equal(n.b.shape_of(x).back(), n.shape(1)[0], "the number of its columns");
  const ValueId y = root_mean_square(n, x, as_floats(n, 1), n.source.real("epsilon", 1e-5f));
  const ValueId gate = n.b.add(activation == "sigmoid" ? "Sigmoid" : "Swish", {as_floats(n, 2)});
  return n.results({n.b.cast(n.b.add("Mul", {n.b.reshaped(y, shape), gate}), n.type(0))});
}

// X with its branches as an axis of their own, in floats.
ValueId branches(ContribNode& n) {
  const std::int64_t count = n.source.integer("num_branches", 0);
  n.require(count >= 0, "num_branches is " + std::to_string(count) + ", must not be negative");
  const ValueId x = as_floats(n, 0);
  n.require(n.b.shape_of(x).size() >= (count > 0 ? 1u : 2u), "its input has too few axes");
  return count > 0 ? divided(n, x, count) : x;
}

Results branchwise_root_mean_square(ContribNode& n, std::string&) {
  const ValueId x = branches(n);
  const Indices shape = n.b.shape_of(x);
  const std::size_t rank = shape.size();
  ValueId scale = kNoGradient;
  if (n.has(1)) {
    scale = as_floats(n, 1);
    const Indices given = n.b.shape_of(scale);
    n.require(given.size() == 1 || given.size() == 2, "its scale has rank " + std::to_string(given.size()));
    if (given.size() == 1 && given[0] != shape[rank - 1]) scale = n.b.reshaped(scale, {shape[rank - 2], shape[rank - 1]});
  }
  const ValueId y = root_mean_square(n, x, scale, n.source.real("epsilon", 1e-5f));
  return n.results({n.b.cast(n.b.reshaped(y, n.shape(0)), n.type(0))});
}

Results gated_add(ContribNode& n, std::string&) {
  return n.results({n.b.add("Add", {n.input(0), n.b.add("Mul", {n.input(1), n.input(2)})})});
}

Results scaled_silu(ContribNode& n, std::string&) {
  const ValueId x = n.input(0);
  ValueId z = kNoGradient;
  if (n.has(1))
    z = n.b.add("Mul", {x, n.b.reshaped(n.b.cast(n.input(1), n.type(0)), {})});
  else
    z = n.scaled(x, n.source.real("alpha", 1));
  return n.results({n.b.add("Swish", {z})});
}

// Factors of branches, [..., C], [..., C, 1], [..., C, H] or [..., C * H], so that they broadcast to `shape`, [..., C, H].
ValueId factors(ContribNode& n, std::size_t i, const Indices& shape) {
  const ValueId given = as_floats(n, i);
  Indices sizes = n.b.shape_of(given);
  if (sizes.size() == shape.size()) return given;
  n.require(sizes.size() + 1 == shape.size(), "its input " + std::to_string(i) + " has rank " + std::to_string(sizes.size()));
  const Index count = shape[shape.size() - 2];
  if (sizes.back() != count) return divided(n, given, count);
  sizes.emplace_back(1);
  return n.b.reshaped(given, sizes);
}

Results pre_mix(ContribNode& n, std::string&) {
  const ValueId x = branches(n);
  const Indices shape = n.b.shape_of(x);
  const ValueId sum = n.b.summed(n.b.add("Mul", {x, factors(n, 1, shape)}), {Index(shape.size() - 2)});
  return n.results({n.b.cast(n.scaled(sum, n.source.real("reduction_scale", 1)), n.type(0))});
}

Results post_mix(ContribNode& n, std::string&) {
  ValueId x = branches(n);
  const Indices shape = n.b.shape_of(x);
  const std::size_t rank = shape.size();
  if (n.has(3)) {
    n.require_rank(3, rank);
    x = n.b.add("MatMul", {n.swapped(as_floats(n, 3), rank - 2, rank - 1), x});
  }
  Indices one = shape;
  one[rank - 2] = 1;
  const ValueId block = n.b.reshaped(as_floats(n, 1), one);
  const ValueId y = n.b.add("Add", {x, n.b.add("Mul", {factors(n, 2, shape), block})});
  return n.results({n.b.cast(n.b.reshaped(y, n.shape(0)), n.type(0))});
}

// g * value, g = sigmoid(sign(d) sqrt(max(|d|, 1e-6))), d = sum(norm(key) norm(query)) / sqrt(size).
Results engram_gate(ContribNode& n, std::string&) {
  constexpr double kLeast = 1e-6;
  n.require_rank(0, 4), n.require_rank(1, 4), n.require_rank(2, 3);
  const Indices shape = n.shape(0);
  n.require(shape[3].is_constant() && shape[3].value() > 0, "the number of its columns is not known");
  const double epsilon = n.source.real("epsilon", 1e-5f);
  Formulas f(n.b, DataType::kFloat);
  const ValueId products = f.times(root_mean_square(n, as_floats(n, 0), as_floats(n, 3), epsilon),
                                   root_mean_square(n, as_floats(n, 1), as_floats(n, 4), epsilon));
  const ValueId dot = f.scaled(n.b.add("ReduceSum", {products}, {{"axes", Indices{3}}, {"keepdims", true}}),
                               1 / std::sqrt(static_cast<double>(shape[3].value())));
  const ValueId size = n.b.add("Sqrt", {f.at_least(n.b.add("Abs", {dot}), kLeast)});
  const ValueId gate = n.b.add("Sigmoid", {f.times(n.b.add("Sign", {dot}), size)});
  const Indices value = n.shape(2);
  const ValueId y = f.times(gate, n.b.reshaped(as_floats(n, 2), {value[0], value[1], 1, value[2]}));
  std::vector<ValueId> results{n.b.cast(y, n.type(0))};
  if (n.has(5)) results.push_back(n.b.cast(root_mean_square(n, y, as_floats(n, 5), epsilon), n.type(0)));
  return n.results(results);
}

}  // namespace

void register_contrib_gates(ContribOperators& c) {
  c.add("GatedRMSNorm", gated_root_mean_square);
  c.add("BranchwiseRMSNorm", branchwise_root_mean_square);
  c.add("GatedAdd", gated_add);
  c.add("ScaledSiLU", scaled_silu);
  c.add("HyperConnectionPreMix", pre_mix);
  c.add("HyperConnectionPostMix", post_mix);
  c.add("EngramGate", engram_gate);
}

}  // namespace rewright::operators
