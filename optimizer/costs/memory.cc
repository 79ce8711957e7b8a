// The memory that a graph needs while it runs, node by node.
#include <algorithm>

#include "optimizer/costs/parts.h"

namespace rewright::optimizer {

std::vector<double> CostModel::live_bytes(const MatchedGraph& matched) {
  const Graph& graph = *matched.graph;
  const auto bytes_of = [&](ValueId id) {
    const Value& value = graph.value(id);
    if (!value.shape_known) return 0.0;
    double bytes = 0;
    for (const CostedSizes& at : options_.sizes)
      bytes += at.weight * rewright::optimizer::bytes_of({value.type.type, substitute(value.type.shape, at.sizes)});
    return bytes;
  };
  // A fused node is computed in the memory of the node it is fused into, a free node is not computed at all, and values inside
  // a group need no memory.
  std::vector<ValueId> place(graph.value_count());
  for (ValueId id = 0; id < place.size(); ++id) place[id] = id;
  std::vector<bool> computed(graph.nodes().size()), inner(graph.value_count());
  visit(matched, [&](const Signature& signature, double share, std::span<const std::uint32_t> nodes) {
    for (const std::uint32_t n : nodes) computed[n] = true;
    for (const std::uint32_t n : nodes.first(nodes.size() - 1))
      for (const ValueId id : graph.nodes()[n]->outputs)
        if (id != kNoValue) inner[id] = true;
    const Node& node = *graph.nodes()[nodes.back()];
    if ((share >= 1 && !signature.traits.free) || node.outputs.empty() || node.outputs[0] == kNoValue) return;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || matched.constant[id] || bytes_of(id) != bytes_of(node.outputs[0])) continue;
      if (!signature.traits.free && (!signature.traits.aligned[i] || matched.users(id).size() != 1)) continue;
      place[node.outputs[0]] = id;
      break;
    }
  });
  const auto place_of = [&](ValueId id) {
    while (place[id] != id) id = place[id];
    return id;
  };
  double always = 0;  // inputs and weights
  std::vector<bool> counted(graph.value_count());
  for (const ValueId id : graph.inputs()) {
    counted[id] = true;
    always += bytes_of(id);
  }
  const std::size_t end = graph.nodes().size();
  std::vector<std::size_t> last(graph.value_count());
  for (std::size_t n = 0; n < end; ++n) {
    if (!computed[n]) continue;
    for (const ValueId id : graph.nodes()[n]->inputs) {
      if (id == kNoValue) continue;
      last[place_of(id)] = n;
      if (!matched.constant[id] || counted[id]) continue;
      counted[id] = true;
      always += bytes_of(id);
    }
  }
  for (const GraphOutput& output : graph.outputs()) last[place_of(output.value)] = end;
  std::vector<std::vector<ValueId>> ends(end + 1);
  double live = 0;
  std::vector<double> held{always};
  for (std::size_t n = 0; n < end; ++n) {
    held.push_back(always + live);
    if (!computed[n]) continue;
    for (const ValueId id : graph.nodes()[n]->outputs) {
      if (id == kNoValue || inner[id] || place[id] != id) continue;
      live += bytes_of(id);
      ends[std::max(last[id], n)].push_back(id);
    }
    held.back() = always + live;
    for (const ValueId id : ends[n]) live -= bytes_of(id);
  }
  return held;
}

double CostModel::peak_bytes(const MatchedGraph& matched) {
  const std::vector<double> held = live_bytes(matched);
  return *std::max_element(held.begin(), held.end());
}

}  // namespace rewright::optimizer
