#include "plans/pipelines/stages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "plans/pipelines/schedule_check.h"

namespace rewright::plans {

namespace {

constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();

bool each_micro_batch(NodeRole role) { return role == NodeRole::kForward || role == NodeRole::kBackward; }

class AnchorFinder {
 public:
  AnchorFinder(const GroupGraph& group, const MicroBatchRoles& roles)
      : group_(group), graph_(group.graph), roles_(roles), producers_(graph_.producers()), users_(graph_.users()) {}

  Anchors find() {
    result_.nodes.assign(graph_.nodes().size(), kNowhere), result_.given.assign(graph_.value_count(), kNowhere);
    number_forward();
    place_before(false);
    place_backward();
    place_before(true);
    place_after();
    place_before(true);  // a share of a state, that the update alone reads
    const auto last = static_cast<std::uint32_t>(std::max<std::size_t>(result_.places, 1) - 1);
    for (auto* list : {&result_.nodes, &result_.given})
      for (std::uint32_t& place : *list) place = std::min(place == kNowhere ? 0 : place, last);
    return std::move(result_);
  }

 private:
  NodeRole role(std::size_t n) const { return roles_.nodes[n]; }

  // Sources (parts of what is given, random numbers) go where they are read.
  bool reads_micro_batch(std::size_t n) const {
    if (!each_micro_batch(role(n))) return false;
    for (const ValueId v : graph_.nodes()[n]->inputs)
      if (v != kNoValue && producers_[v] >= 0 && each_micro_batch(role(static_cast<std::size_t>(producers_[v])))) return true;
    for (const ValueId v : graph_.nodes()[n]->inputs)
      if (v != kNoValue && producers_[v] < 0 && !graph_.is_constant(v)) return true;
    return false;
  }

  void number_forward() {
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n)
      if (role(n) == NodeRole::kForward && reads_micro_batch(n))
        result_.nodes[n] = static_cast<std::uint32_t>(result_.places++);
  }

  // The least place among the readers that have one.
  std::uint32_t least_reader(ValueId v) const {
    std::uint32_t least = kNowhere;
    if (v != kNoValue)
      for (const std::int32_t user : users_[v]) least = std::min(least, result_.nodes[static_cast<std::size_t>(user)]);
    return least;
  }

  // Places what is computed or given once, by its readers in the forward pass, or if it has none, by all readers.
  void place_before(bool all) {
    for (std::size_t n = graph_.nodes().size(); n-- > 0;) {
      const bool is_source = role(n) == NodeRole::kBefore || (each_micro_batch(role(n)) && !reads_micro_batch(n));
      if (!is_source || result_.nodes[n] != kNowhere) continue;
      for (const ValueId v : graph_.nodes()[n]->outputs) result_.nodes[n] = std::min(result_.nodes[n], least_reader(v));
    }
    for (ValueId v = 0; v < graph_.value_count(); ++v)
      if (producers_[v] < 0 && (result_.given[v] == kNowhere || !all)) result_.given[v] = least_reader(v);
    // A form of a weight that the backward pass alone reads stays with the weight.
    for (std::size_t n = 0; n < graph_.nodes().size() && !all; ++n)
      if (role(n) == NodeRole::kBefore && result_.nodes[n] == kNowhere)
        if (const std::optional<std::uint32_t> place = place_read(n)) result_.nodes[n] = *place;
  }

  // The place of what a node reads of the forward pass, or is given.
  std::optional<std::uint32_t> place_read(std::size_t n) const {
    std::optional<std::uint32_t> most;
    for (const ValueId v : graph_.nodes()[n]->inputs) {
      if (v == kNoValue) continue;
      std::uint32_t place = producers_[v] < 0 ? result_.given[v] : kNowhere;
      if (producers_[v] >= 0 && role(static_cast<std::size_t>(producers_[v])) != NodeRole::kBackward)
        place = result_.nodes[static_cast<std::size_t>(producers_[v])];
      if (place != kNowhere) most = std::max(most.value_or(0), place);
    }
    return most;
  }

  void place_backward() {
    // The highest place of weights whose gradient needs it.
    std::vector<std::uint32_t> highest(graph_.nodes().size(), 0);
    std::map<ValueId, ValueId> replaced;  // outputs, and what they replace
    for (const auto& [output, given] : group_.replaced) replaced[graph_.outputs()[output].value] = given;
    for (std::size_t n = graph_.nodes().size(); n-- > 0;) {
      if (role(n) != NodeRole::kBackward && role(n) != NodeRole::kAfter) continue;
      for (const ValueId v : graph_.nodes()[n]->outputs) {
        if (v == kNoValue) continue;
        if (const auto given = replaced.find(v); given != replaced.end() && result_.given[given->second] != kNowhere)
          highest[n] = std::max(highest[n], result_.given[given->second]);
        for (const std::int32_t user : users_[v]) highest[n] = std::max(highest[n], highest[static_cast<std::size_t>(user)]);
      }
    }
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (role(n) != NodeRole::kBackward || !reads_micro_batch(n)) continue;
      std::uint32_t below = kNowhere;  // gradients that it reads come from there
      for (const ValueId v : graph_.nodes()[n]->inputs)
        if (v != kNoValue && producers_[v] >= 0 && role(static_cast<std::size_t>(producers_[v])) == NodeRole::kBackward)
          below = std::min(below, result_.nodes[static_cast<std::size_t>(producers_[v])]);
      const std::optional<std::uint32_t> read = place_read(n);
      result_.nodes[n] = std::max(highest[n], std::min(below, read.value_or(below == kNowhere ? 0 : below)));
      // A node behind others that only reads gradients stays with them until weights are reached.
      if (!read && below != kNowhere) result_.nodes[n] = std::max(highest[n], below);
    }
  }

  void place_after() {
    const auto nodes = graph_.nodes();
    for (std::size_t n = nodes.size(); n-- > 0;) {
      if (role(n) != NodeRole::kAfter) continue;
      for (const ValueId v : nodes[n]->outputs) {
        if (v == kNoValue) continue;
        for (const auto& [output, given] : group_.replaced)
          if (graph_.outputs()[output].value == v) result_.nodes[n] = std::min(result_.nodes[n], result_.given[given]);
        result_.nodes[n] = std::min(result_.nodes[n], least_reader(v));
      }
    }
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (role(n) != NodeRole::kAfter) continue;
      // Sums are where their addends are.
      if (group_.exchanges.contains(n)) result_.nodes[n] = kNowhere;
      if (result_.nodes[n] != kNowhere) continue;
      std::uint32_t most = 0;
      for (const ValueId v : nodes[n]->inputs)
        if (v != kNoValue && producers_[v] >= 0) most = std::max(most, result_.nodes[static_cast<std::size_t>(producers_[v])]);
      result_.nodes[n] = most;
    }
    // The replacement of a given value is made where that is.
    for (const auto& [output, given] : group_.replaced)
      if (const std::int32_t maker = producers_[graph_.outputs()[output].value]; maker >= 0)
        result_.given[given] = result_.nodes[static_cast<std::size_t>(maker)];
    for (ValueId v = 0; v < graph_.value_count(); ++v)
      if (producers_[v] < 0 && result_.given[v] == kNowhere) result_.given[v] = least_reader(v);
  }

  const GroupGraph& group_;
  const Graph& graph_;
  const MicroBatchRoles& roles_;
  const std::vector<std::int32_t> producers_;
  const std::vector<std::vector<std::int32_t>> users_;
  Anchors result_;
};

// Every stage has the data that it reads: each process reads the batch, and takes its part.
std::vector<bool> data_of(const GroupGraph& group) {
  std::vector<bool> is_kept(group.graph.value_count(), false), result(group.graph.value_count(), false);
  for (const auto& [output, given] : group.replaced) is_kept[given] = true;
  for (const ValueId v : group.graph.inputs()) result[v] = !is_kept[v];
  return result;
}

}  // namespace

std::string described_node(const Graph& graph, std::size_t n) {
  const Node& node = *graph.nodes()[n];
  std::string text = "node " + std::to_string(n) + " (" + (node.op ? node.op->name() : "opaque");
  if (!node.outputs.empty() && node.outputs[0] != kNoValue && !graph.value(node.outputs[0]).name.empty())
    text += " \"" + graph.value(node.outputs[0]).name + "\"";
  return text + ")";
}

std::string_view name(SendTime time) {
  constexpr std::string_view kNames[] = {"before", "forward", "backward", "after"};
  return kNames[static_cast<std::size_t>(time)];
}

Anchors anchors_of(const GroupGraph& group, const MicroBatchRoles& roles) { return AnchorFinder(group, roles).find(); }

Pipeline with_stages(PipelineSchedule schedule, const GroupGraph& group, const MicroBatchRoles& roles, const Anchors& anchors,
                     const std::vector<std::size_t>& first) {
  Pipeline result;
  result.schedule = std::move(schedule);
  const auto stage = [&](std::uint32_t place) {
    const auto behind = std::upper_bound(first.begin(), first.end(), static_cast<std::size_t>(place));
    return static_cast<std::uint32_t>(behind - first.begin() - 1);
  };
  for (const std::uint32_t place : anchors.nodes) result.nodes.push_back(stage(place));
  for (const std::uint32_t place : anchors.given) result.given.push_back(stage(place));
  result.sends = sends_of(group, roles, result.nodes, result.given);
  return result;
}

std::vector<StageSend> sends_of(const GroupGraph& group, const MicroBatchRoles& roles, const std::vector<std::uint32_t>& nodes,
                                const std::vector<std::uint32_t>& given) {
  const Graph& graph = group.graph;
  const auto producers = graph.producers();
  const std::vector<bool> is_data = data_of(group);
  std::set<StageSend> sends;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    for (const ValueId v : graph.nodes()[n]->inputs) {
      if (v == kNoValue || is_data[v]) continue;
      const bool is_given = producers[v] < 0;
      if (graph.is_constant(v)) continue;  // never changes: every stage that reads it has it
      const std::uint32_t from = is_given ? given[v] : nodes[static_cast<std::size_t>(producers[v])], to = nodes[n];
      if (from == to) continue;
      const NodeRole made = is_given ? NodeRole::kBefore : roles.nodes[static_cast<std::size_t>(producers[v])];
      const NodeRole read = roles.nodes[n];
      const auto later = [&] {
        return Error(ErrorCode::kBadInput, described_node(graph, n) + " in stage " + std::to_string(to) + " reads \"" +
                                               graph.value(v).name + "\" of stage " + std::to_string(from) +
                                               ", which computes it later");
      };
      SendTime time = SendTime::kBefore;
      if (made == NodeRole::kForward) {
        if (read == NodeRole::kForward && to < from) throw later();
        time = to > from ? SendTime::kForward : SendTime::kBackward;
      } else if (made == NodeRole::kBackward) {
        if (read != NodeRole::kAfter && to > from) throw later();
        time = SendTime::kBackward;
      } else if (made == NodeRole::kAfter) {
        time = SendTime::kAfter;
      }
      // A sum is added up where its addends are.
      if (each_micro_batch(made) && read == NodeRole::kAfter) throw later();
      sends.insert({v, from, to, time});
    }
  return {sends.begin(), sends.end()};
}

std::string fault_of_pipeline(const Pipeline& pipeline, const GroupGraph& group, const MicroBatchRoles& roles,
                              std::size_t micro_batches) {
  const PipelineSchedule& schedule = pipeline.schedule;
  if (!roles.barrier.empty()) return roles.barrier;
  const bool trains = std::any_of(roles.nodes.begin(), roles.nodes.end(), [](NodeRole r) { return r == NodeRole::kBackward; });
  if (trains && schedule.gradients == GradientActions::kNone) return "its schedule has no backward passes";
  if (schedule.micro_batches != micro_batches)
    return "its schedule has " + std::to_string(schedule.micro_batches) + " micro-batches, and the batch is cut into " +
           std::to_string(micro_batches);
  if (const ScheduleCheck check = check_schedule(schedule); check.fault != ScheduleFault::kNone)
    return "its schedule: " + check.reason;
  if (pipeline.nodes.size() != group.graph.nodes().size() || pipeline.given.size() != group.graph.value_count())
    return "its stages are those of another graph";
  for (std::size_t n = 0; n < pipeline.nodes.size(); ++n)
    if (pipeline.nodes[n] >= schedule.stages)
      return described_node(group.graph, n) + " is in stage " + std::to_string(pipeline.nodes[n]) + ", and there are " +
             std::to_string(schedule.stages);
  for (const std::uint32_t stage : pipeline.given)
    if (stage >= schedule.stages)
      return "a weight is in stage " + std::to_string(stage) + ", and there are " + std::to_string(schedule.stages);
  const auto producers = group.graph.producers();
  for (const auto& [output, given] : group.replaced)
    if (const std::int32_t maker = producers[group.graph.outputs()[output].value];
        maker >= 0 && pipeline.nodes[static_cast<std::size_t>(maker)] != pipeline.given[given])
      return "\"" + group.graph.value(given).name + "\" is in stage " + std::to_string(pipeline.given[given]) +
             ", and what replaces it is made in stage " + std::to_string(pipeline.nodes[static_cast<std::size_t>(maker)]);
  std::vector<StageSend> needed;
  try {
    needed = sends_of(group, roles, pipeline.nodes, pipeline.given);
  } catch (const Error& e) {
    return e.what();
  }
  const auto described = [&](const StageSend& s) {
    return "\"" + group.graph.value(s.value).name + "\" (value " + std::to_string(s.value) + ") from stage " +
           std::to_string(s.from) + " to stage " + std::to_string(s.to);
  };
  std::vector<StageSend> sends = pipeline.sends;
  std::sort(sends.begin(), sends.end());
  for (const StageSend& s : needed)
    if (!std::binary_search(sends.begin(), sends.end(), s)) return "nothing sends " + described(s);
  for (const StageSend& s : sends)
    if (!std::binary_search(needed.begin(), needed.end(), s))
      return s.value < group.graph.value_count() ? "nothing needs " + described(s) : "it sends a value that there is not";
  return {};
}

namespace {

// Stages that end at each place, with what their longest takes and what is sent in all.
class StageDivider {
 public:
  StageDivider(const StageCosts& costs, std::size_t stages) : costs_(costs), stages_(stages) {
    const auto sums = [](const std::vector<double>& list) {
      std::vector<double> result{0};
      for (const double x : list) result.push_back(result.back() + x);
      return result;
    };
    seconds_ = sums(costs.seconds), given_ = sums(costs.given_bytes), activations_ = sums(costs.activation_bytes);
  }

  std::vector<std::size_t> divide(double slack) {
    if (places() < stages_) return {};
    const double longest = run(true, kInfinite);
    if (longest == kInfinite) return {};
    run(false, longest * (1 + slack));
    std::vector<std::size_t> first(stages_);
    std::size_t end = places();
    for (std::size_t s = stages_; s-- > 0;) first[s] = end = begin_[s][end];
    return first;
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  std::size_t places() const { return costs_.seconds.size(); }

  double message(std::size_t place) const {
    if (place == 0 || place >= places() || costs_.crossing[place] <= 0) return 0;
    return costs_.latency + costs_.seconds_per_byte * costs_.crossing[place];
  }
  double longest_of(std::size_t begin, std::size_t end) const {
    return std::max({seconds_[end] - seconds_[begin], message(begin), message(end)});
  }
  bool fits(std::size_t stage, std::size_t begin, std::size_t end) const {
    return given_[end] - given_[begin] + costs_.held[stage] * (activations_[end] - activations_[begin]) <= costs_.memory[stage];
  }

  // The shortest longest time of the stages, or the fewest bytes sent where none takes longer than `limit`.
  double run(bool by_longest, double limit) {
    std::vector<double> best(places() + 1, kInfinite), next(places() + 1);
    best[0] = 0;
    begin_.assign(stages_, std::vector<std::size_t>(places() + 1, 0));
    for (std::size_t s = 0; s < stages_; ++s) {
      std::fill(next.begin(), next.end(), kInfinite);
      for (std::size_t end = s + 1; end + (stages_ - 1 - s) <= places(); ++end)
        for (std::size_t begin = end; begin-- > s;) {
          if (seconds_[end] - seconds_[begin] > (by_longest ? std::min(limit, next[end]) : limit)) break;
          const double longest = longest_of(begin, end);
          if (best[begin] == kInfinite || longest > limit || !fits(s, begin, end)) continue;
          const double now =
              by_longest ? std::max(best[begin], longest) : best[begin] + (begin > 0 ? costs_.crossing[begin] : 0);
          if (now < next[end]) next[end] = now, begin_[s][end] = begin;
        }
      std::swap(best, next);
    }
    return best[places()];
  }

  const StageCosts& costs_;
  const std::size_t stages_;
  std::vector<double> seconds_, given_, activations_;
  std::vector<std::vector<std::size_t>> begin_;  // of the best last stage, by stage and end
};

}  // namespace

std::vector<std::size_t> divide_into_stages(const StageCosts& costs, std::size_t stages, double slack) {
  return StageDivider(costs, stages).divide(slack);
}

}  // namespace rewright::plans
