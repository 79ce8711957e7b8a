#include "plans/groups/list_schedule.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace rewright::plans {

namespace {

class ListScheduler {
 public:
  ListScheduler(const Graph& graph, const Partition& partition, const std::vector<PlannedExchange>& exchanges,
                const PartitionOptions& options, const std::map<std::size_t, BetweenGroups>& between)
      : graph_(graph),
        partition_(partition),
        exchanges_(exchanges),
        options_(options),
        between_(between),
        users_(graph.users()),
        producers_(graph.producers()),
        of_value_(graph.value_count()),
        there_(graph.value_count()),
        exchanged_(exchanges.size()),
        waits_for_(graph.nodes().size()),
        opens_(graph.nodes().size()) {
    for (std::size_t e = 0; e < exchanges.size(); ++e) of_value_[exchanges[e].value].push_back(e);
    for (std::size_t n = 0; n < waits_for_.size(); ++n)
      for (const ValueId v : node(n).inputs)
        if (v != kNoValue && producers_[v] >= 0) add_wait(n, static_cast<std::size_t>(producers_[v]));
    delay_copies();
  }

  std::vector<std::size_t> run() {
    for (std::size_t n = 0; n < waits_for_.size(); ++n)
      if (waits_for_[n] == 0) open(n);
    while (!ready_.empty()) {
      auto next = std::find_if(ready_.begin(), ready_.end(), [&](std::size_t n) { return since_.at(n) <= computing_; });
      if (next == ready_.end())
        next = std::min_element(ready_.begin(), ready_.end(),
                                [&](std::size_t a, std::size_t b) { return since_.at(a) < since_.at(b); });
      const std::size_t n = *next;
      ready_.erase(next);
      computing_ = std::max(computing_, since_.at(n)) + partition_.nodes[n].seconds;
      result_.push_back(n);
      done(n, computing_);
    }
    return std::move(result_);
  }

 private:
  const Node& node(std::size_t n) const { return *graph_.nodes()[n]; }

  void add_wait(std::size_t n, std::size_t before) {
    ++waits_for_[n];
    opens_[before].push_back(n);
  }

  // Copies, which compute again, do not stand in front of its first reader's other operands.
  void delay_copies() {
    if (partition_.again.empty()) return;
    std::vector<std::size_t> first(waits_for_.size(), waits_for_.size());  // reader that is no copy
    for (std::size_t n = waits_for_.size(); n-- > 0;) {
      if (!partition_.again[n]) continue;
      for (const ValueId v : node(n).outputs)
        for (const std::int32_t user : v == kNoValue ? std::vector<std::int32_t>() : users_[v]) {
          const auto reader = static_cast<std::size_t>(user);
          first[n] = std::min(first[n], partition_.again[reader] ? first[reader] : reader);
        }
      if (first[n] == waits_for_.size()) continue;
      for (const ValueId v : node(first[n]).inputs)
        if (v != kNoValue && producers_[v] >= 0 && !partition_.again[static_cast<std::size_t>(producers_[v])])
          add_wait(n, static_cast<std::size_t>(producers_[v]));
    }
  }

  // All that the node waits for has a time.
  void open(std::size_t n) {
    double since = 0;
    for (std::size_t k = 0; k < node(n).inputs.size(); ++k) {
      const ValueId v = node(n).inputs[k];
      if (v == kNoValue) continue;
      since = std::max(since, there_[v]);
      for (const std::size_t e : of_value_[v])
        if (exchanges_[e].to == partition_.nodes[n].needs[k]) since = std::max(since, exchanged_[e]);
    }
    if (between_.contains(n)) {
      exchanging_ = std::max(exchanging_, since) + partition_.nodes[n].seconds;
      done(n, exchanging_);
      return;
    }
    since_[n] = since;
    ready_.insert(n);
  }

  void done(std::size_t n, double time) {
    for (const ValueId v : node(n).outputs) {
      if (v == kNoValue) continue;
      there_[v] = time;
      for (const std::size_t e : of_value_[v]) {
        const PlannedExchange& x = exchanges_[e];
        const double bytes = exchanged_bytes(x.exchange, graph_.value(v).type, x.from, x.to, options_.processes);
        exchanging_ = std::max(exchanging_, time) + exchange_seconds(x.exchange, bytes, options_);
        exchanged_[e] = exchanging_;
      }
    }
    for (const std::size_t next : opens_[n])
      if (--waits_for_[next] == 0) open(next);
  }

  const Graph& graph_;
  const Partition& partition_;
  const std::vector<PlannedExchange>& exchanges_;
  const PartitionOptions& options_;
  const std::map<std::size_t, BetweenGroups>& between_;
  const std::vector<std::vector<std::int32_t>> users_;
  const std::vector<std::int32_t> producers_;
  std::vector<std::vector<std::size_t>> of_value_;  // exchanges
  std::vector<double> there_, exchanged_;           // times, of values and of exchanges' results
  std::vector<std::size_t> waits_for_;              // operands without a time, by node
  std::vector<std::vector<std::size_t>> opens_;     // nodes that wait for this one
  std::map<std::size_t, double> since_;             // when the operands of a node are there
  std::set<std::size_t> ready_;
  double computing_ = 0, exchanging_ = 0;  // until when both queues are busy
  std::vector<std::size_t> result_;
};

}  // namespace

std::vector<std::size_t> list_schedule(const Graph& graph, const Partition& partition,
                                       const std::vector<PlannedExchange>& exchanges, const PartitionOptions& options,
                                       const std::map<std::size_t, BetweenGroups>& between) {
  return ListScheduler(graph, partition, exchanges, options, between).run();
}

}  // namespace rewright::plans
