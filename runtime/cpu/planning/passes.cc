#include "runtime/cpu/planning/passes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "graph/contraction.h"
#include "operators/definitions/resample.h"
#include "operators/readings/operation_count.h"
#include "runtime/cpu/planning/evaluate_constants.h"
#include "runtime/cpu/planning/kernels.h"
#include "runtime/cpu/planning/known_numbers.h"
#include "runtime/cpu/planning/known_values.h"
#include "runtime/cpu/planning/precision.h"
#include "runtime/cpu/planning/recognitions.h"
#include "runtime/planning/attributes.h"
#include "runtime/planning/graph_facts.h"
#include "runtime/planning/pieces.h"

namespace rewright::cpu {

namespace {

// Traits of nodes, if plans share what is known about nodes. They are asked for in the graph's order.
class KnownTraits {
 public:
  explicit KnownTraits(const PlanOptions& options) : recognitions_(options.recognitions.get()) {}
  std::optional<planning::Traits> operator()(const Graph& graph, const Node& node) {
    if (recognitions_ == nullptr) return std::nullopt;
    while (graph.nodes()[next_].get() != &node) ++next_;
    return recalled_traits(*recognitions_, graph, graph.nodes()[next_],
                           [&] { return planning::traits_of(planning::define(graph, node)); });
  }

 private:
  Recognitions* recognitions_;  // null: none
  std::size_t next_ = 0;
};

// Computes half and bfloat16 tensors in float, except operands that a kernel wants as bfloat16.
Graph without_short_floats(Graph graph, const PlanOptions& options) {
  const auto reads_bfloat16 = [&](const Graph& given, const Node& node) {
    const auto kernels = node_kernels();
    return node.op != nullptr && std::any_of(kernels.begin(), kernels.end(), [&](const NodeKernel& k) {
             return k.reads_bfloat16 != nullptr && k.op == node.op->name() && k.reads_bfloat16(given, node, options.isa);
           });
  };
  return in_float(std::move(graph), reads_bfloat16);
}

bool has_8_bits(const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  const DataType type = value.constant ? value.constant.type() : value.type.type;
  return type == DataType::kInt8 || type == DataType::kUint8;
}

// Does the node compute floats from 8-bit integers by a few operations, for several users?
bool is_shared_dequantization(const Graph& graph, const Node& node, const std::vector<std::vector<std::int32_t>>& users,
                              const std::set<ValueId>& outputs) {
  constexpr std::int64_t kCheap = 8;  // operations for an element
  if (node.op == nullptr || node.outputs.size() != 1 || node.inputs.empty() || node.inputs[0] == kNoValue) return false;
  const ValueId result = node.outputs[0];
  const Value& value = graph.value(result);
  if (value.type.type != DataType::kFloat || users[result].size() < 2 || outputs.contains(result)) return false;
  if (!has_8_bits(graph, node.inputs[0]) || graph.is_constant(node.inputs[0]) || !value.shape_known) return false;
  const Definition definition = planning::define(graph, node);
  if (!definition.has_denotation()) return false;
  const auto operations = operation_count(definition.outputs()[0].element).constant();
  return operations && *operations <= kCheap;
}

// Copies dequantizations for each user, so that kernels can absorb them and their results are never stored.
Graph with_dequantizations_by_use(Graph graph, const PlanOptions&) {
  bool any = false;
  for (ValueId v = 0; v < graph.value_count() && !any; ++v) any = has_8_bits(graph, v);
  if (!any) return graph;
  const auto users = graph.users();
  std::set<ValueId> outputs;
  for (const GraphOutput& o : graph.outputs()) outputs.insert(o.value);
  Graph result = graph;
  result.drop_nodes_from(0);
  const auto producers = graph.producers();
  std::set<ValueId> used;  // by a user that keeps the original
  for (const auto& node : graph.nodes()) {
    Node changed = *node;
    bool differs = false;
    for (ValueId& input : changed.inputs) {
      if (input == kNoValue || producers[input] < 0) continue;
      const auto& producer = graph.nodes()[static_cast<std::size_t>(producers[input])];
      if (!is_shared_dequantization(graph, *producer, users, outputs) || used.insert(input).second) continue;
      Node copy = *producer;
      copy.outputs = {result.add_value(graph.value(input))};
      input = copy.outputs[0];
      result.add_raw(std::move(copy));
      differs = true;
    }
    if (differs)
      result.add_raw(std::move(changed));
    else
      result.add_shared(node);
  }
  return result;
}

// Replaces Einsum and the like by matrix products.
Graph with_products(Graph graph, const PlanOptions& options) {
  KnownTraits traits_of(options);
  const auto is_served = [&](const Graph& given, const Node& node) {
    if (has_node_kernels(node.op->name())) return true;
    const std::optional<planning::Traits> traits = traits_of(given, node);
    return traits && !traits->sums_products;
  };
  return graph::with_matrix_products(std::move(graph), is_served, true);
}

// Replaces a Resize of several axes by one for each, which reads two elements for each result instead of four.
Graph with_resizes_by_axis(Graph graph, const PlanOptions&) {
  const auto steps_of = [](const Graph& given, const Node& node) -> std::vector<Attributes> {
    if (node.op == nullptr || node.op->name() != "Resize") return {};
    const Value& x = given.value(node.inputs[0]);
    const bool is_float = x.type.type == DataType::kFloat || x.type.type == DataType::kDouble;
    if (!is_float || !x.shape_known || !all_constant(x.type.shape)) return {};
    return operators::resizes_by_axis(node.attributes, values(x.type.shape));
  };
  std::map<const Node*, std::vector<Attributes>> divided;
  for (const auto& node : graph.nodes())
    if (std::vector<Attributes> steps = steps_of(graph, *node); !steps.empty()) divided.emplace(node.get(), std::move(steps));
  if (divided.empty()) return graph;
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  graph.drop_nodes_from(0);
  for (const auto& node : nodes) {
    const auto steps = divided.find(node.get());
    if (steps == divided.end()) {
      graph.add_shared(node);
      continue;
    }
    Node last = *node;
    for (std::size_t s = 0; s + 1 < steps->second.size(); ++s)
      last.inputs = graph.add_node(*node->op, steps->second[s], last.inputs);
    last.attributes = steps->second.back();
    graph.add_raw(std::move(last));
  }
  return graph;
}

// Is there a float matrix product that adds a number to each row? Products add rows and tensors of the result's sizes.
bool adds_to_rows(const Graph& graph, const Node& node) {
  if (node.op == nullptr || node.op->name() != "Gemm" || node.inputs.size() < 3 || node.inputs[2] == kNoValue) return false;
  const Value &addend = graph.value(node.inputs[2]), &result = graph.value(node.outputs[0]);
  if (result.type.type != DataType::kFloat || !addend.shape_known || !result.shape_known) return false;
  if (!all_constant(addend.type.shape) || !all_constant(result.type.shape)) return false;
  const Sizes from = values(addend.type.shape), to = values(result.type.shape);
  return from.size() == 2 && from[0] > 1 && from[1] == 1 && to[1] > 1;
}

// Adds the numbers of rows after the product, where elementwise operations that follow are computed with it.
Graph with_sums_of_rows(Graph graph, const PlanOptions&) {
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  if (std::none_of(nodes.begin(), nodes.end(), [&](const auto& node) { return adds_to_rows(graph, *node); })) return graph;
  graph.drop_nodes_from(0);
  for (const auto& node : nodes) {
    if (!adds_to_rows(graph, *node)) {
      graph.add_shared(node);
      continue;
    }
    ValueId addend = node->inputs[2];
    const double beta = planning::AttributeReader(*node).real("beta");
    if (beta != 1) {
      const ValueId factor = graph.add_constant(Tensor::from_reals(DataType::kFloat, {}, std::vector{beta}));
      const Operator& multiply = registry().get("Mul");
      addend = graph.add_node(multiply, multiply.defaults(), {addend, factor}).at(0);
    }
    const ValueId product = graph.add_node(*node->op, node->attributes, {node->inputs[0], node->inputs[1]}).at(0);
    Node sum = *node;
    sum.parameters.clear(), sum.expansion = nullptr;
    const Operator& add = registry().get("Add");
    sum.op = &add, sum.attributes = add.defaults(), sum.inputs = {product, addend};
    graph.add_raw(std::move(sum));
  }
  return graph;
}

// Replaces Split and the like by a Slice for each result.
Graph with_pieces(Graph graph, const PlanOptions& options) {
  KnownTraits traits_of(options);
  return planning::with_pieces_apart(std::move(graph), [&](const Graph& given, const Node& node) {
    const std::optional<planning::Traits> traits = traits_of(given, node);
    return traits && !traits->only_reads;
  });
}

// Drops nodes that nothing needs once sizes are known, such as those that compute shapes.
Graph without_unneeded(Graph graph, const PlanOptions&) {
  const std::vector<bool> planned = planning::planned_nodes(graph);
  if (std::find(planned.begin(), planned.end(), false) == planned.end()) return graph;
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  graph.drop_nodes_from(0);
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (planned[n]) graph.add_shared(nodes[n]);
  return graph;
}

// Values whose elements follow from the sizes of others become constants, so that what only depends on them does. Those that
// follow from elements of inputs stay, even if these are known for a call: kernels read them.
Graph with_known_contents(Graph graph, const PlanOptions&) {
  std::vector<bool> is_output(graph.value_count()), follows(graph.value_count());
  for (const GraphOutput& output : graph.outputs()) is_output[output.value] = true;
  bool any = false;
  for (const auto& node : graph.nodes()) {
    if (node->op == nullptr || node->outputs.size() != 1 || node->outputs[0] == kNoValue) continue;
    const ValueId result = node->outputs[0];
    const auto is_given = [&](ValueId v) { return v == kNoValue || graph.is_constant(v) || follows[v]; };
    if (node->op->name() != "Shape" && !std::all_of(node->inputs.begin(), node->inputs.end(), is_given)) continue;
    follows[result] = !is_output[result] && !graph.is_constant(result) && planning::known_tensor(graph.value(result));
    any = any || follows[result];
  }
  if (!any) return graph;
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  graph.drop_nodes_from(0);
  for (const auto& node : nodes)
    if (node->outputs.size() == 1 && node->outputs[0] != kNoValue && follows[node->outputs[0]])
      graph.set_constant(node->outputs[0], planning::known_tensor(graph.value(node->outputs[0])));
    else
      graph.add_shared(node);
  return graph;
}

// Choices by conditions that depend on constants alone, such as whether a causal mask leaves a row without any key, may be
// known to be one of their operands.
Graph with_known_conditions(Graph graph, const PlanOptions& options) {
  if (!options.fold_constants) return graph;
  const auto is_choice = [](const auto& node) { return node->op != nullptr && node->op->name() == "Where"; };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_choice)) return graph;
  const std::vector<bool> constant = graph.constant_values();
  std::set<ValueId> conditions;
  for (const auto& node : graph.nodes())
    if (is_choice(node) && constant[node->inputs[0]] && !constant[node->outputs[0]] && !graph.is_constant(node->inputs[0]))
      conditions.insert(node->inputs[0]);
  for (const GraphOutput& output : graph.outputs()) conditions.erase(output.value);
  if (conditions.empty()) return graph;
  Graph part = graph;
  part.set_outputs({});
  for (const ValueId condition : conditions) part.add_output("condition" + std::to_string(condition), condition);
  part = without_unneeded(std::move(part), options);
  const std::vector<Tensor> folded = evaluate_constants(part, options);
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  graph.drop_nodes_from(0);
  for (const auto& node : nodes) {
    const bool is_known = node->outputs.size() == 1 && conditions.contains(node->outputs[0]) && folded[node->outputs[0]];
    if (is_known)
      graph.set_constant(node->outputs[0], folded[node->outputs[0]]);
    else
      graph.add_shared(node);
  }
  return graph;
}

// Outputs that are copies of computed values become those values.
Graph without_copied_outputs(Graph graph, const PlanOptions&) {
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  std::set<ValueId> computed, outputs;
  for (const auto& node : nodes) computed.insert(node->outputs.begin(), node->outputs.end());
  for (const GraphOutput& output : graph.outputs()) outputs.insert(output.value);
  std::map<ValueId, ValueId> sources;  // of copies
  std::vector<std::shared_ptr<const Node>> left;
  for (const auto& node : nodes) {
    const bool is_copy = node->op != nullptr && node->op->name() == "Identity" && outputs.contains(node->outputs.at(0)) &&
                         computed.contains(node->inputs.at(0)) && !outputs.contains(node->inputs[0]);
    if (!is_copy) {
      left.push_back(node);
      continue;
    }
    sources[node->outputs[0]] = node->inputs[0];
    outputs.insert(node->inputs[0]);
  }
  if (sources.empty()) return graph;
  graph.drop_nodes_from(0);
  for (const auto& node : left) graph.add_shared(node);
  graph.replace_uses(std::vector<std::pair<ValueId, ValueId>>(sources.begin(), sources.end()));
  return graph;
}

// The elements of a constant that the node returns as they are, in the same order; an empty tensor for all other nodes.
Tensor handed_on(const Graph& graph, const Node& node) {
  if (node.op == nullptr || node.op->random() || node.inputs.size() != 1 || node.outputs.size() != 1) return {};
  const ValueId from = node.inputs[0], to = node.outputs[0];
  if (from == kNoValue || to == kNoValue || !graph.is_constant(from) || graph.is_constant(to)) return {};
  const Tensor& tensor = graph.value(from).constant;
  const Value& value = graph.value(to);
  if (value.type.type != tensor.type() || byte_size(tensor.type()) == 0 || packed_bits(tensor.type()) < 8) return {};
  if (!value.shape_known || !all_constant(value.type.shape)) return {};
  const Definition definition = planning::define(graph, node);
  if (planning::traits_of(definition).moved != 0) return {};
  const Sizes sizes = values(value.type.shape);
  if (element_count(sizes) != tensor.size() || !planning::movement_of(definition, sizes, tensor.sizes()).in_order) return {};
  return part_of(tensor, 0, tensor.type(), sizes);
}

constexpr Pass kPasses[] = {
    {"contents that sizes tell", with_known_contents},
    {"known numbers", [](Graph graph, const PlanOptions&) { return with_known_numbers(std::move(graph)); }},
    {"what outputs need", without_unneeded},
    {"copied outputs", without_copied_outputs},
    {"half and bfloat16 in float", without_short_floats},
    {"conditions of constants", with_known_conditions},
    {"known numbers of these", [](Graph graph, const PlanOptions&) { return with_known_numbers(std::move(graph)); }},
    {"what outputs then need", without_unneeded},
    {"dequantizations by use", with_dequantizations_by_use},
    {"contractions as matrix products", with_products},
    {"sums of rows after products", with_sums_of_rows},
    {"pieces apart", with_pieces},
    {"resizing by axis", with_resizes_by_axis},
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

Graph with_constants_handed_on(Graph graph) {
  std::vector<bool> is_output(graph.value_count());
  for (const GraphOutput& output : graph.outputs()) is_output[output.value] = true;
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  graph.drop_nodes_from(0);
  for (const auto& node : nodes) {
    Tensor constant = handed_on(graph, *node);
    if (constant && !is_output[node->outputs[0]])
      graph.set_constant(node->outputs[0], std::move(constant));
    else
      graph.add_shared(node);
  }
  return graph;
}

Graph run_passes(Graph graph, const PlanOptions& options) {
  for (const Pass& pass : passes()) graph = pass.run(std::move(graph), options);
  return graph;
}

}  // namespace rewright::cpu
