#include "plans/pipelines/stage_work.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "optimizer/costs/cost_model.h"
#include "plans/partition/moved_shares.h"

namespace rewright::plans {

namespace {

// Times and bytes of a micro-batch's graph, node by node.
class MicroBatchFacts {
 public:
  MicroBatchFacts(const Machine& machine, const GroupGraph& group, const MicroBatchRoles& roles, const OperatorSeconds& seconds)
      : group_(group), graph_(group.graph), roles_(roles), producers_(graph_.producers()), users_(graph_.users()) {
    const std::vector<double> moved = moved_shares(graph_);
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = *graph_.nodes()[n];
      const auto types = graph_.operand_types(node);
      seconds_.push_back(node.op ? seconds(*node.op, node.attributes, types, moved[n]) : 0);
      const bool is_view = node.op && node.outputs.size() == 1 && node.outputs[0] != kNoValue && !node.inputs.empty() &&
                           node.inputs[0] != kNoValue && operator_traits(*node.op, node.attributes, types).free;
      if (is_view) views_[node.outputs[0]] = node.inputs[0];
    }
    // A sum over micro-batches: the stage that makes the addends adds them up.
    for (const auto& [n, exchange] : group.exchanges) {
      if (exchange.exchange != Exchange::kAllReduce || roles.nodes[n] != NodeRole::kAfter) continue;
      const double bytes = bytes_of(exchange.whole);
      sums_[n] = {bytes, machine.seconds(bytes / 4, 3 * bytes)};
    }
    is_kept_.assign(graph_.value_count(), false);
    for (const auto& [output, given] : group.replaced) is_kept_[given] = true;
  }

  // Bytes and seconds of the sum that a node is, if it is one.
  std::pair<double, double> sum(std::size_t n) const {
    const auto at = sums_.find(n);
    return at == sums_.end() ? std::pair{0.0, 0.0} : at->second;
  }
  double seconds(std::size_t n) const { return seconds_[n]; }
  NodeRole role(std::size_t n) const { return roles_.nodes[n]; }
  const MicroBatchRoles& roles() const { return roles_; }
  const Graph& graph() const { return graph_; }
  const GroupGraph& group() const { return group_; }
  std::int32_t producer(ValueId v) const { return producers_[v]; }
  const std::vector<std::int32_t>& users(ValueId v) const { return users_[v]; }
  bool is_kept(ValueId v) const { return is_kept_[v]; }  // a weight or a state that training changes
  double bytes(ValueId v) const { return bytes_of(graph_.value(v).type); }

  ValueId root(ValueId v) const {
    for (auto at = views_.find(v); at != views_.end(); at = views_.find(v)) v = at->second;
    return v;
  }

 private:
  const GroupGraph& group_;
  const Graph& graph_;
  const MicroBatchRoles& roles_;
  const std::vector<std::int32_t> producers_;
  const std::vector<std::vector<std::int32_t>> users_;
  std::vector<double> seconds_;
  std::map<ValueId, ValueId> views_;
  std::map<std::size_t, std::pair<double, double>> sums_;
  std::vector<bool> is_kept_;
};

class StageWorkFinder {
 public:
  StageWorkFinder(const MicroBatchFacts& facts, const Pipeline& pipeline)
      : facts_(facts), pipeline_(pipeline), parts_(parts_of_stages(pipeline, facts.graph(), facts.roles())) {}

  std::vector<StageWork> find() {
    result_.resize(pipeline_.schedule.stages);
    for (std::size_t n = 0; n < parts_.size(); ++n) add_node(n);
    add_given();
    for (const StageSend& s : pipeline_.sends)
      if (s.time == SendTime::kForward) result_[s.to].received_bytes += facts_.bytes(s.value);
    add_values();
    return std::move(result_);
  }

 private:
  void add_node(std::size_t n) {
    StageWork& work = result_[pipeline_.nodes[n]];
    double* const seconds[kStageParts] = {&work.before, &work.forward, &work.backward, &work.weights, &work.after};
    *seconds[static_cast<std::size_t>(parts_[n])] += facts_.seconds(n);
    const auto [bytes, adding] = facts_.sum(n);
    if (bytes == 0) return;
    work.sum_bytes += bytes;
    const std::int32_t maker = facts_.producer(facts_.graph().nodes()[n]->inputs.at(0));
    (maker >= 0 && parts_[static_cast<std::size_t>(maker)] == StagePart::kForward ? work.forward : work.weights) += adding;
  }

  // Weights where they are, constants and data where they are read.
  void add_given() {
    const Graph& graph = facts_.graph();
    for (ValueId v = 0; v < graph.value_count(); ++v) {
      if (facts_.producer(v) >= 0) continue;
      std::set<std::uint32_t> readers, passes;
      for (const std::int32_t user : facts_.users(v)) {
        const auto n = static_cast<std::size_t>(user);
        readers.insert(pipeline_.nodes[n]);
        if (facts_.role(n) != NodeRole::kAfter) passes.insert(pipeline_.nodes[n]);
      }
      if (facts_.is_kept(v)) readers.insert(pipeline_.given[v]);
      for (const std::uint32_t stage : readers) {
        if (facts_.is_kept(v) || graph.is_constant(v))
          result_[stage].given_bytes += facts_.bytes(v);
        else
          result_[stage].data_bytes += facts_.bytes(v);
        if (facts_.is_kept(v) && passes.contains(stage)) result_[stage].read_bytes += facts_.bytes(v);
      }
    }
  }

  // Notes the bytes of each value in each stage that makes or reads it, and until when.
  void add_values() {
    const Graph& graph = facts_.graph();
    struct Use {
      StagePart made = StagePart::kBefore;
      std::size_t first = 0, last = 0;  // nodes
      std::array<bool, kStageParts> read{};
    };
    std::map<std::pair<std::uint32_t, ValueId>, Use> uses;
    for (std::size_t n = 0; n < parts_.size(); ++n) {
      const std::uint32_t stage = pipeline_.nodes[n];
      for (const ValueId v : graph.nodes()[n]->outputs)
        if (v != kNoValue && facts_.root(v) == v) uses[{stage, v}] = {parts_[n], n, n, {}};
      for (const ValueId operand : graph.nodes()[n]->inputs) {
        if (operand == kNoValue) continue;
        const ValueId v = facts_.root(operand);
        if (facts_.producer(v) < 0) continue;
        const auto maker = static_cast<std::size_t>(facts_.producer(v));
        const auto [at, is_new] = uses.try_emplace({stage, v});
        // A value of another stage came with the messages of its own part.
        if (is_new) at->second = {parts_[maker] == StagePart::kWeights ? StagePart::kBackward : parts_[maker], n, n, {}};
        at->second.last = n;
        at->second.read[static_cast<std::size_t>(parts_[n])] = true;
      }
    }
    // Lifetimes within one part: bytes that begin and end at nodes.
    std::map<std::pair<std::uint32_t, StagePart>, std::vector<std::tuple<std::size_t, int, double>>> lives;
    for (const auto& entry : uses) {
      const auto [stage, v] = entry.first;
      const Use& use = entry.second;
      StageWork& work = result_[stage];
      const double bytes = facts_.bytes(v);
      const auto is_read = [&](StagePart part) { return use.read[static_cast<std::size_t>(part)]; };
      if (use.made == StagePart::kForward && is_read(StagePart::kWeights))
        work.held_for_weights += bytes;
      else if (use.made == StagePart::kForward && is_read(StagePart::kBackward))
        work.held_for_backward += bytes;
      else if (use.made == StagePart::kBackward && is_read(StagePart::kWeights))
        work.gradient_bytes += bytes;
      else if (use.made == StagePart::kBefore)
        work.given_bytes += bytes;
      else {
        auto& list = lives[{stage, use.made}];
        list.emplace_back(use.first, 0, bytes), list.emplace_back(use.last, 1, -bytes);
      }
    }
    for (auto& [key, list] : lives) {
      StageWork& work = result_[key.first];
      std::sort(list.begin(), list.end());
      double now = 0, most = 0;
      for (const auto& [n, is_end, bytes] : list) most = std::max(most, now += bytes);
      double* const peaks[kStageParts] = {&work.given_bytes, &work.forward_peak, &work.backward_peak, &work.weights_peak,
                                          &work.after_peak};
      *peaks[static_cast<std::size_t>(key.second)] += most;
    }
  }

  const MicroBatchFacts& facts_;
  const Pipeline& pipeline_;
  const std::vector<StagePart> parts_;
  std::vector<StageWork> result_;
};

}  // namespace

std::vector<StagePart> parts_of_stages(const Pipeline& pipeline, const Graph& graph, const MicroBatchRoles& roles) {
  std::set<ValueId> sent;
  for (const StageSend& s : pipeline.sends)
    if (s.time == SendTime::kBackward) sent.insert(s.value);
  const auto users = graph.users();
  std::vector<StagePart> parts(graph.nodes().size(), StagePart::kBefore);
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    StagePart& part = parts[n];
    if (roles.nodes[n] == NodeRole::kForward) part = StagePart::kForward;
    if (roles.nodes[n] == NodeRole::kAfter) part = StagePart::kAfter;
    if (roles.nodes[n] != NodeRole::kBackward) continue;
    part = StagePart::kWeights;
    for (const ValueId v : graph.nodes()[n]->outputs) {
      if (v == kNoValue) continue;
      if (sent.contains(v)) part = StagePart::kBackward;
      for (const std::int32_t user : users[v])
        if (parts[static_cast<std::size_t>(user)] == StagePart::kBackward &&
            pipeline.nodes[static_cast<std::size_t>(user)] == pipeline.nodes[n])
          part = StagePart::kBackward;
    }
  }
  return parts;
}

std::vector<StageWork> stage_work(const Machine& machine, const Pipeline& pipeline, const GroupGraph& group,
                                  const MicroBatchRoles& roles, const OperatorSeconds& seconds) {
  const MicroBatchFacts facts(machine, group, roles, seconds);
  return StageWorkFinder(facts, pipeline).find();
}

StageCosts place_costs(const Machine& machine, const GroupGraph& group, const MicroBatchRoles& roles, const Anchors& anchors,
                       const OperatorSeconds& seconds) {
  const MicroBatchFacts facts(machine, group, roles, seconds);
  const Graph& graph = group.graph;
  StageCosts costs;
  for (auto* list : {&costs.seconds, &costs.crossing, &costs.given_bytes, &costs.activation_bytes})
    list->assign(anchors.places, 0);
  if (anchors.places == 0) return costs;
  std::vector<double> change(anchors.places + 1, 0);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const std::uint32_t place = anchors.nodes[n];
    const bool is_once = roles.nodes[n] == NodeRole::kBefore || roles.nodes[n] == NodeRole::kAfter;
    const auto [bytes, adding] = facts.sum(n);
    costs.seconds[place] += (is_once ? 0 : facts.seconds(n)) + adding;
    costs.given_bytes[place] += bytes;
    if (is_once) continue;
    for (const ValueId v : graph.nodes()[n]->outputs) {
      if (v == kNoValue) continue;
      std::uint32_t least = place, most = place;
      bool is_held = false;
      for (const std::int32_t user : facts.users(v)) {
        const auto u = static_cast<std::size_t>(user);
        if (roles.nodes[u] == NodeRole::kAfter) continue;
        least = std::min(least, anchors.nodes[u]), most = std::max(most, anchors.nodes[u]);
        is_held = is_held || (roles.nodes[n] == NodeRole::kForward && roles.nodes[u] == NodeRole::kBackward);
      }
      // On each boundary between its maker and its readers.
      change[least + 1] += facts.bytes(v), change[most + 1] -= facts.bytes(v);
      if (is_held && facts.root(v) == v) costs.activation_bytes[place] += facts.bytes(v);
    }
  }
  double now = 0;
  for (std::size_t place = 0; place < anchors.places; ++place) costs.crossing[place] = now += change[place];
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (facts.producer(v) < 0 && (facts.is_kept(v) || graph.is_constant(v)))
      costs.given_bytes[anchors.given[v]] += facts.bytes(v);
  for (std::size_t d = 0; d + 1 < machine.devices(); ++d) {
    const double one = machine.message_seconds(d, d + 1, 0);
    costs.latency = std::max(costs.latency, one);
    costs.seconds_per_byte = std::max(costs.seconds_per_byte, (machine.message_seconds(d, d + 1, 1e6) - one) / 1e6);
  }
  return costs;
}

}  // namespace rewright::plans
