#include "plans/partition/chains.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace rewright::plans {

// The longest part of a chain on one side of a node: before it begins, or behind its end.
struct Chains::Side {
  enum class Kind { kNothing, kComputing, kExchanging, kLink };
  double seconds = 0;
  Kind kind = Kind::kNothing;
  ChainLink link;  // kLink: to the next node of the chain, or to an input or output

  void take(double other, Kind other_kind, const ChainLink& other_link = {}) {
    if (other > seconds) seconds = other, kind = other_kind, link = other_link;
  }
};

Chains::Chains(const Graph& graph) : graph_(graph), producers_(graph.producers()), links_(graph.value_count()) {
  const auto nodes = graph.nodes();
  ancestors_.assign(nodes.size(), std::vector<std::uint64_t>((nodes.size() + 63) / 64));
  for (std::size_t n = 0; n < nodes.size(); ++n)
    for (std::size_t k = 0; k < nodes[n]->inputs.size(); ++k) {
      const ValueId v = nodes[n]->inputs[k];
      if (v == kNoValue) continue;
      links_[v].push_back({v, static_cast<std::int32_t>(n), k});
      if (producers_[v] < 0) continue;
      const auto producer = static_cast<std::size_t>(producers_[v]);
      for (std::size_t word = 0; word < ancestors_[n].size(); ++word) ancestors_[n][word] |= ancestors_[producer][word];
      ancestors_[n][producer / 64] |= std::uint64_t{1} << (producer % 64);
    }
  for (std::size_t o = 0; o < graph.outputs().size(); ++o)
    links_[graph.outputs()[o].value].push_back({graph.outputs()[o].value, ChainLink::kOutput, o});
}

std::vector<Chain> Chains::longest(const std::function<double(std::size_t node)>& node_seconds,
                                   const std::function<double(const ChainLink& link)>& link_seconds, double longer_than,
                                   std::size_t most) const {
  const std::size_t count = ancestors_.size();
  std::vector<double> of_node(count);
  std::vector<std::vector<double>> of_link(links_.size());
  std::vector<ValueId> sent;  // values with a link that takes time
  for (std::size_t n = 0; n < count; ++n) of_node[n] = node_seconds(n);
  for (ValueId v = 0; v < links_.size(); ++v) {
    for (const ChainLink& link : links_[v]) of_link[v].push_back(link_seconds(link));
    if (std::any_of(of_link[v].begin(), of_link[v].end(), [](double seconds) { return seconds > 0; })) sent.push_back(v);
  }

  // Nodes and links that a side consists of.
  const auto is_before = [&](std::size_t m, std::size_t n) { return depends(n, m); };
  const auto is_behind = [&](std::size_t m, std::size_t n) { return depends(m, n); };
  // The link of a value that counts, of those that node n waits for; null where there is none.
  const auto link_before = [&](ValueId v, std::size_t n) {
    const ChainLink* result = nullptr;
    double most = 0;
    for (std::size_t k = 0; k < links_[v].size(); ++k) {
      const ChainLink& link = links_[v][k];
      if (link.reader == ChainLink::kOutput || of_link[v][k] <= most) continue;
      const auto reader = static_cast<std::size_t>(link.reader);
      if (reader == n || is_before(reader, n)) result = &link, most = of_link[v][k];
    }
    return std::pair(result, most);
  };
  const auto link_behind = [&](ValueId v, std::size_t n) -> std::pair<const ChainLink*, double> {
    const std::int32_t producer = producers_[v];
    if (producer < 0) return {nullptr, 0};
    const auto p = static_cast<std::size_t>(producer);
    if (p != n && !is_behind(p, n)) return {nullptr, 0};
    const auto at = std::max_element(of_link[v].begin(), of_link[v].end()) - of_link[v].begin();
    return {&links_[v][static_cast<std::size_t>(at)], of_link[v][static_cast<std::size_t>(at)]};
  };
  const auto computing = [&](std::size_t n, const auto& belongs) {
    double sum = 0;
    for (std::size_t m = 0; m < count; ++m)
      if (belongs(m, n)) sum += of_node[m];
    return sum;
  };
  const auto exchanging = [&](std::size_t n, const auto& link_of) {
    double sum = 0;
    for (const ValueId v : sent) sum += link_of(v, n).second;
    return sum;
  };

  std::vector<Side> before(count), behind(count);
  for (std::size_t n = 0; n < count; ++n) {
    before[n].take(computing(n, is_before), Side::Kind::kComputing);
    before[n].take(exchanging(n, link_before), Side::Kind::kExchanging);
    behind[n].take(computing(n, is_behind), Side::Kind::kComputing);
    behind[n].take(exchanging(n, link_behind), Side::Kind::kExchanging);
  }
  const auto seconds_of = [&](const ChainLink& link) {
    for (std::size_t k = 0; k < links_[link.value].size(); ++k)
      if (links_[link.value][k].reader == link.reader && links_[link.value][k].port == link.port) return of_link[link.value][k];
    return 0.0;
  };
  const auto nodes = graph_.nodes();
  for (std::size_t n = 0; n < count; ++n)
    for (std::size_t k = 0; k < nodes[n]->inputs.size(); ++k) {
      const ChainLink link{nodes[n]->inputs[k], static_cast<std::int32_t>(n), k};
      if (link.value == kNoValue) continue;
      double seconds = seconds_of(link);
      if (const std::int32_t producer = producers_[link.value]; producer >= 0) {
        const auto p = static_cast<std::size_t>(producer);
        seconds += before[p].seconds + of_node[p];
      }
      before[n].take(seconds, Side::Kind::kLink, link);
    }
  for (std::size_t n = count; n-- > 0;)
    for (const ValueId v : nodes[n]->outputs)
      for (std::size_t k = 0; v != kNoValue && k < links_[v].size(); ++k) {
        const ChainLink& link = links_[v][k];
        double seconds = of_link[v][k];
        if (link.reader != ChainLink::kOutput) {
          const auto reader = static_cast<std::size_t>(link.reader);
          seconds += of_node[reader] + behind[reader].seconds;
        }
        behind[n].take(seconds, Side::Kind::kLink, link);
      }

  const auto chain_through = [&](std::size_t middle) {
    Chain result{before[middle].seconds + of_node[middle] + behind[middle].seconds, {middle}, {}};
    const auto add_all = [&](std::size_t n, Side::Kind kind, const auto& belongs, const auto& link_of) {
      for (std::size_t m = 0; kind == Side::Kind::kComputing && m < count; ++m)
        if (belongs(m, n)) result.nodes.push_back(m);
      if (kind != Side::Kind::kExchanging) return;
      for (const ValueId v : sent)
        if (const ChainLink* link = link_of(v, n).first) result.links.push_back(*link);
    };
    std::size_t n = middle;
    while (before[n].kind == Side::Kind::kLink) {
      result.links.push_back(before[n].link);
      if (producers_[before[n].link.value] < 0) break;
      result.nodes.push_back(n = static_cast<std::size_t>(producers_[before[n].link.value]));
    }
    add_all(n, before[n].kind, is_before, link_before);
    n = middle;
    while (behind[n].kind == Side::Kind::kLink) {
      result.links.push_back(behind[n].link);
      if (behind[n].link.reader == ChainLink::kOutput) break;
      result.nodes.push_back(n = static_cast<std::size_t>(behind[n].link.reader));
    }
    add_all(n, behind[n].kind, is_behind, link_behind);
    std::sort(result.nodes.begin(), result.nodes.end());
    return result;
  };

  std::vector<std::size_t> middles(count);
  std::iota(middles.begin(), middles.end(), std::size_t{0});
  const auto seconds_through = [&](std::size_t n) { return before[n].seconds + of_node[n] + behind[n].seconds; };
  std::stable_sort(middles.begin(), middles.end(),
                   [&](std::size_t a, std::size_t b) { return seconds_through(a) > seconds_through(b); });
  std::vector<Chain> result;
  std::set<std::vector<std::size_t>> known;
  for (const std::size_t middle : middles) {
    if (result.size() == most || seconds_through(middle) <= longer_than) break;
    Chain chain = chain_through(middle);
    if (known.insert(chain.nodes).second) result.push_back(std::move(chain));
  }
  return result;
}

}  // namespace rewright::plans
