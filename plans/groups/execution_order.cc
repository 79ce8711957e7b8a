#include "plans/groups/execution_order.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <tuple>

#include "base/error.h"

namespace rewright::plans {

namespace {

constexpr int kNoLimit = std::numeric_limits<int>::max() / 2;

class OrderMaker {
 public:
  OrderMaker(const Graph& graph, const Partition& partition, const std::vector<PlannedExchange>& exchanges,
             const std::map<std::size_t, BetweenGroups>& between)
      : graph_(graph),
        partition_(partition),
        exchanges_(exchanges),
        producers_(graph.producers()),
        of_value_(graph.value_count()) {
    is_between_.resize(graph.nodes().size());
    for (const auto& [n, exchange] : between) is_between_[n] = true;
    for (std::size_t e = 0; e < exchanges.size(); ++e) of_value_[exchanges[e].value].push_back(e);
    result_.node_level.resize(graph.nodes().size());
    result_.value_level.assign(graph.value_count(), -1);
  }

  ExecutionOrder make() {
    if (partition_.sequence.empty())
      for (std::size_t n = 0; n < is_between_.size(); ++n) set_level(n, least_level(n));
    else
      follow_sequence();
    put_off_beginnings();
    put_in_order();
    return std::move(result_);
  }

 private:
  const Node& node(std::size_t n) const { return *graph_.nodes()[n]; }

  // The exchange that gives a node its operand; none if it is held so.
  std::optional<std::size_t> exchange_of(std::size_t n, std::size_t operand) const {
    for (const std::size_t e : of_value_[node(n).inputs[operand]])
      if (exchanges_[e].to == partition_.nodes[n].needs[operand]) return e;
    return std::nullopt;
  }

  // Calls `visit(value, exchange)` for each operand that is there.
  template <class Visit>
  void for_operands(std::size_t n, const Visit& visit) const {
    for (std::size_t k = 0; k < node(n).inputs.size(); ++k)
      if (node(n).inputs[k] != kNoValue) visit(node(n).inputs[k], exchange_of(n, k));
  }

  // The first level at which the operand can be read.
  int arrival(ValueId v, const std::optional<std::size_t>& exchange) const {
    return result_.value_level[v] + (exchange ? 1 : 0);
  }

  int least_level(std::size_t n) const {
    int level = is_between_[n] ? -1 : 0;
    for_operands(n, [&](ValueId v, const auto& exchange) { level = std::max(level, arrival(v, exchange)); });
    return level;
  }

  void set_level(std::size_t n, int level) {
    result_.node_level[n] = level;
    for (const ValueId v : node(n).outputs)
      if (v != kNoValue) result_.value_level[v] = is_between_[n] ? level + 1 : level;
  }

  // ---- A given order

  [[noreturn]] static void refuse(std::size_t n) {
    throw Error(ErrorCode::kBadInput, "its order has node " + std::to_string(n) + " not where it can be computed, or not once");
  }

  // Levels go up where a node needs the result of an exchange that cannot be there yet.
  void follow_sequence() {
    std::vector<bool> done(is_between_.size());
    const std::function<void(std::size_t)> require_done = [&](std::size_t n) {
      if (done[n]) return;
      if (!is_between_[n]) refuse(n);
      for (const ValueId v : node(n).inputs)
        if (v != kNoValue && producers_[v] >= 0) require_done(static_cast<std::size_t>(producers_[v]));
      set_level(n, least_level(n));
      done[n] = true;
    };
    int level = 0;
    for (const std::size_t n : partition_.sequence) {
      if (n >= done.size() || done[n] || is_between_[n]) refuse(n);
      for (const ValueId v : node(n).inputs)
        if (v != kNoValue && producers_[v] >= 0) require_done(static_cast<std::size_t>(producers_[v]));
      level = std::max(level, least_level(n));
      set_level(n, level);
      done[n] = true;
    }
    for (std::size_t n = 0; n < done.size(); ++n) require_done(n);
  }

  // Given values that groups exchange need not be there from the beginning, and what is computed again before it is read.
  void put_off_beginnings() {
    std::vector<int> needed(graph_.value_count(), kNoLimit);
    for (std::size_t n = is_between_.size(); n-- > 0;) {
      int first = kNoLimit;
      for (const ValueId v : node(n).outputs)
        if (v != kNoValue) first = std::min(first, needed[v]);
      if (is_between_[n] && producers_[node(n).inputs[0]] < 0 && first < kNoLimit)
        set_level(n, std::max(result_.node_level[n], first - 2));
      if (partition_.sequence.empty() && !partition_.again.empty() && partition_.again[n] && first < kNoLimit)
        set_level(n, std::max(result_.node_level[n], first));
      for_operands(n, [&](ValueId v, const auto& exchange) {
        needed[v] = std::min(needed[v], result_.node_level[n] - (exchange ? 1 : 0));
      });
    }
  }

  // ---- Queues

  void put_in_order() {
    result_.nodes = partition_.sequence;
    for (std::size_t n = 0; n < is_between_.size() && partition_.sequence.empty(); ++n)
      if (!is_between_[n]) result_.nodes.push_back(n);
    std::stable_sort(result_.nodes.begin(), result_.nodes.end(),
                     [&](std::size_t a, std::size_t b) { return result_.node_level[a] < result_.node_level[b]; });
    // Nodes of this level and those before it.
    const auto end_of = [&](int level) {
      const auto at = std::partition_point(result_.nodes.begin(), result_.nodes.end(),
                                           [&](std::size_t n) { return result_.node_level[n] <= level; });
      return static_cast<std::size_t>(at - result_.nodes.begin());
    };
    // By value: so many nodes are computed until it is there, but for so many exchanges in a row.
    std::vector<std::size_t> made(graph_.value_count()), exchanges(graph_.value_count());
    for (std::size_t k = 0; k < result_.nodes.size(); ++k)
      for (const ValueId v : node(result_.nodes[k]).outputs)
        if (v != kNoValue) made[v] = k + 1;
    std::vector<std::tuple<std::size_t, std::size_t, std::int64_t, bool, std::size_t>> order;
    std::vector<int> first_reader(exchanges_.size(), kNoLimit);
    for (std::size_t n = 0; n < is_between_.size(); ++n) {
      for_operands(n, [&](ValueId v, const auto& exchange) {
        if (exchange) first_reader[*exchange] = std::min(first_reader[*exchange], result_.node_level[n]);
        if (!is_between_[n]) return;
        const ValueId to = node(n).outputs[0];
        made[to] = producers_[v] < 0 ? end_of(result_.node_level[n]) : made[v];
        exchanges[to] = exchanges[v] + (exchange ? 2 : 1);
        order.emplace_back(made[to], exchanges[to] - 1, static_cast<std::int64_t>(n), true, n);
      });
    }
    for (std::size_t e = 0; e < exchanges_.size(); ++e) {
      const ValueId v = exchanges_[e].value;
      // Given values a level before they are read, behind what is computed until then.
      const std::size_t after = producers_[v] < 0 ? end_of(std::max(-1, first_reader[e] - 2)) : made[v];
      order.emplace_back(after, exchanges[v], producers_[v], false, e);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [after, depth, position, is_between, number] : order)
      result_.exchanges.push_back({is_between, number, after});
  }

  const Graph& graph_;
  const Partition& partition_;
  const std::vector<PlannedExchange>& exchanges_;
  const std::vector<std::int32_t> producers_;
  std::vector<std::vector<std::size_t>> of_value_;  // exchanges
  std::vector<bool> is_between_;                    // by node
  ExecutionOrder result_;
};

}  // namespace

ExecutionOrder execution_order(const Graph& graph, const Partition& partition, const std::vector<PlannedExchange>& exchanges,
                               const std::map<std::size_t, BetweenGroups>& between) {
  return OrderMaker(graph, partition, exchanges, between).make();
}

}  // namespace rewright::plans
