#include "optimizer/folding/fold.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "graph/onnx/calls.h"
#include "graph/onnx/kept_calls.h"
#include "optimizer/costs/cost_model.h"
#include "optimizer/folding/rounding.h"

namespace rewright::optimizer {

namespace {

bool known_whole(const Value& value) {
  if (!value.shape_known || !all_constant(value.type.shape) || !value.contents || !all_constant(*value.contents)) return false;
  return is_integer(value.type.type) || value.type.type == DataType::kBool;
}

std::size_t literal_bytes(const TensorType& type) {
  return static_cast<std::size_t>(element_count(values(type.shape))) * byte_size(type.type);
}

// The values that `id` depends on, including itself.
std::vector<ValueId> cone(const Graph& graph, const std::vector<std::int32_t>& producers, ValueId id) {
  std::vector<ValueId> open{id}, all;
  std::unordered_set<ValueId> seen{id};
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    all.push_back(next);
    if (graph.is_constant(next) || producers[next] < 0) continue;
    for (const ValueId input : graph.nodes()[static_cast<std::size_t>(producers[next])]->inputs)
      if (input != kNoValue && seen.insert(input).second) open.push_back(input);
  }
  return all;
}

// Is every element of the value an element of some constant?
bool only_moves(const Graph& graph, const std::vector<std::int32_t>& producers, ValueId id) {
  const std::vector<ValueId> all = cone(graph, producers, id);
  return std::all_of(all.begin(), all.end(), [&](ValueId v) {
    if (graph.is_constant(v) || producers[v] < 0) return true;
    const Node& node = *graph.nodes()[static_cast<std::size_t>(producers[v])];
    if (node.op == nullptr) return false;
    const OperatorTraits traits = operator_traits(*node.op, node.attributes, graph.operand_types(node));
    return traits.moves || traits.free;
  });
}

// Values computed from constants, as a graph without inputs, so that shared parts are evaluated once.
struct ConstantPart {
  Graph graph;                                  // one output for each wanted value, in order
  std::unordered_map<ValueId, ValueId> number;  // from values of the whole graph to this one's
};

ConstantPart constant_part(const Graph& graph, const std::vector<std::int32_t>& producers, const std::vector<ValueId>& wanted) {
  std::unordered_set<ValueId> needed;
  for (const ValueId id : wanted)
    for (const ValueId source : cone(graph, producers, id)) needed.insert(source);
  ConstantPart part;
  const auto take = [&](ValueId id) {
    if (id == kNoValue) return id;
    const auto [entry, added] = part.number.try_emplace(id, 0);
    if (added) entry->second = part.graph.add_value(graph.value(id));
    return entry->second;
  };
  for (const auto& node : graph.nodes()) {
    const bool used = std::any_of(node->outputs.begin(), node->outputs.end(),
                                  [&](ValueId id) { return id != kNoValue && needed.contains(id); });
    if (!used) continue;
    Node copy = *node;
    copy.parameters.clear();
    copy.origin = nullptr;
    for (ValueId& id : copy.inputs) id = take(id);
    for (ValueId& id : copy.outputs) id = take(id);
    part.graph.add_raw(std::move(copy));
  }
  for (const ValueId id : wanted) part.graph.add_output("v" + std::to_string(id), take(id));
  return part;
}

// Turns values that only move elements of constants into constants.
void set_moved(const Graph& graph, const std::vector<std::int32_t>& producers, const std::vector<ValueId>& wanted,
               Evaluator& evaluator, Graph& result) {
  if (wanted.empty()) return;
  std::vector<Tensor> tensors = evaluator.evaluate(constant_part(graph, producers, wanted).graph, /*in_double=*/false);
  for (std::size_t i = 0; i < wanted.size(); ++i) result.set_constant(wanted[i], std::move(tensors.at(i)));
}

// Turns values computed from constants into constants: reals in double, rounded once. Values that decide something later are
// computed operator by operator, as in execution.
void set_computed(const Graph& graph, const std::vector<std::int32_t>& producers, const std::vector<ValueId>& wanted,
                  Evaluator& evaluator, Graph& result) {
  if (wanted.empty()) return;
  const ConstantPart part = constant_part(graph, producers, wanted);
  const std::vector<bool> everywhere = deciding_values(graph);
  std::vector<bool> deciding(part.graph.value_count());
  for (const auto& [outer, inner] : part.number) deciding[inner] = everywhere[outer];
  std::vector<Tensor> tensors = evaluate_with_decisions(part.graph, deciding, evaluator,
                                                        [&](const Graph& rest) { return evaluator.evaluate(rest, true); });
  for (std::size_t i = 0; i < wanted.size(); ++i) result.set_constant(wanted[i], std::move(tensors.at(i)));
}

// A call that is written as it stands computes the constants inside of it by itself, from what may be far smaller (weights of
// few bits). They are not wanted.
void leave_to_calls(const Graph& graph, const std::vector<std::int32_t>& producers, std::vector<bool>& wanted) {
  const std::set<const Expansion*> intact = intact_expansions(graph);
  if (intact.empty()) return;
  std::vector<bool> read_outside(graph.value_count());
  for (const auto& node : graph.nodes())
    for (const ValueId id : node->inputs)
      if (id != kNoValue && producers[id] >= 0 &&
          graph.nodes()[static_cast<std::size_t>(producers[id])]->expansion != node->expansion)
        read_outside[id] = true;
  for (const GraphOutput& output : graph.outputs()) read_outside[output.value] = true;
  for (const auto& node : graph.nodes())
    if (intact.contains(node->expansion.get()))
      for (const ValueId id : node->outputs)
        if (id != kNoValue && !read_outside[id]) wanted[id] = false;
}

}  // namespace

std::vector<ValueId> foldable(const Graph& graph, const FoldOptions& options) {
  const std::vector<bool> constant = graph.constant_values();
  const std::vector<std::int32_t> producers = graph.producers();
  std::vector<bool> wanted(graph.value_count());
  for (const auto& node : graph.nodes()) {
    const bool inner = !node->outputs.empty() && std::all_of(node->outputs.begin(), node->outputs.end(),
                                                             [&](ValueId id) { return id == kNoValue || constant[id]; });
    if (inner) continue;
    for (const ValueId id : node->inputs)
      if (id != kNoValue) wanted[id] = true;
    for (const ValueId id : node->parameters)
      if (id != kNoValue) wanted[id] = true;
  }
  for (const GraphOutput& output : graph.outputs()) wanted[output.value] = true;
  leave_to_calls(graph, producers, wanted);

  std::vector<ValueId> result;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (!wanted[id] || value.constant || producers[id] < 0) continue;
    if (known_whole(value)) {
      result.push_back(id);
      continue;
    }
    if (!constant[id] || !value.shape_known || !all_constant(value.type.shape) || byte_size(value.type.type) == 0) continue;
    // A weight that is also read elsewhere stays in the file beside the folded one.
    std::size_t sources = 0;
    for (const ValueId source : cone(graph, producers, id))
      if (graph.is_constant(source) && !wanted[source]) sources += graph.value(source).constant.byte_count();
    const std::size_t bytes = literal_bytes(value.type);
    if (bytes <= options.max_bytes || static_cast<double>(bytes) <= options.max_growth * static_cast<double>(sources))
      result.push_back(id);
  }
  return result;
}

Graph fold(const Graph& graph, std::span<const ValueId> folded, Evaluator& evaluator) {
  const std::vector<bool> constant = graph.constant_values();
  const std::vector<std::int32_t> producers = graph.producers();
  Graph result = graph;
  std::vector<ValueId> computed, moved;
  for (const ValueId id : folded) {
    if (id >= graph.value_count()) throw Error(ErrorCode::kBadInput, "there is no value " + std::to_string(id) + " to fold");
    const Value& value = graph.value(id);
    if (known_whole(value))
      result.set_constant(id, Tensor::from_integers(value.type.type, values(value.type.shape), values(*value.contents)));
    else if (constant[id])
      (only_moves(graph, producers, id) ? moved : computed).push_back(id);
    else
      throw Error(ErrorCode::kBadInput, "value " + std::to_string(id) + " is not computed from constants", value.name);
  }
  // Moved elements keep their bits; a conversion would change signalling NaNs.
  set_moved(graph, producers, moved, evaluator, result);
  set_computed(graph, producers, computed, evaluator, result);
  tidy_around_calls(result);
  return result;
}

namespace {

class ReferenceEvaluator : public Evaluator {
 public:
  std::vector<Tensor> evaluate(const Graph& graph, bool in_double) override {
    if (!in_double) return interpret(graph, {});
    // The computation repeated on double leaves; result types follow from the operands.
    Graph wide;
    std::unordered_map<ValueId, ValueId> local;
    const auto take = [&](ValueId id) {
      if (id == kNoValue) return id;
      if (const auto known = local.find(id); known != local.end()) return known->second;
      const Tensor& tensor = graph.value(id).constant;
      const bool widen =
          tensor.type() == DataType::kFloat || tensor.type() == DataType::kHalf || tensor.type() == DataType::kBfloat16;
      const ValueId added =
          wide.add_constant(widen ? Tensor::from_reals(DataType::kDouble, tensor.sizes(), tensor.reals()) : tensor);
      return local.emplace(id, added).first->second;
    };
    try {
      for (const auto& node : graph.nodes()) {
        std::vector<ValueId> inputs;
        for (const ValueId id : node->inputs) inputs.push_back(take(id));
        Attributes attributes = node->attributes;
        for (AttributeValue& attribute : attributes)
          if (DataType* type = std::get_if<DataType>(&attribute); type && is_real(*type)) *type = DataType::kDouble;
        const std::vector<ValueId> outputs = wide.add_node(*node->op, std::move(attributes), std::move(inputs));
        for (std::size_t i = 0; i < node->outputs.size() && i < outputs.size(); ++i)
          if (node->outputs[i] != kNoValue) local[node->outputs[i]] = outputs[i];
      }
    } catch (const Error&) {
      return interpret(graph, {});  // an operator that is not defined for double
    }
    for (const GraphOutput& output : graph.outputs()) wide.add_output(output.name, take(output.value));
    std::vector<Tensor> tensors = interpret(wide, {});
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const DataType type = graph.outputs()[i].type.type;
      if (tensors[i].type() != type && is_real(type))
        tensors[i] = Tensor::from_reals(type, tensors[i].sizes(), tensors[i].reals());
    }
    return tensors;
  }
};

}  // namespace

std::unique_ptr<Evaluator> make_reference_evaluator() { return std::make_unique<ReferenceEvaluator>(); }

}  // namespace rewright::optimizer
