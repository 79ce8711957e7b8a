#include "runtime/planning/value_uses.h"

#include <algorithm>

namespace rewright::planning {

ValueUses::ValueUses(const Graph& graph, const std::function<bool(std::size_t node)>& needed)
    : readers_(graph.value_count()), is_output_(graph.value_count()) {
  std::vector<bool> is_needed(graph.nodes().size());
  std::size_t all = 0;
  for (std::size_t n = 0; n < is_needed.size(); ++n) {
    is_needed[n] = needed(n);
    if (!is_needed[n]) continue;
    for (const ValueId i : graph.nodes()[n]->inputs)
      if (i != kNoValue) ++readers_[i].count, ++all;  // at most
  }
  nodes_.resize(all);
  std::size_t first = 0;
  for (Readers& readers : readers_) {
    readers.first = first;
    first += readers.count;
    readers.count = 0;
  }
  for (std::size_t n = 0; n < is_needed.size(); ++n) {
    if (!is_needed[n]) continue;
    const auto number = static_cast<std::int32_t>(n);
    for (const ValueId i : graph.nodes()[n]->inputs)
      if (i != kNoValue && (nodes(i).empty() || nodes(i).back() != number))
        nodes_[readers_[i].first + readers_[i].count++] = number;
  }
  for (const GraphOutput& o : graph.outputs()) is_output_[o.value] = true;
}

void ValueUses::redirect(int node, ValueId from, ValueId to) {
  const auto begin = nodes_.begin() + static_cast<std::ptrdiff_t>(readers_[from].first);
  const auto end = begin + static_cast<std::ptrdiff_t>(readers_[from].count);
  readers_[from].count = static_cast<std::size_t>(std::remove(begin, end, node) - begin);
  const std::span<const std::int32_t> known = nodes(to);
  const auto at = std::lower_bound(known.begin(), known.end(), node);
  if (at != known.end() && *at == node) return;
  std::vector<std::int32_t> readers(known.begin(), at);  // they no longer fit where they are
  readers.push_back(node);
  readers.insert(readers.end(), at, known.end());
  readers_[to] = {nodes_.size(), readers.size()};
  nodes_.insert(nodes_.end(), readers.begin(), readers.end());
}

}  // namespace rewright::planning
