#include "equivalence/bodies.h"

#include <map>

#include "base/error.h"

namespace rewright::equivalence {

namespace {

ValueId value_named(const Graph& graph, const std::string& name) {
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.value(id).name == name) return id;
  return kNoValue;
}

}  // namespace

const Node& own_node(const Graph& graph, const Node& node) {
  for (const auto& own : graph.nodes())
    if (own->origin && own->origin == node.origin) return *own;
  throw Error(ErrorCode::kUnsupported, "a node that is not in its model");
}

std::optional<NameMap> names_in_bodies(const Joint& joint, const Graph& a, const Graph& b, const Graph& x, const Graph& y,
                                       std::size_t formal) {
  if (x.inputs().size() != y.inputs().size() || x.outputs().size() != y.outputs().size() || formal > x.inputs().size())
    return std::nullopt;
  NameMap names;
  const auto pair = [&](const std::string& first, const std::string& second) {
    return names.emplace(first, second).first->second == second;
  };
  std::map<ValueId, std::string> captured;  // of the second model, by class
  for (std::size_t i = formal; i < y.inputs().size(); ++i) {
    const std::string& name = y.value(y.inputs()[i]).name;
    const ValueId outer = value_named(b, name);
    if (outer == kNoValue) return std::nullopt;
    captured.emplace(joint.find(joint.of_second(outer)), name);
  }
  for (std::size_t i = 0; i < x.inputs().size(); ++i) {
    const std::string& name = x.value(x.inputs()[i]).name;
    if (i < formal) {
      if (!pair(name, y.value(y.inputs()[i]).name)) return std::nullopt;
      continue;
    }
    const ValueId outer = value_named(a, name);
    const auto other = outer == kNoValue ? captured.end() : captured.find(joint.find(outer));
    if (other == captured.end() || !pair(name, other->second)) return std::nullopt;
  }
  for (std::size_t k = 0; k < x.outputs().size(); ++k)
    if (!pair(x.outputs()[k].name, y.outputs()[k].name)) return std::nullopt;
  return names;
}

}  // namespace rewright::equivalence
