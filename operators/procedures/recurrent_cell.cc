#include "operators/procedures/recurrent_cell.h"

#include <string_view>

namespace rewright::operators {

ValueId activated(GraphBuilder& graph, const Activation& f, ValueId x) {
  const DataType type = graph.type_of(x).type;
  const auto alpha = [&](double otherwise) { return Real(f.alpha.value_or(otherwise)); };
  const auto scaled = [&](ValueId v, double by) { return graph.add("Mul", {v, graph.scalar(type, by)}); };
  for (const std::string_view plain : {"Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"})
    if (f.name == plain) return graph.add(plain, {x});
  if (f.name == "LeakyRelu") return graph.add("LeakyRelu", {x}, {{"alpha", alpha(0.01)}});
  if (f.name == "ThresholdedRelu" || f.name == "Elu") return graph.add(f.name, {x}, {{"alpha", alpha(1)}});
  if (f.name == "HardSigmoid")
    return graph.add("HardSigmoid", {x}, {{"alpha", alpha(0.2)}, {"beta", Real(f.beta.value_or(0.5))}});
  if (f.name == "Affine") return graph.add("Add", {scaled(x, f.alpha.value_or(1)), graph.scalar(type, f.beta.value_or(0))});
  if (f.name == "ScaledTanh") return scaled(graph.add("Tanh", {scaled(x, f.beta.value_or(1))}), f.alpha.value_or(1));
  throw Error(ErrorCode::kBadInput, "there is no activation '" + f.name + "'");
}

namespace {

// The arithmetic of a step.
struct CellFormulas : CellStep {
  explicit CellFormulas(const CellStep& step) : CellStep(step) {}
  ValueId sum(ValueId a, ValueId b) const { return graph.add("Add", {a, b}); }
  ValueId product(ValueId a, ValueId b) const { return graph.add("Mul", {a, b}); }
  ValueId complement(ValueId a) const { return graph.add("Sub", {graph.scalar(graph.type_of(a).type, 1), a}); }
  // a b^T + c, where b is r or a part of it. Constants are transposed once: adding up rows of the transpose is faster.
  ValueId matrix_product(ValueId a, ValueId b, ValueId c) const {
    if (r_is_constant) {
      const ValueId product = graph.add("MatMul", {a, graph.transposed(b, {1, 0})});
      return c == kNoGradient ? product : sum(product, c);
    }
    std::vector<ValueId> operands{a, b};
    if (c != kNoGradient) operands.push_back(c);
    return graph.add("Gemm", std::move(operands), {{"transB", true}});
  }
  // The entries of an axis that belong to `count` gates, from gate `first` on.
  ValueId gates(ValueId v, std::int64_t first, std::int64_t count, std::size_t axis) const {
    const Indices& shape = graph.shape_of(v);
    Indices begin(shape.size(), 0), length = shape;
    begin[axis] = first * hidden, length[axis] = count * hidden;
    return graph.add("Slice", {v}, {{"begin", begin}, {"length", length}});
  }
  ValueId gate(ValueId v, std::int64_t number) const { return gates(v, number, 1, 1); }
  ValueId with_peephole(ValueId v, std::int64_t number, ValueId cell) const {
    return peepholes == kNoGradient ? v : sum(v, product(gates(peepholes, number, 1, 0), cell));
  }
  ValueId f(std::size_t number, ValueId v) const {
    const DataType type = graph.type_of(v).type;
    if (clip) v = graph.add("Clip", {v, graph.scalar(type, -*clip), graph.scalar(type, *clip)});
    return activated(graph, activations[number], v);
  }
};

// h = f(x W^T + h R^T + b)
std::vector<ValueId> rnn_step(const CellFormulas& s) { return {s.f(0, s.matrix_product(s.states[0], s.r, s.x))}; }

// Gates z (update), r (reset) and the new value; linear_before_reset says whether r comes after the state's product.
std::vector<ValueId> gru_step(const CellFormulas& s, bool reset_after) {
  const ValueId h = s.states[0];
  ValueId z = kNoGradient, value = kNoGradient;
  if (reset_after) {
    const ValueId products = s.matrix_product(h, s.r, s.state_bias);
    const auto gate = [&](std::int64_t n) { return s.f(0, s.sum(s.gate(s.x, n), s.gate(products, n))); };
    z = gate(0);
    value = s.f(1, s.sum(s.gate(s.x, 2), s.product(gate(1), s.gate(products, 2))));
  } else {
    const ValueId sums = s.matrix_product(h, s.gates(s.r, 0, 2, 0), s.gates(s.x, 0, 2, 1));
    const ValueId reset = s.product(s.f(0, s.gate(sums, 1)), h);
    z = s.f(0, s.gate(sums, 0));
    value = s.f(1, s.matrix_product(reset, s.gates(s.r, 2, 1, 0), s.gate(s.x, 2)));
  }
  return {s.sum(s.product(s.complement(z), value), s.product(z, h))};
}

// Gates i, o, f and the new cell value c, with peepholes from the cell to the first three.
std::vector<ValueId> lstm_step(const CellFormulas& s, bool couples) {
  const ValueId before = s.states[1], h = s.states[0];
  const ValueId sums = s.state_product ? s.sum(s.state_product(h), s.x) : s.matrix_product(h, s.r, s.x);
  const ValueId in = s.f(0, s.with_peephole(s.gate(sums, 0), 0, before));
  const ValueId forget = couples ? s.complement(in) : s.f(0, s.with_peephole(s.gate(sums, 2), 2, before));
  const ValueId cell = s.sum(s.product(forget, before), s.product(in, s.f(1, s.gate(sums, 3))));
  const ValueId out = s.f(0, s.with_peephole(s.gate(sums, 1), 1, cell));
  return {s.product(out, activated(s.graph, s.activations[2], cell)), cell};
}

std::vector<Activation> read_activations(const OnnxAttributes& node, const std::vector<std::string>& defaults) {
  const std::size_t directions = node.text("direction", "forward") == "bidirectional" ? 2 : 1;
  std::vector<std::string> names = node.texts("activations");
  if (names.empty())
    for (std::size_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  if (names.size() < defaults.size() * directions) throw Error(ErrorCode::kBadInput, "has too few activations");
  const std::vector<double> alphas = node.reals("activation_alpha"), betas = node.reals("activation_beta");
  std::vector<Activation> activations;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Activation& f = activations.emplace_back(Activation{names[i], {}, {}});
    if (i < alphas.size()) f.alpha = alphas[i];
    if (i < betas.size()) f.beta = betas[i];
  }
  return activations;
}

}  // namespace

RecurrentKind recurrent_kind(const OnnxAttributes& node) {
  const auto kind = [&](std::int64_t gates, std::vector<std::size_t> states, bool splits, std::vector<std::string> defaults,
                        Cell cell) {
    return RecurrentKind{gates, std::move(states), splits, read_activations(node, defaults), defaults.size(), std::move(cell)};
  };
  constexpr std::size_t kInitialH = 5, kInitialC = 6;
  if (node.type() == "RNN")
    return kind(1, {kInitialH}, false, {"Tanh"}, [](const CellStep& s) { return rnn_step(CellFormulas(s)); });
  if (node.type() == "GRU") {
    const bool after = node.integer("linear_before_reset", 0) != 0;
    return kind(3, {kInitialH}, after, {"Sigmoid", "Tanh"},
                [after](const CellStep& s) { return gru_step(CellFormulas(s), after); });
  }
  const bool couples = node.integer("input_forget", 0) != 0;
  return kind(4, {kInitialH, kInitialC}, false, {"Sigmoid", "Tanh", "Tanh"},
              [couples](const CellStep& s) { return lstm_step(CellFormulas(s), couples); });
}

}  // namespace rewright::operators
