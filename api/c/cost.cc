#include "api/c/cost.h"

#include "api/c/node.h"

namespace rewright::c {

NodePrice price_by(rewright_cost cost, void* user) {
  if (cost == nullptr) return {};
  return [=](const Graph& graph, const Node& node) -> std::optional<double> {
    rewright_node n(node.op->name(), std::string(), read_attributes(*node.op, node.attributes));
    const auto add = [&](AllDescribed& all, ValueId id) {
      if (id == kNoValue)
        describe_unknown(all, "", DataType::kUndefined);
      else
        describe(all, "", graph.value(id).type, graph.value(id).shape_known);
    };
    for (const ValueId id : node.inputs) add(n.inputs, id);
    for (const ValueId id : node.outputs) add(n.outputs, id);
    const double seconds = cost(&n, user);
    return seconds >= 0 ? std::optional(seconds) : std::nullopt;  // NaN is no price
  };
}

}  // namespace rewright::c
