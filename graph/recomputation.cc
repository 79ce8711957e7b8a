#include "graph/recomputation.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"

namespace rewright::graph {

namespace {

[[noreturn]] void refuse(const Recomputation& recomputation, std::int32_t node, const char* why) {
  throw Error(ErrorCode::kBadInput, "node " + std::to_string(node) + " cannot be recomputed before node " +
                                        std::to_string(recomputation.before) + ": " + why);
}

// Places that exist, in order, and nodes that compute the same again.
void require_repeatable(const Graph& graph, std::span<const Recomputation> recomputations) {
  const auto count = static_cast<std::int32_t>(graph.nodes().size());
  std::int32_t last = 0;
  for (const Recomputation& r : recomputations) {
    if (r.before < last || r.before >= count)
      throw Error(ErrorCode::kBadInput,
                  "nodes are recomputed before node " + std::to_string(r.before) + ", which is not there or not in order");
    last = r.before;
    for (const std::int32_t n : r.nodes) {
      if (n < 0 || n >= count) refuse(r, n, "it is not there");
      const Node& node = *graph.nodes()[static_cast<std::size_t>(n)];
      if (!node.op || node.op->random()) refuse(r, n, "it would compute something else");
    }
  }
}

}  // namespace

RecomputedGraph with_recomputations(const Graph& graph, std::span<const Recomputation> recomputations) {
  require_repeatable(graph, recomputations);
  RecomputedGraph result{graph, {}, {}};
  std::vector<std::shared_ptr<const Node>> nodes;
  std::vector<std::pair<std::int32_t, bool>> from;
  std::vector<ValueId> now(graph.value_count());  // the current replacement of each value
  std::iota(now.begin(), now.end(), ValueId{0});
  const std::vector<std::int32_t> producers = graph.producers();
  std::vector<bool> made(graph.value_count());
  for (ValueId v = 0; v < graph.value_count(); ++v) made[v] = producers[v] < 0;
  const auto add = [&](std::int32_t n, bool again) {
    auto copy = std::make_shared<Node>(*graph.nodes()[static_cast<std::size_t>(n)]);
    for (auto* list : {&copy->inputs, &copy->parameters})
      for (ValueId& v : *list)
        if (v != kNoValue) v = now[v];
    for (ValueId& v : copy->outputs) {
      if (v == kNoValue) continue;
      const ValueId original = v;
      if (again) {
        Value value = graph.value(original);
        value.name.clear();
        v = result.graph.add_value(std::move(value));
      }
      now[original] = v;
      made[original] = true;
    }
    if (again) copy->origin = nullptr, copy->expansion = nullptr;
    nodes.push_back(std::move(copy));
    from.emplace_back(n, again);
  };
  std::size_t next = 0;
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph.nodes().size()); ++n) {
    for (; next < recomputations.size() && recomputations[next].before == n; ++next)
      for (const std::int32_t again : recomputations[next].nodes) {
        for (const ValueId v : graph.nodes()[static_cast<std::size_t>(again)]->inputs)
          if (v != kNoValue && !made[v]) refuse(recomputations[next], again, "its operands are not there");
        add(again, true);
      }
    add(n, false);
  }
  std::vector<char> live(result.graph.value_count());
  for (const GraphOutput& o : graph.outputs()) live[o.value] = 1;
  std::vector<bool> kept(nodes.size());
  for (std::size_t n = nodes.size(); n-- > 0;) {
    const Node& node = *nodes[n];
    kept[n] = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return v != kNoValue && live[v]; });
    if (!kept[n]) continue;
    for (const auto* list : {&node.inputs, &node.parameters})
      for (const ValueId v : *list)
        if (v != kNoValue) live[v] = 1;
  }
  result.graph.drop_nodes_from(0);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!kept[n]) continue;
    result.graph.add_shared(std::move(nodes[n]));
    result.of_node.push_back(from[n].first);
    result.again.push_back(from[n].second);
  }
  return result;
}

}  // namespace rewright::graph
