#include "runtime/training/graphs/recomputation.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/memory.h"

namespace rewright::training {

namespace {

constexpr std::size_t kStorageAlignment = 64;
constexpr double kSmallPart = 1.0 / 2000;

// A model of how a runtime executes the nodes of a graph.
class Execution {
 public:
  Execution(const Graph& graph, std::span<const NodeCost> costs)
      : graph_(graph), costs_(costs), producers_(graph.producers()), users_(graph.users()), is_output_(graph.value_count()) {
    for (const GraphOutput& o : graph.outputs()) is_output_[o.value] = true;
  }

  std::int32_t producer(ValueId value) const { return value == kNoValue ? -1 : producers_[value]; }

  // Does the node's result share its first operand's memory?
  bool shares(std::size_t n) const {
    const Node& node = *graph_.nodes()[n];
    if (!costs_[n].free || node.inputs.empty() || node.inputs[0] == kNoValue || node.outputs.size() != 1) return false;
    return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId v) { return producer(v) < 0; });
  }
  // The value whose memory this one uses.
  ValueId root(ValueId value) const {
    for (std::int32_t n = producer(value); n >= 0 && shares(static_cast<std::size_t>(n)); n = producer(value))
      value = graph_.nodes()[static_cast<std::size_t>(n)]->inputs[0];
    return value;
  }
  // The node whose kernel computes this one's result, or -1.
  std::int32_t within(std::size_t n) const {
    const Node& node = *graph_.nodes()[n];
    if (!costs_[n].pointwise || costs_[n].free || node.op == nullptr || node.op->random() || node.outputs.size() != 1)
      return -1;
    const ValueId value = node.outputs[0];
    if (is_output_[value] || users_[value].size() != 1) return -1;
    const std::int32_t user = users_[value][0];
    return costs_[static_cast<std::size_t>(user)].pointwise && !costs_[static_cast<std::size_t>(user)].free ? user : -1;
  }
  // Bytes in planned memory; 0 for inputs, outputs of the graph, and values computed within others.
  std::size_t bytes(ValueId value) const {
    const std::int32_t n = producer(value);
    if (n < 0 || graph_.is_constant(value) || is_output_[value] || shares(static_cast<std::size_t>(n)) ||
        within(static_cast<std::size_t>(n)) >= 0)
      return 0;
    const Value& v = graph_.value(value);
    if (!v.shape_known || v.type.type == DataType::kUndefined || !all_constant(v.type.shape)) return 0;
    std::size_t count = byte_size(v.type.type);
    for (const Index& i : v.type.shape) count *= static_cast<std::size_t>(i.value());
    return (count + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment;
  }

 private:
  const Graph& graph_;
  std::span<const NodeCost> costs_;
  std::vector<std::int32_t> producers_;
  std::vector<std::vector<std::int32_t>> users_;
  std::vector<bool> is_output_;
};

// For each value the position of its memory's last reader; of its producer if it has no reader; -1 without a producer.
std::vector<std::int32_t> last_uses(const Graph& graph, const Execution& execution) {
  std::vector<std::int32_t> last = graph.producers();
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    if (execution.shares(n)) continue;
    for (const ValueId input : graph.nodes()[n]->inputs)
      if (input != kNoValue) last[execution.root(input)] = std::max(last[execution.root(input)], static_cast<std::int32_t>(n));
  }
  return last;
}

Graph with_nodes(const Graph& graph, std::span<const std::shared_ptr<const Node>> nodes) {
  Graph result = graph;
  result.drop_nodes_from(0);
  for (const auto& node : nodes) result.add_shared(node);
  return result;
}

// Builds the problem, part by part.
class ProblemMaker {
 public:
  ProblemMaker(const Graph& graph, std::span<const NodeCost> costs)
      : graph_(graph),
        costs_(costs),
        execution_(graph, costs),
        last_(last_uses(graph, execution_)),
        unit_of_(graph.nodes().size(), -1),
        value_of_(graph.value_count(), -1),
        turn_(execution_.producer(graph.outputs()[0].value) + 1),
        end_(static_cast<std::int32_t>(graph.nodes().size())) {}

  RecomputationProblem make(int stages) {
    for (const NodeCost& cost : costs_) problem_.seconds += cost.seconds;
    find_units();
    find_values();
    find_reads();
    cut_stages(stages);
    find_uses();
    find_moments();
    return std::move(problem_);
  }

 private:
  const Node& node(std::int32_t n) const { return *graph_.nodes()[static_cast<std::size_t>(n)]; }

  void find_units() {
    for (std::int32_t n = turn_; n-- > 0;) {
      const auto at = static_cast<std::size_t>(n);
      if (execution_.shares(at)) continue;
      const std::int32_t within = execution_.within(at);
      if (within >= 0) {
        unit_of_[at] = unit_of_[static_cast<std::size_t>(within)];
      } else {
        unit_of_[at] = static_cast<int>(problem_.units.size());
        problem_.units.emplace_back();
      }
      auto& unit = problem_.units[static_cast<std::size_t>(unit_of_[at])];
      unit.nodes.push_back(n);
      unit.seconds += costs_[at].seconds - (within >= 0 ? costs_[at].executed : 0);
      unit.repeatable = unit.repeatable && node(n).op != nullptr && !node(n).op->random();
    }
    std::reverse(problem_.units.begin(), problem_.units.end());
    for (int& unit : unit_of_)
      if (unit >= 0) unit = static_cast<int>(problem_.units.size()) - 1 - unit;
    // Nodes that share a unit's memory belong to the unit, wherever they are.
    for (std::int32_t n = 0; n < end_; ++n) {
      if (!execution_.shares(static_cast<std::size_t>(n))) continue;
      const std::int32_t from = execution_.producer(execution_.root(node(n).outputs[0]));
      if (from >= 0 && from < turn_)
        problem_.units[static_cast<std::size_t>(unit_of_[static_cast<std::size_t>(from)])].nodes.push_back(n);
    }
    for (auto& unit : problem_.units) std::sort(unit.nodes.begin(), unit.nodes.end());
  }

  void find_values() {
    double all = 0;
    for (std::int32_t n = 0; n < end_; ++n)
      for (const ValueId v : node(n).outputs)
        if (v != kNoValue) all += static_cast<double>(execution_.bytes(v));
    for (std::int32_t n = 0; n < turn_; ++n)
      for (const ValueId v : node(n).outputs) {
        if (v == kNoValue || execution_.bytes(v) == 0) continue;
        const auto bytes = static_cast<double>(execution_.bytes(v));
        if (bytes < kSmallPart * all || last_[v] <= n) continue;
        const int unit = unit_of_[static_cast<std::size_t>(n)];
        value_of_[v] = static_cast<int>(problem_.values.size());
        problem_.units[static_cast<std::size_t>(unit)].makes.push_back(value_of_[v]);
        problem_.values.push_back({v, bytes, unit, n, n, {}, -1});
      }
  }

  int value_read(ValueId input) const { return input == kNoValue ? -1 : value_of_[execution_.root(input)]; }

  void find_reads() {
    for (std::size_t u = 0; u < problem_.units.size(); ++u) {
      auto& unit = problem_.units[u];
      for (const std::int32_t n : unit.nodes)
        for (const ValueId input : node(n).inputs) {
          const int v = value_read(input);
          if (v < 0 || problem_.values[static_cast<std::size_t>(v)].unit == static_cast<int>(u)) continue;
          if (std::find(unit.reads.begin(), unit.reads.end(), v) == unit.reads.end()) unit.reads.push_back(v);
        }
    }
  }

  // Ends stages so that each frees about the same number of bytes: by the last readers of values that were kept.
  void cut_stages(int stages) {
    std::vector<double> freed(static_cast<std::size_t>(end_));
    double all = 0;
    for (const auto& v : problem_.values)
      if (last_[v.id] >= turn_) {
        freed[static_cast<std::size_t>(last_[v.id])] += v.bytes;
        all += v.bytes;
      }
    problem_.stage_start = {turn_};
    double sum = 0;
    for (std::int32_t n = turn_; n + 1 < end_ && problem_.stages() < stages; ++n) {
      sum += freed[static_cast<std::size_t>(n)];
      if (sum >= all * problem_.stages() / stages && execution_.within(static_cast<std::size_t>(n)) < 0)
        problem_.stage_start.push_back(n + 1);
    }
  }

  int stage_of(std::int32_t position) const {
    const auto& start = problem_.stage_start;
    return static_cast<int>(std::upper_bound(start.begin(), start.end(), position) - start.begin()) - 1;
  }

  void find_uses() {
    for (auto& v : problem_.values) v.last_in_stage.assign(problem_.stage_start.size(), -1);
    for (std::int32_t n = 0; n < end_; ++n) {
      if (execution_.shares(static_cast<std::size_t>(n))) continue;
      for (const ValueId input : node(n).inputs) {
        const int number = value_read(input);
        if (number < 0) continue;
        auto& v = problem_.values[static_cast<std::size_t>(number)];
        if (n < turn_) {
          v.last_in_forward = std::max(v.last_in_forward, n);
        } else {
          v.last_in_stage[static_cast<std::size_t>(stage_of(n))] = n;
          v.last_stage = std::max(v.last_stage, stage_of(n));
        }
      }
    }
    // A value is useful until everything computed from it is no longer useful.
    for (std::size_t u = problem_.units.size(); u-- > 0;) {
      int last = -1;
      for (const int v : problem_.units[u].makes)
        last = std::max(last, problem_.values[static_cast<std::size_t>(v)].last_stage);
      for (const int v : problem_.units[u].reads) {
        auto& read = problem_.values[static_cast<std::size_t>(v)];
        read.last_stage = std::max(read.last_stage, last);
      }
      // Small values are always kept until their last reader.
      const std::int32_t end = last < 0                       ? 0
                               : last + 1 < problem_.stages() ? problem_.stage_start[static_cast<std::size_t>(last) + 1] - 1
                                                              : end_ - 1;
      for (const std::int32_t n : problem_.units[u].nodes)
        for (const ValueId input : node(n).inputs)
          if (input != kNoValue) last_[execution_.root(input)] = std::max(last_[execution_.root(input)], end);
    }
  }

  void find_moments() {
    std::vector<double> change(static_cast<std::size_t>(end_) + 1);
    for (std::int32_t n = 0; n < end_; ++n)
      for (const ValueId v : node(n).outputs) {
        if (v == kNoValue || value_of_[v] >= 0 || execution_.bytes(v) == 0) continue;
        const auto bytes = static_cast<double>(execution_.bytes(v));
        change[static_cast<std::size_t>(n)] += bytes;
        change[static_cast<std::size_t>(last_[v]) + 1] -= bytes;
      }
    for (const auto& v : problem_.values) {
      change[static_cast<std::size_t>(v.made)] += v.bytes;
      change[static_cast<std::size_t>(v.last_in_forward) + 1] -= v.bytes;
    }
    double now = 0, most = 0;
    for (std::int32_t n = 0; n < end_; ++n) {
      now += change[static_cast<std::size_t>(n)];
      if (n < turn_) {
        problem_.moments.push_back({n, -1, now});
        continue;
      }
      const int stage = stage_of(n);
      if (n == problem_.stage_start[static_cast<std::size_t>(stage)]) most = -1;
      if (now <= most) continue;
      most = now;
      problem_.moments.push_back({n, stage, now});
    }
  }

  const Graph& graph_;
  std::span<const NodeCost> costs_;
  Execution execution_;
  std::vector<std::int32_t> last_;
  std::vector<int> unit_of_;   // by node
  std::vector<int> value_of_;  // by value
  std::int32_t turn_, end_;    // behind the loss, and behind the last node
  RecomputationProblem problem_;
};

}  // namespace

Graph in_order_of_execution(const Graph& graph, std::vector<NodeCost>& costs) {
  const Execution execution(graph, costs);
  const std::size_t count = graph.nodes().size();
  std::vector<char> in_front(count), done(count);
  std::vector<std::int32_t> open{execution.producer(graph.outputs()[0].value)};
  while (!open.empty()) {
    const std::int32_t n = open.back();
    open.pop_back();
    if (n < 0 || std::exchange(in_front[static_cast<std::size_t>(n)], 1)) continue;
    for (const auto* list :
         {&graph.nodes()[static_cast<std::size_t>(n)]->inputs, &graph.nodes()[static_cast<std::size_t>(n)]->parameters})
      for (const ValueId v : *list) open.push_back(execution.producer(v));
  }
  std::vector<std::shared_ptr<const Node>> nodes;
  std::vector<NodeCost> ordered;
  const auto add = [&](std::size_t n) {
    // Nodes that are computed within this one precede it, recursively.
    std::vector<std::size_t> tree{n}, behind;
    while (!tree.empty()) {
      const std::size_t top = tree.back();
      tree.pop_back();
      if (std::exchange(done[top], 1)) continue;
      behind.push_back(top);
      for (const ValueId v : graph.nodes()[top]->inputs) {
        const std::int32_t from = execution.producer(v);
        if (from >= 0 && execution.within(static_cast<std::size_t>(from)) >= 0) tree.push_back(static_cast<std::size_t>(from));
      }
    }
    std::sort(behind.begin(), behind.end());
    for (const std::size_t k : behind) {
      nodes.push_back(graph.nodes()[k]);
      ordered.push_back(costs[k]);
    }
  };
  for (const bool front : {true, false})
    for (std::size_t n = 0; n < count; ++n)
      if (static_cast<bool>(in_front[n]) == front && !done[n] && execution.within(n) < 0) add(n);
  Graph result = with_nodes(graph, nodes);
  costs = std::move(ordered);
  return result;
}

RecomputationProblem make_recomputation_problem(const Graph& graph, std::span<const NodeCost> costs, int stages) {
  return ProblemMaker(graph, costs).make(stages);
}

std::size_t planned_bytes(const Graph& graph, std::span<const NodeCost> costs) {
  const Execution execution(graph, costs);
  const std::vector<std::int32_t> last = last_uses(graph, execution);
  std::vector<Extent> extents;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    for (const ValueId v : graph.nodes()[n]->outputs)
      if (v != kNoValue && execution.bytes(v) > 0) extents.push_back({execution.bytes(v), static_cast<int>(n), last[v], 0});
  return assign_offsets(extents, kStorageAlignment);
}

}  // namespace rewright::training
