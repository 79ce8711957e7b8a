#include "optimizer/folding/rounding.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "expressions/function.h"
#include "optimizer/devices/device.h"

namespace rewright::optimizer {

namespace {

// Is the function discontinuous, like floor? Compares values on both sides of multiples of 1/2, where all functions that round,
// or take remainders by whole numbers, have their steps.
bool jumps(const Function& function) {
  if (function.result == Scalar::kBoolean && !function.returns_argument_scalar) return true;
  if (function.real == nullptr) return false;
  constexpr double kBeside = 0x1p-30, kStep = 0.25;
  double x[4] = {1, 1, 1, 1};
  for (int argument = 0; argument < std::min(function.arity, 4); ++argument)
    for (int halves = -6; halves <= 6; ++halves)
      for (const double other : {1.0, 2.0, 3.0}) {
        std::fill(std::begin(x), std::end(x), other);
        x[argument] = 0.5 * halves - kBeside;
        const double below = function.real(x);
        x[argument] = 0.5 * halves + kBeside;
        const double above = function.real(x);
        if (std::isfinite(below) && std::isfinite(above) && std::fabs(above - below) > kStep) return true;
      }
  return false;
}

bool jumps_remembered(const Function& function) {
  static const std::unordered_map<const Function*, bool> kKnown = [] {
    std::unordered_map<const Function*, bool> known;
    for (const Function* f : all_functions()) known.emplace(f, jumps(*f));
    return known;
  }();
  const auto found = kKnown.find(&function);
  return found != kKnown.end() ? found->second : jumps(function);
}

// How an output depends on an operand's reals.
struct Dependence {
  bool decides = false;  // discontinuously
  bool passes = false;   // continuously, as a single term or factor ...
  bool sums = false;     // ... or as one of many terms or factors
};

class DependenceReader {
 public:
  explicit DependenceReader(std::size_t operands) : result_(operands) {}

  void read(const Element& element, bool decides, bool sums) {
    if (!seen_.emplace(element.get(), 2 * decides + sums).second) return;
    using Kind = ElementNode::Kind;
    const ElementNode& e = *element;
    const auto arguments = [&](bool jump) {
      for (const Element& argument : e.arguments) read(argument, decides || jump, sums);
    };
    read(e.index), read(e.bound);
    for (const Index& position : e.position) read(position);
    for (const Condition& condition : e.conditions) read(condition.left), read(condition.right);
    switch (e.kind) {
      case Kind::kRead: {
        Dependence& operand = result_.at(static_cast<std::size_t>(e.operand));
        (decides ? operand.decides : sums ? operand.sums : operand.passes) = true;
        return;
      }
      case Kind::kConvert:
        return arguments(e.scalar != Scalar::kReal);
      case Kind::kApply:
        return arguments(jumps_remembered(*e.function));
      case Kind::kSelect:
        read(e.arguments[0], true, sums);
        read(e.arguments[1], decides, sums);
        return read(e.arguments[2], decides, sums);
      case Kind::kReduce:
        return read(e.arguments[0], decides, sums || e.reduction == Reduction::kSum || e.reduction == Reduction::kProduct);
      default:
        return arguments(false);
    }
  }

  const std::vector<Dependence>& result() const { return result_; }

 private:
  // An element in an index is a position, or selects which elements count.
  void read(const Index& index) {
    if (index.is_constant()) return;
    for_each_atom(index, [&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kLoad) read(atom.element, true, false);
    });
  }

  std::vector<Dependence> result_;
  std::set<std::pair<const ElementNode*, int>> seen_;
};

bool is_real_value(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return is_real(value.constant ? value.constant.type() : value.type.type);
}

// One list for each output; empty if the operator has no denotation.
std::vector<std::vector<Dependence>> dependences(const Graph& graph, const Node& node) {
  if (node.op == nullptr || node.op->random()) return {};
  try {
    const auto operands = graph.operand_types(node);
    const Definition definition = node.op->define(node.attributes, Inputs::of(operands));
    if (!definition.has_denotation()) return {};
    std::vector<std::vector<Dependence>> result;
    for (const Output& output : definition.outputs()) {
      DependenceReader reader(node.inputs.size());
      reader.read(output.element, !is_real(output.type.type), false);
      result.push_back(reader.result());
    }
    return result;
  } catch (const Error&) {  // ill-typed for sizes that are not known yet
    return {};
  }
}

// The graph (without inputs) with deciding values replaced by constants.
Graph with_decisions_evaluated(const Graph& constants, const std::vector<bool>& deciding, Evaluator& evaluator) {
  const std::vector<std::int32_t> producers = constants.producers();
  std::vector<bool> from_reals(constants.value_count());  // read off reals: integers computed from integers are exact anyway
  for (const auto& node : constants.nodes()) {
    const bool reads_real = std::any_of(node->inputs.begin(), node->inputs.end(),
                                        [&](ValueId id) { return id != kNoValue && is_real_value(constants, id); });
    for (const ValueId id : node->outputs)
      if (id != kNoValue && reads_real) from_reals[id] = true;
  }
  const auto decided = [&](ValueId id) {
    return id != kNoValue && !constants.is_constant(id) && producers[id] >= 0 &&
           (deciding[id] || (!is_real_value(constants, id) && from_reals[id]));
  };
  Graph exact = constants;
  exact.set_outputs({});
  std::vector<ValueId> wanted;
  std::unordered_set<ValueId> known;
  const auto want = [&](ValueId id) {
    if (!decided(id) || !known.insert(id).second) return;
    wanted.push_back(id);
    exact.add_output("v" + std::to_string(id), id);
  };
  for (const GraphOutput& output : constants.outputs()) want(output.value);
  for (const auto& node : constants.nodes()) {
    const bool inside =
        std::all_of(node->outputs.begin(), node->outputs.end(), [&](ValueId id) { return id == kNoValue || decided(id); });
    if (inside) continue;
    for (const ValueId id : node->inputs) want(id);
  }
  if (wanted.empty()) return constants;
  exact.tidy();
  const std::vector<Tensor> tensors = evaluator.evaluate(exact, /*in_double=*/false);
  Graph result = constants;
  for (std::size_t i = 0; i < wanted.size(); ++i) result.set_constant(wanted[i], tensors.at(i));
  result.tidy();
  return result;
}

}  // namespace

std::vector<bool> deciding_values(const Graph& graph) {
  const std::vector<bool> constant = graph.constant_values();
  std::vector<bool> deciding(graph.value_count());
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = *graph.nodes()[n];
    const auto reads_real = [&](ValueId id) { return id != kNoValue && is_real_value(graph, id); };
    if (std::none_of(node.inputs.begin(), node.inputs.end(), reads_real)) continue;
    const std::vector<std::vector<Dependence>> outputs = dependences(graph, node);
    const bool in_constants =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return id != kNoValue && constant[id]; });
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!reads_real(node.inputs[i])) continue;
      bool decides = outputs.empty();
      for (std::size_t o = 0; o < outputs.size() && o < node.outputs.size(); ++o) {
        const Dependence& dependence = outputs[o].at(i);
        const bool followed = dependence.passes || (dependence.sums && in_constants);
        const ValueId result = node.outputs[o];
        decides = decides || dependence.decides || (followed && result != kNoValue && deciding[result]);
      }
      if (decides) deciding[node.inputs[i]] = true;
    }
  }
  return deciding;
}

bool decides_by_reals(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) {
    const auto real = [&](ValueId id) { return id != kNoValue && is_real_value(graph, id); };
    const auto other = [&](ValueId id) { return id != kNoValue && !is_real_value(graph, id); };
    return std::any_of(node->inputs.begin(), node->inputs.end(), real) &&
           std::any_of(node->outputs.begin(), node->outputs.end(), other);
  });
}

std::vector<Tensor> evaluate_with_decisions(const Graph& constants, const std::vector<bool>& deciding, Evaluator& evaluator,
                                            const EvaluateRest& rest) {
  Graph left = with_decisions_evaluated(constants, deciding, evaluator);
  const std::vector<GraphOutput> outputs(left.outputs().begin(), left.outputs().end());
  left.set_outputs({});
  for (const GraphOutput& output : outputs)
    if (!left.is_constant(output.value)) left.add_output(output.name, output.value);
  std::vector<Tensor> computed = left.outputs().empty() ? std::vector<Tensor>() : rest(left);
  std::vector<Tensor> result;
  std::size_t next = 0;
  for (const GraphOutput& output : outputs)
    result.push_back(left.is_constant(output.value) ? left.value(output.value).constant : std::move(computed.at(next++)));
  return result;
}

}  // namespace rewright::optimizer
