// Graphs by the reference interpreter, and named sizes replaced.
#include <map>

#include "graph/graph.h"
#include "operators/interpreter.h"

namespace rewright {

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

std::string where_of(const Graph& graph, const Node& node) {
  if (node.origin && !node.origin->name.empty()) return "node \"" + node.origin->name + "\"";
  for (ValueId id : node.outputs)
    if (id != kNoValue && !graph.value(id).name.empty()) return "node of \"" + graph.value(id).name + "\"";
  return node.op != nullptr ? node.op->name() : "a node";
}

}  // namespace

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
    bool symbolic = false;
    for (const AttributeValue& attribute : node->attributes) symbolic = symbolic || is_symbolic(attribute);
    if (!symbolic) {
      result.add_shared(node);
      continue;
    }
    Node changed = *node;
    for (AttributeValue& attribute : changed.attributes) {
      if (auto* index = std::get_if<Index>(&attribute))
        *index = substitute(*index, sizes);
      else if (auto* indices = std::get_if<Indices>(&attribute))
        *indices = substitute(*indices, sizes);
    }
    result.add_raw(std::move(changed));
  }
  std::vector<GraphOutput> outputs(graph.outputs().begin(), graph.outputs().end());
  for (GraphOutput& output : outputs) output.type.shape = substitute(output.type.shape, sizes);
  result.set_outputs(std::move(outputs));
  return result;
}

Substitution bind_sizes(const Graph& graph, std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs().size())
    throw Error(ErrorCode::kBadInput, "the model has " + std::to_string(graph.inputs().size()) + " inputs, " +
                                          std::to_string(inputs.size()) + " tensors were given");
  std::map<std::string, std::int64_t> bound;
  Substitution sizes = [&bound](const Atom& atom) -> std::optional<Index> {
    if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
    auto it = bound.find(atom.name);
    return it == bound.end() ? std::nullopt : std::optional<Index>(it->second);
  };
  auto mismatch = [&](std::size_t i, const std::string& what) {
    return Error(ErrorCode::kBadInput, what, "input \"" + graph.value(graph.inputs()[i]).name + "\"");
  };
  auto given = [&](std::size_t i) { return to_string(TensorType{inputs[i].type(), to_indices(inputs[i].sizes())}); };
  // Plain names first: sizes that are expressions of them are checked when all names are known.
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    if (value.type.type != inputs[i].type() && value.type.type != DataType::kUndefined)
      throw mismatch(i, "is " + given(i) + ", the model asks for " + to_string(value.type));
    if (!value.shape_known) continue;
    if (value.type.rank() != inputs[i].sizes().size())
      throw mismatch(i, "is " + given(i) + ", the model asks for " + to_string(value.type));
    for (std::size_t axis = 0; axis < value.type.rank(); ++axis) {
      const Atom* atom = value.type.shape[axis].as_atom();
      if (atom != nullptr && atom->kind == Atom::Kind::kSymbol) bound.emplace(atom->name, inputs[i].sizes()[axis]);
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    for (std::size_t axis = 0; value.shape_known && axis < value.type.rank(); ++axis) {
      const Index expected = substitute(value.type.shape[axis], sizes);
      if (!expected.is_constant() || expected.value() != inputs[i].sizes()[axis])
        throw mismatch(i, "is " + given(i) + ", the model asks for " + to_string(value.type) + ": axis " +
                              std::to_string(axis) + " must be " + expected.to_string());
    }
  }
  return [bound = std::move(bound)](const Atom& atom) -> std::optional<Index> {
    if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
    auto it = bound.find(atom.name);
    return it == bound.end() ? std::nullopt : std::optional<Index>(it->second);
  };
}

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs) {
  const Graph bound = with_sizes(graph, bind_sizes(graph, inputs));
  std::vector<std::size_t> last_use(bound.value_count(), 0);
  for (std::size_t i = 0; i < bound.nodes().size(); ++i)
    for (ValueId id : bound.nodes()[i]->inputs)
      if (id != kNoValue) last_use[id] = i;
  for (const GraphOutput& output : bound.outputs()) last_use[output.value] = bound.nodes().size();

  std::vector<Tensor> tensors(bound.value_count());
  for (ValueId id = 0; id < bound.value_count(); ++id) tensors[id] = bound.value(id).constant;
  for (std::size_t i = 0; i < inputs.size(); ++i) tensors[bound.inputs()[i]] = inputs[i];
  for (std::size_t i = 0; i < bound.nodes().size(); ++i) {
    const Node& node = *bound.nodes()[i];
    if (node.op == nullptr)
      throw Error(ErrorCode::kUnsupported, "cannot be executed: " + node.opaque_reason, where_of(bound, node));
    std::vector<Tensor> operands;
    operands.reserve(node.inputs.size());
    for (ValueId id : node.inputs) operands.push_back(id == kNoValue ? Tensor() : tensors[id]);
    std::vector<Tensor> results;
    try {
      results = interpret(*node.op, node.attributes, operands);
    } catch (const Error& error) {
      throw error.within(where_of(bound, node));
    }
    for (std::size_t k = 0; k < node.outputs.size() && k < results.size(); ++k)
      if (const ValueId id = node.outputs[k]; id != kNoValue && last_use[id] > i) tensors[id] = std::move(results[k]);
    for (ValueId id : node.inputs)
      if (id != kNoValue && last_use[id] == i) tensors[id] = Tensor();
  }
  std::vector<Tensor> results;
  for (const GraphOutput& output : bound.outputs()) {
    if (!tensors[output.value]) throw Error(ErrorCode::kUnsupported, "cannot be computed", "output \"" + output.name + "\"");
    results.push_back(tensors[output.value]);
  }
  return results;
}

}  // namespace rewright
