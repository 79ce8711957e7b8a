#include "plans/partition/moved_shares.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "optimizer/costs/cost_model.h"

namespace rewright::plans {

std::vector<double> moved_shares(const Graph& graph) {
  const auto nodes = graph.nodes();
  const auto producers = graph.producers();
  const auto users = graph.users();
  std::vector<bool> is_output(graph.value_count());
  for (const GraphOutput& o : graph.outputs()) is_output[o.value] = true;
  std::vector<OperatorTraits> traits(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (nodes[n]->op) traits[n] = operator_traits(*nodes[n]->op, nodes[n]->attributes, graph.operand_types(*nodes[n]));
  std::vector<double> fused(nodes.size());
  std::vector<std::size_t> first(nodes.size());  // of its kernel: the node for which what the kernel writes counts
  // A product, beside whose computing the writing may take no time, goes before what computes elements.
  const auto is_before = [&](std::size_t a, std::size_t b) {
    return std::pair(traits[a].pointwise, a) < std::pair(traits[b].pointwise, b);
  };
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    first[n] = n;
    std::vector<std::pair<std::size_t, double>> before;  // kernels that this node goes on with, and bytes of their results
    for (std::size_t k = 0; k < traits[n].aligned.size(); ++k) {
      const ValueId v = nodes[n]->inputs[k];
      if (!traits[n].aligned[k] || !traits[n].pointwise || v == kNoValue || producers[v] < 0) continue;
      if (users[v].size() != 1 || is_output[v]) continue;
      const auto from = static_cast<std::size_t>(producers[v]);
      if (!nodes[from]->op || traits[from].free) continue;  // a view of what is in memory
      const double bytes = bytes_of(graph.value(v).type);
      fused[n] += bytes;
      const auto& inputs = nodes[n]->inputs;
      if (std::find(inputs.begin(), inputs.end(), v) != inputs.begin() + static_cast<std::ptrdiff_t>(k))
        continue;  // saved once, however often a node reads it
      before.emplace_back(first[from], bytes);
    }
    if (before.empty()) continue;
    // A kernel writes once. That counts for the first of its nodes, whose measured time has it, as far as it wrote as much.
    const auto writes = std::min_element(before.begin(), before.end(),
                                         [&](const auto& a, const auto& b) { return is_before(a.first, b.first); });
    const ValueId result = nodes[n]->outputs.at(0);
    const double written = result == kNoValue ? 0 : std::min(writes->second, bytes_of(graph.value(result).type));
    first[n] = writes->first, fused[n] += written, writes->second -= written;
    for (const auto& [kernel, bytes] : before) fused[kernel] += bytes;
  }
  std::vector<double> result(nodes.size(), 1);
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (traits[n].bytes > 0) result[n] = std::max(0.0, 1 - fused[n] / traits[n].bytes);
  return result;
}

}  // namespace rewright::plans
