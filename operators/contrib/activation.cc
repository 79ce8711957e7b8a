// Activations, with the biases that are added before them.
#include "operators/contrib/contrib.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

ValueId gelu(ContribNode& n, ValueId x, bool is_approximate) {
  return n.b.add("Gelu", {x}, {{"approximate", std::string(is_approximate ? "tanh" : "none")}});
}

Results plain_gelu(ContribNode& n, std::string&) { return n.results({gelu(n, n.input(0), false)}); }

Results bias_gelu(ContribNode& n, std::string&) { return n.results({gelu(n, n.plus(n.input(0), n.input(1)), false)}); }

Results fast_gelu(ContribNode& n, std::string&) { return n.results({gelu(n, n.plus(n.input(0), n.optional_input(1)), true)}); }

// x * sigmoid(alpha x).
Results quick_gelu(ContribNode& n, std::string&) {
  return n.results({n.b.add("Swish", {n.input(0)}, {{"alpha", Real(n.source.real("alpha", 1.702f))}})});
}

// The left half of x + bias, times the Gelu of the right one.
Results bias_split_gelu(ContribNode& n, std::string& reason) {
  const ValueId x = n.plus(n.input(0), n.input(1));
  const Indices shape = n.b.shape_of(x);
  n.require(!shape.empty(), "its input has no axes");
  const std::size_t last = shape.size() - 1;
  if (!shape[last].is_constant()) {
    reason = "the number of its columns is not known";
    return std::nullopt;
  }
  n.require(shape[last].value() % 2 == 0, "its input has " + shape[last].to_string() + " columns, must be even");
  const Index half = shape[last].value() / 2;
  const ValueId left = n.entries(x, last, 0, half), right = n.entries(x, last, half, half);
  return n.results({n.b.add("Mul", {left, gelu(n, right, false)})});
}

Results bias_add(ContribNode& n, std::string&) { return n.results({n.plus(n.plus(n.input(0), n.input(1)), n.input(2))}); }

// softmax(x + bias) over all axes from `axis` on.
Results bias_softmax(ContribNode& n, std::string&) {
  const ValueId x = n.plus(n.input(0), n.input(1));
  return n.results({n.b.add("Softmax", {x}, {{"axis", Index(n.source.integer("axis", 1))}, {"flatten", true}})});
}

}  // namespace

void register_contrib_activation(ContribOperators& c) {
  c.add("Gelu", plain_gelu);
  c.add("BiasGelu", bias_gelu);
  c.add("FastGelu", fast_gelu);
  c.add("QuickGelu", quick_gelu);
  c.add("BiasSplitGelu", bias_split_gelu);
  c.add("BiasAdd", bias_add);
  c.add("BiasSoftmax", bias_softmax);
}

}  // namespace rewright::operators
