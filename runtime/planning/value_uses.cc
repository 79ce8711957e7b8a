#include "runtime/planning/value_uses.h"

#include <algorithm>

namespace rewright::planning {

ValueUses::ValueUses(const Graph& graph, const std::function<bool(std::size_t node)>& needed)
    : nodes_(graph.value_count()), is_output_(graph.value_count()) {
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (!needed(n)) continue;
    const auto number = static_cast<std::int32_t>(n);
    for (const ValueId i : graph.nodes()[n]->inputs)
      if (i != kNoValue && (nodes_[i].empty() || nodes_[i].back() != number)) nodes_[i].push_back(number);
  }
  for (const GraphOutput& o : graph.outputs()) is_output_[o.value] = true;
}

void ValueUses::redirect(int node, ValueId from, ValueId to) {
  std::erase(nodes_[from], node);
  auto& readers = nodes_[to];
  const auto at = std::lower_bound(readers.begin(), readers.end(), node);
  if (at == readers.end() || *at != node) readers.insert(at, node);
}

}  // namespace rewright::planning
