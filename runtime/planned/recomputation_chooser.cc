#include "runtime/planned/recomputation_chooser.h"

#include <limits>
#include <utility>

#include "optimizer/costs/cost_model.h"

namespace rewright::runtime {

RecomputationChooser::RecomputationChooser(const Graph& graph, const plans::Partition& partition, std::int64_t processes)
    : graph_(graph) {
  std::vector<plans::Holding> held = partition.given;
  std::vector<NodeCost> costs;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = *graph.nodes()[n];
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      if (node.outputs[o] != kNoValue) held[node.outputs[o]] = partition.nodes[n].gives[o];
    NodeCost cost;
    cost.seconds = partition.nodes[n].seconds;
    cost.free = node.op && operator_traits(*node.op, node.attributes, graph.operand_types(node)).free;
    costs.push_back(cost);
  }
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (held[v].kind == plans::Holding::Kind::kCut) {
      Value part = graph.value(v);
      Index& rows = part.type.shape.at(held[v].axis);
      rows = (rows.value() + processes - 1) / processes;
      graph_.set_value(v, std::move(part));
    }
  find_order();
  graph_.drop_nodes_from(0);
  std::vector<NodeCost> ordered;
  for (const std::int32_t n : order_) {
    graph_.add_shared(graph.nodes()[static_cast<std::size_t>(n)]);
    ordered.push_back(costs[static_cast<std::size_t>(n)]);
  }
  problem_ = training::make_recomputation_problem(graph_, ordered, training::stages_for(graph_, ordered));
}

void RecomputationChooser::find_order() {
  const std::vector<std::int32_t> producers = graph_.producers();
  std::vector<char> in_front(graph_.nodes().size());
  std::vector<ValueId> open{graph_.outputs()[0].value};
  while (!open.empty()) {
    const std::int32_t n = open.back() == kNoValue ? -1 : producers[open.back()];
    open.pop_back();
    if (n < 0 || std::exchange(in_front[static_cast<std::size_t>(n)], 1)) continue;
    const auto& inputs = graph_.nodes()[static_cast<std::size_t>(n)]->inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  for (const char front : {1, 0})
    for (std::size_t n = 0; n < in_front.size(); ++n)
      if (in_front[n] == front) order_.push_back(static_cast<std::int32_t>(n));
}

double RecomputationChooser::bytes() const {
  return choose_recomputations(problem_, std::numeric_limits<double>::infinity(), 0)->peak_bytes;
}

std::optional<std::vector<Recomputation>> RecomputationChooser::choose(double bytes, double seconds) const {
  return in_given_order(choose_recomputations(problem_, bytes, seconds));
}

std::optional<std::vector<Recomputation>> RecomputationChooser::choose_least(double seconds) const {
  return in_given_order(choose_least_memory(problem_, seconds));
}

std::optional<std::vector<Recomputation>> RecomputationChooser::in_given_order(
    std::optional<training::RecomputationChoice> choice) const {
  if (!choice || choice->recomputations.empty()) return std::nullopt;
  std::vector<Recomputation> result = std::move(choice->recomputations);
  for (Recomputation& r : result) {
    r.before = order_[static_cast<std::size_t>(r.before)];
    for (std::int32_t& n : r.nodes) n = order_[static_cast<std::size_t>(n)];
  }
  return result;
}

plans::Partition with_copies(const plans::Partition& partition, const plans::RecomputedGroup& again) {
  plans::Partition result = partition;
  result.nodes.clear();
  for (const std::int32_t n : again.of_node) result.nodes.push_back(partition.nodes[static_cast<std::size_t>(n)]);
  result.given.resize(again.group.graph.value_count());
  result.again = again.again;
  return result;
}

}  // namespace rewright::runtime
