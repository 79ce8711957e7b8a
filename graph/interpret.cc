// Graphs by the reference interpreter, and named sizes replaced.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>

#include "graph/execute.h"
#include "graph/graph.h"
#include "graph/operator_execution.h"
#include "graph/sized.h"
#include "operators/readings/interpreter.h"

namespace rewright::graph {

namespace {

bool is_symbolic(const Indices& indices) { return !all_constant(indices); }

bool is_symbolic(const AttributeValue& value) {
  if (const auto* index = std::get_if<Index>(&value)) return !index->is_constant();
  if (const auto* indices = std::get_if<Indices>(&value)) return is_symbolic(*indices);
  return false;
}

bool is_symbolic(const Value& value) {
  return is_symbolic(value.type.shape) || (value.contents && is_symbolic(*value.contents));
}

bool has_symbolic_values(const Graph& graph, const Node& node) {
  const auto is_open = [&](ValueId id) { return id != kNoValue && is_symbolic(graph.value(id).type.shape); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_open) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is_open);
}

// Import assumes that sizes with different names are equal where an operator requires it. Now that they are numbers: does the
// node compute results of the sizes that its graph says?
void require_consistent_sizes(const Graph& sized, const Node& node) {
  const auto is_open = [&](ValueId id) {
    return id != kNoValue && !(sized.value(id).shape_known && all_constant(sized.value(id).type.shape));
  };
  if (std::any_of(node.inputs.begin(), node.inputs.end(), is_open) || !is_sized(node.attributes)) return;
  try {
    const auto operands = sized.operand_types(node);
    const Definition definition = node.op->define(node.attributes, Inputs::of(std::span(operands)).types_only());
    for (std::size_t k = 0; k < node.outputs.size() && k < definition.outputs().size(); ++k) {
      if (node.outputs[k] == kNoValue || is_open(node.outputs[k])) continue;
      const TensorType& computed = definition.outputs()[k].type;
      const Value& value = sized.value(node.outputs[k]);
      if (computed.shape != value.type.shape)
        throw Error(ErrorCode::kBadInput, "computes " + to_string(computed) + " for inputs of these sizes, not " +
                                              to_string(value.type) + " as follows from the model's names of sizes");
    }
  } catch (const Error& error) {
    throw error.within(where_of(sized, node));
  }
}

// A body, executed by the interpreter.
class InterpretedGraph final : public Executable {
 public:
  InterpretedGraph(Graph graph, const Checkpoint& checkpoint) : graph_(std::move(graph)), checkpoint_(checkpoint) {}
  std::vector<Datum> run(std::span<const Datum> inputs) override { return execute(graph_, inputs, checkpoint_); }

 private:
  Graph graph_;
  const Checkpoint& checkpoint_;
};

}  // namespace

bool is_sized(const Attributes& attributes) {
  return std::none_of(attributes.begin(), attributes.end(), [](const AttributeValue& a) { return is_symbolic(a); });
}

Attributes substitute(const Attributes& attributes, const Substitution& sizes) {
  Attributes changed = attributes;
  for (AttributeValue& attribute : changed) {
    if (auto* index = std::get_if<Index>(&attribute))
      *index = rewright::substitute(*index, sizes);
    else if (auto* indices = std::get_if<Indices>(&attribute))
      *indices = rewright::substitute(*indices, sizes);
  }
  return changed;
}

std::vector<Datum> execute_operator(const Node& node, std::span<const Datum> inputs, const BoundSizes& bound) {
  std::vector<Tensor> operands;
  operands.reserve(inputs.size());
  for (const Datum& input : inputs) operands.push_back(input.empty() ? Tensor() : input.tensor());
  std::vector<Tensor> results = !is_sized(node.attributes)
                                    ? interpret(*node.op, substitute(node.attributes, substitution(bound)), operands)
                                    : interpret(*node.op, node.attributes, operands);
  return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
}

std::string where_of(const Graph& graph, const Node& node) {
  if (node.origin && !node.origin->name.empty()) return "node \"" + node.origin->name + "\"";
  for (ValueId id : node.outputs)
    if (id != kNoValue && !graph.value(id).name.empty()) return "node of \"" + graph.value(id).name + "\"";
  return node.op != nullptr ? node.op->name() : "a node";
}

Graph with_sizes(const Graph& graph, const Substitution& sizes) {
  Graph result = graph;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (!is_symbolic(graph.value(id))) continue;
    Value changed = graph.value(id);
    changed.type.shape = substitute(changed.type.shape, sizes);
    if (changed.contents) changed.contents = substitute(*changed.contents, sizes);
    result.set_value(id, std::move(changed));
  }
  result.drop_nodes_from(0);
  for (const auto& node : graph.nodes()) {
    if (!is_sized(node->attributes)) {
      Node changed = *node;
      changed.attributes = substitute(node->attributes, sizes);
      result.add_raw(std::move(changed));
    } else {
      result.add_shared(node);
    }
    if (node->op != nullptr && has_symbolic_values(graph, *node)) require_consistent_sizes(result, *result.nodes().back());
  }
  std::vector<GraphOutput> outputs(graph.outputs().begin(), graph.outputs().end());
  for (GraphOutput& output : outputs) output.type.shape = substitute(output.type.shape, sizes);
  result.set_outputs(std::move(outputs));
  return result;
}

Substitution bind_sizes(const Graph& graph, std::span<const Tensor> inputs) {
  const auto bound = std::make_shared<const BoundSizes>(bound_sizes(graph, inputs));
  return [bound](const Atom& atom) { return substitution(*bound)(atom); };
}

std::vector<Tensor> tensors_or_none(std::span<const Datum> data) {
  std::vector<Tensor> tensors;
  for (const Datum& datum : data) tensors.push_back(datum.is_tensor() ? datum.tensor() : Tensor());
  return tensors;
}

std::vector<Datum> execute(const Graph& graph, std::span<const Datum> inputs, const Checkpoint& checkpoint) {
  BoundSizes bound = bound_sizes(graph, tensors_or_none(inputs));
  std::vector<std::size_t> last_use(graph.value_count(), 0);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    for (ValueId id : graph.nodes()[i]->inputs)
      if (id != kNoValue) last_use[id] = i;
  for (const GraphOutput& output : graph.outputs()) last_use[output.value] = graph.nodes().size();

  std::vector<Datum> values(graph.value_count());
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.is_constant(id)) values[id] = graph.value(id).constant;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = *graph.nodes()[i];
    if (checkpoint) checkpoint();
    std::vector<Datum> operands;
    operands.reserve(node.inputs.size());
    for (ValueId id : node.inputs) operands.push_back(id == kNoValue ? Datum() : values[id]);
    std::vector<Datum> results;
    try {
      if (node.op != nullptr) {
        results = execute_operator(node, operands, bound);
      } else {
        const auto prepare = [&](Graph inner, Repetition) {
          return std::make_unique<InterpretedGraph>(std::move(inner), checkpoint);
        };
        results = OpaqueExecution(graph, node, prepare, checkpoint).run(operands);
      }
      bind_results(graph, node, results, bound);
    } catch (const Error& error) {
      throw error.within(where_of(graph, node));
    }
    for (std::size_t k = 0; k < node.outputs.size() && k < results.size(); ++k)
      if (const ValueId id = node.outputs[k]; id != kNoValue && last_use[id] > i) values[id] = std::move(results[k]);
    for (ValueId id : node.inputs)
      if (id != kNoValue && last_use[id] == i) values[id] = Datum();
  }
  std::vector<Datum> results;
  for (const GraphOutput& output : graph.outputs()) results.push_back(values[output.value]);
  return results;
}

std::vector<Tensor> tensors_of(const Graph& graph, std::span<const Datum> outputs) {
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_tensor())
      throw Error(ErrorCode::kUnsupported, outputs[i].empty() ? "cannot be computed" : "is a sequence or a map, not a tensor",
                  "output \"" + graph.outputs()[i].name + "\"");
    results.push_back(outputs[i].tensor());
  }
  return results;
}

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs) {
  const std::vector<Datum> data(inputs.begin(), inputs.end());
  return tensors_of(graph, execute(graph, data));
}

}  // namespace rewright::graph
