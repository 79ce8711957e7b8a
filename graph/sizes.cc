#include "graph/sizes.h"

#include <optional>

namespace rewright::graph {

std::set<std::string> symbols_of(const Indices& indices) {
  std::set<std::string> symbols;
  for (const Index& index : indices)
    for_each_atom(index, [&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kSymbol) symbols.insert(atom.name);
    });
  return symbols;
}

std::set<std::string> symbols_of(const Attributes& attributes) {
  std::set<std::string> symbols;
  for (const AttributeValue& attribute : attributes) {
    if (const auto* index = std::get_if<Index>(&attribute)) symbols.merge(symbols_of(Indices{*index}));
    if (const auto* indices = std::get_if<Indices>(&attribute)) symbols.merge(symbols_of(*indices));
  }
  return symbols;
}

std::unordered_map<std::string, std::int32_t> size_tellers(const Graph& graph) {
  std::unordered_map<std::string, std::int32_t> tellers;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = *graph.nodes()[n];
    if (node.op != nullptr) continue;
    for (const ValueId id : node.outputs) {
      if (id == kNoValue || !graph.value(id).shape_known) continue;
      for (const Index& size : graph.value(id).type.shape)
        if (const Atom* atom = size.as_atom(); atom != nullptr && atom->kind == Atom::Kind::kSymbol)
          tellers.emplace(atom->name, static_cast<std::int32_t>(n));
    }
  }
  if (tellers.empty()) return tellers;
  for (const ValueId id : graph.inputs())
    for (const std::string& symbol : symbols_of(graph.value(id).type.shape)) tellers.erase(symbol);
  return tellers;
}

Substitution substitution(const BoundSizes& bound) {
  return [&bound](const Atom& atom) -> std::optional<Index> {
    if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
    const auto it = bound.find(atom.name);
    return it == bound.end() ? std::nullopt : std::optional<Index>(it->second);
  };
}

namespace {

// The first value whose type has a size of this name, for messages.
std::string where_bound(const Graph& graph, const std::string& symbol) {
  const auto says = [&](ValueId id) -> std::string {
    const Value& value = graph.value(id);
    for (std::size_t axis = 0; value.shape_known && axis < value.type.rank(); ++axis)
      if (value.type.shape[axis] == Index::symbol(symbol)) return "axis " + std::to_string(axis) + " of \"" + value.name + "\"";
    return {};
  };
  for (const ValueId id : graph.inputs())
    if (std::string found = says(id); !found.empty()) return found;
  for (const auto& node : graph.nodes())
    for (const ValueId id : node->outputs)
      if (id != kNoValue && node->op == nullptr)
        if (std::string found = says(id); !found.empty()) return found;
  return "a size of the graph around it";
}

// Binds the named sizes of a value's type to these sizes. Returns "" on success. If the sizes contradict the type or earlier
// bindings, returns a message with both values.
std::string bind_shape(const Graph& graph, const TensorType& type, const Sizes& sizes, BoundSizes& bound) {
  if (type.rank() != sizes.size()) return "it has another number of axes";
  for (std::size_t axis = 0; axis < sizes.size(); ++axis)
    if (const Atom* atom = type.shape[axis].as_atom(); atom != nullptr && atom->kind == Atom::Kind::kSymbol)
      bound.emplace(atom->name, sizes[axis]);
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    const Index& declared = type.shape[axis];
    const Index expected = substitute(declared, substitution(bound));
    if (!expected.is_constant() || expected.value() == sizes[axis]) continue;
    std::string objection = "axis " + std::to_string(axis) + " must be " + expected.to_string();
    std::string known;
    for_each_atom(declared, [&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kSymbol && known.empty() && bound.contains(atom.name))
        known = ", as " + where_bound(graph, atom.name) + " is " + std::to_string(bound.at(atom.name));
    });
    return objection + known;
  }
  return {};
}

std::string type_text(const Tensor& tensor) { return to_string(TensorType{tensor.type(), to_indices(tensor.sizes())}); }

}  // namespace

BoundSizes bound_sizes(const Graph& graph, std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs().size())
    throw Error(ErrorCode::kBadInput, "the model has " + std::to_string(graph.inputs().size()) + " inputs, " +
                                          std::to_string(inputs.size()) + " tensors were given");
  BoundSizes bound;
  // Plain names first. Expressions over them are compared once all names are bound.
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    for (std::size_t axis = 0; value.shape_known && inputs[i] && axis < inputs[i].sizes().size(); ++axis)
      if (const Atom* atom = axis < value.type.rank() ? value.type.shape[axis].as_atom() : nullptr;
          atom != nullptr && atom->kind == Atom::Kind::kSymbol)
        bound.emplace(atom->name, inputs[i].sizes()[axis]);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    if (!inputs[i]) continue;
    const bool same_elements = value.type.type == inputs[i].type() || value.type.type == DataType::kUndefined;
    const std::string objection = value.shape_known ? bind_shape(graph, value.type, inputs[i].sizes(), bound) : "";
    if (same_elements && objection.empty()) continue;
    throw Error(ErrorCode::kBadInput,
                "is " + type_text(inputs[i]) + ", the model asks for " + to_string(value.type) +
                    (same_elements && value.type.rank() == inputs[i].sizes().size() ? ": " + objection : ""),
                "input \"" + value.name + "\"");
  }
  return bound;
}

void bind_result(const Graph& graph, ValueId id, const Datum& result, BoundSizes& bound) {
  if (id == kNoValue || !result.is_tensor()) return;
  const Value& value = graph.value(id);
  const Tensor& tensor = result.tensor();
  const bool same_elements = value.type.type == DataType::kUndefined || value.type.type == tensor.type();
  const std::string objection = value.shape_known ? bind_shape(graph, value.type, tensor.sizes(), bound) : "";
  if (same_elements && objection.empty()) return;
  throw Error(ErrorCode::kBadInput, "its result" + (value.name.empty() ? "" : " \"" + value.name + "\"") + " is " +
                                        type_text(tensor) + ", the model says " + to_string(value.type) +
                                        (same_elements ? ": " + objection : ""));
}

void bind_results(const Graph& graph, const Node& node, std::span<const Datum> results, BoundSizes& bound) {
  for (std::size_t k = 0; k < node.outputs.size() && k < results.size(); ++k)
    bind_result(graph, node.outputs[k], results[k], bound);
}

}  // namespace rewright::graph
