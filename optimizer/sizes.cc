#include "optimizer/sizes.h"

#include <array>
#include <set>
#include <unordered_map>

#include "graph/execute.h"

namespace rewright {

namespace {

// Pictures and sounds are made smaller by powers of two.
constexpr std::array<std::int64_t, 7> kUsualSizes = {1, 16, 32, 64, 256, 320, 16000};

struct OpenSizes {
  std::set<std::string> all, of_first_axes;
};

OpenSizes open_sizes(const Graph& graph, const NamedSizes& given) {
  OpenSizes open;
  for (const ValueId id : graph.inputs()) {
    const Indices& shape = graph.value(id).type.shape;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      for_each_atom(shape[axis], [&](const Atom& atom) {
        if (atom.kind != Atom::Kind::kSymbol || given.contains(atom.name)) return;
        open.all.insert(atom.name);
        if (axis == 0 && shape.size() > 1) open.of_first_axes.insert(atom.name);
      });
  }
  return open;
}

bool is_well_typed(const Graph& graph, const NamedSizes& sizes) {
  const Substitution substitution = rewright::substitution(sizes);
  Graph sized;
  std::unordered_map<ValueId, ValueId> local;
  const auto take = [&](ValueId id) {
    if (id == kNoValue) return id;
    const auto [entry, is_new] = local.try_emplace(id, 0);
    if (is_new) {
      Value value = graph.value(id);
      value.type.shape = substitute(value.type.shape, substitution);
      if (value.contents) value.contents = substitute(*value.contents, substitution);
      entry->second = sized.add_value(std::move(value));
    }
    return entry->second;
  };
  try {
    for (const auto& node : graph.nodes()) {
      if (node->op == nullptr) continue;  // its results are taken as they are declared
      std::vector<ValueId> operands;
      for (const ValueId id : node->inputs) operands.push_back(take(id));
      const std::vector<ValueId> outputs = sized.add_node(*node->op, substitute(node->attributes, substitution), operands);
      for (std::size_t k = 0; k < node->outputs.size() && k < outputs.size(); ++k)
        if (node->outputs[k] != kNoValue) local.insert_or_assign(node->outputs[k], outputs[k]);
    }
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

NamedSizes fitting_sizes(const Graph& graph, NamedSizes given) {
  const OpenSizes open = open_sizes(graph, given);
  if (open.all.empty()) return given;
  for (const std::int64_t usual : kUsualSizes) {
    NamedSizes sizes = given;
    for (const std::string& name : open.all) sizes.emplace(name, open.of_first_axes.contains(name) ? 1 : usual);
    if (is_well_typed(graph, sizes)) return sizes;
  }
  return given;
}

}  // namespace rewright
