#include "equivalence/checker/bodies.h"

#include <map>

#include "base/error.h"
#include "graph/onnx/body.h"
#include "graph/onnx/opaque_meaning.h"

namespace rewright::equivalence {

namespace {

ValueId value_named(const Graph& graph, const std::string& name) {
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.value(id).name == name) return id;
  return kNoValue;
}

// The node in the model that it comes from: the table has it with other numbers of values.
const Node& own_node(const Graph& graph, const Node& node) {
  for (const auto& own : graph.nodes())
    if (own->origin && own->origin == node.origin) return *own;
  throw Error(ErrorCode::kUnsupported, "a node that is not in its model");
}

// Pairs the names of the inputs and outputs of x and y, bodies of nodes of the models a and b: the first `formal` inputs and
// the outputs by position, captured values by what they are equal to. nullopt if they do not pair.
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

}  // namespace

std::optional<std::vector<BodyPair>> paired_bodies(const Joint& joint, const Graph& a, const Graph& b, std::int32_t of_first,
                                                   std::int32_t of_second) {
  const auto& nodes = joint.graph().nodes();
  const auto is_between = [](std::int32_t n, std::size_t from, std::size_t to) {
    return n >= 0 && static_cast<std::size_t>(n) >= from && static_cast<std::size_t>(n) < to;
  };
  const std::size_t firsts = joint.first_nodes();
  if (!is_between(of_first, 0, firsts) || !is_between(of_second, firsts, firsts + joint.second_nodes())) return std::nullopt;
  const Node &x = *nodes[static_cast<std::size_t>(of_first)], &y = *nodes[static_cast<std::size_t>(of_second)];
  if (x.op || y.op || bodies_of(y).empty() || is_random(x) || is_random(y) || onnx_operator(x) != onnx_operator(y) ||
      x.outputs.size() != y.outputs.size())
    return std::nullopt;
  const Node &first = own_node(a, x), &second = own_node(b, y);
  const std::size_t own = own_inputs(x);
  if (meaning_without_bodies(a, first) != meaning_without_bodies(b, second) || own_inputs(y) != own) return std::nullopt;
  for (std::size_t i = 0; i < own; ++i) {
    const bool absent = x.inputs.at(i) == kNoValue || y.inputs.at(i) == kNoValue;
    if (absent ? x.inputs[i] != y.inputs[i] : !joint.equal(x.inputs[i], y.inputs[i])) return std::nullopt;
  }
  std::vector<BodyPair> pairs;
  const std::size_t formal = onnx_operator(x) == "If" ? 0 : own;
  for (const std::string& attribute : bodies_of(x)) {
    BodyPair pair{body_of(a, first, attribute, outer_names(a)), body_of(b, second, attribute, outer_names(b)), {}};
    std::optional<NameMap> names = names_in_bodies(joint, a, b, pair.x, pair.y, formal);
    if (!names) return std::nullopt;
    pair.names = std::move(*names);
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace rewright::equivalence
