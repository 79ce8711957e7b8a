#include "plans/groups/step.h"

#include <algorithm>
#include <map>

#include "optimizer/costs/cost_model.h"
#include "plans/groups/execution_order.h"
#include "plans/groups/rearranging.h"
#include "plans/simulation/block_maker.h"

namespace rewright::plans {

namespace {

class Step {
 public:
  Step(const Machine& machine, const Graph& graph, const Partition& partition, const PartitionOptions& options,
       const StepGroups& groups)
      : machine_(machine),
        graph_(graph),
        partition_(partition),
        options_(options),
        between_(groups.exchanges),
        pairs_between_(groups.pairs),
        users_(graph.users()) {
    const auto count = static_cast<std::uint32_t>(groups.count), size = static_cast<std::uint32_t>(options.processes);
    groups_.resize(count), across_.resize(size);
    for (std::uint32_t g = 0; g < count; ++g)
      for (std::uint32_t p = 0; p < size; ++p) {
        devices_.push_back(g * size + p);
        groups_[g].push_back(devices_.back()), across_[p].push_back(devices_.back());
      }
    exchanges_ = exchanges_of(graph, partition, options);
    order_ = execution_order(graph, partition, exchanges_, between_);
    rearranging_ = rearranging_seconds(machine, graph, partition, options, exchanges_, order_, between_);
    made_.resize(graph.value_count());
    held_ = partition.given;
    for (const GraphOutput& o : graph.outputs()) outputs_.push_back(o.value);
  }

  StepBlocks blocks() {
    add_given();
    computed_.resize(graph_.nodes().size());
    auto exchange = order_.exchanges.begin();
    for (std::size_t place = 0; place <= order_.nodes.size(); ++place) {
      for (; exchange != order_.exchanges.end() && exchange->after == place; ++exchange) {
        BlockMaker& maker = block(block_of(place) - 1);
        if (exchange->between_groups)
          add_node(exchange->number, maker);
        else
          add_exchange(exchanges_[exchange->number], maker);
      }
      if (place < order_.nodes.size()) add_node(order_.nodes[place], block(block_of(place)));
    }
    add_buffers();
    StepBlocks result;
    for (auto& [number, maker] : blocks_) result.emplace(number, maker.take());
    return result;
  }

 private:
  BlockMaker& block(std::uint32_t number) { return blocks_.try_emplace(number, machine_, number).first->second; }

  void add_given() {
    // Given values are there all the time.
    const auto producers = graph_.producers();
    for (ValueId v = 0; v < graph_.value_count(); ++v)
      if (producers[v] < 0 && !users_[v].empty())
        block(0).buffer(held_bytes(graph_.value(v).type, partition_.given[v], options_.processes), devices_, std::nullopt, {});
  }

  void add_node(std::size_t n, BlockMaker& maker) {
    const Node& node = *graph_.nodes()[n];
    const NodeChoice& choice = partition_.nodes[n];
    Waits after;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId v = node.inputs[k];
      if (v == kNoValue) continue;
      for (const auto& [to, waits] : done_[v])
        if (to == choice.needs[k]) after.insert(after.end(), waits.begin(), waits.end());
      if (made_[v]) after.push_back(*made_[v]);
    }
    const std::string label = node.op ? node.op->name() : "opaque";
    const auto between = between_.find(n);
    const TaskName task = between == between_.end()
                              ? maker.compute_for(label, devices_, choice.seconds + rearranging_[n], after)
                              : exchanged_between(between->second, choice, maker, after);
    computed_[n] = task;
    // A reindexing that moves nothing is a view of its operand.
    if (node.op && node.outputs.size() == 1 && node.outputs[0] != kNoValue && !node.inputs.empty() &&
        node.inputs[0] != kNoValue && operator_traits(*node.op, node.attributes, graph_.operand_types(node)).free)
      views_[node.outputs[0]] = node.inputs[0];
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId v = node.outputs[o];
      if (v == kNoValue) continue;
      made_[v] = task;
      held_[v] = choice.gives[o];
    }
  }

  ValueId root(ValueId v) const {
    for (auto at = views_.find(v); at != views_.end(); at = views_.find(v)) v = at->second;
    return v;
  }

  // Computed values are held until their last reader, and so are the results of exchanges.
  void add_buffers() {
    struct Life {
      double bytes = 0;
      std::optional<TaskName> from;
      std::vector<TaskName> until;
      bool to_end = false;
    };
    std::map<std::pair<ValueId, std::size_t>, Life> lives;  // by value and exchange; 0: as it was computed
    const auto life = [&](ValueId v, const Need& need) -> Life& {
      std::size_t number = 0;
      const auto& done = done_[v];
      for (std::size_t k = 0; k < done.size(); ++k)
        if (done[k].first == need) number = k + 1;
      Life& l = lives[{number == 0 ? root(v) : v, number}];
      if (number > 0 && !l.from && !done[number - 1].second.empty()) {
        l.from = done[number - 1].second.front().task;
        l.bytes = held_bytes(graph_.value(v).type, need.holding, options_.processes);
      }
      return l;
    };
    const auto nodes = graph_.nodes();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      for (const ValueId v : nodes[n]->outputs)
        if (v != kNoValue && root(v) == v) {
          Life& l = lives[{v, 0}];
          l.bytes = held_bytes(graph_.value(v).type, held_[v], options_.processes);
          l.from = computed_[n];
          for (const auto& [need, waits] : done_[v])
            for (const Wait& w : waits) l.until.push_back(w.task);
        }
      for (std::size_t k = 0; k < nodes[n]->inputs.size(); ++k)
        if (nodes[n]->inputs[k] != kNoValue)
          life(nodes[n]->inputs[k], partition_.nodes[n].needs[k]).until.push_back(computed_[n]);
    }
    for (const ValueId v : outputs_) lives[{root(v), 0}].to_end = true;
    for (auto& [name, l] : lives) {
      if (!l.from || l.bytes == 0) continue;
      // A result that nothing reads is there while it is computed.
      if (l.until.empty() && !l.to_end) l.until.push_back(*l.from);
      if (l.to_end) l.until.clear();
      block(l.from->block).buffer(l.bytes, devices_, l.from, std::move(l.until));
    }
  }

  void add_exchange(const PlannedExchange& e, BlockMaker& maker) {
    Waits after;
    if (made_[e.value]) after.push_back(*made_[e.value]);
    const TensorType& type = graph_.value(e.value).type;
    const double bytes = exchanged_bytes(e.exchange, type, e.from, e.to, options_.processes);
    const std::string label = std::string(name(e.exchange)) + " " + graph_.value(e.value).name;
    Waits waits = e.exchange == Exchange::kHalo ? maker.exchange(label, halo(type, e.to), after)
                                                : collective(label, e.exchange, {groups_, options_.pairs}, bytes, maker, after);
    done_[e.value].emplace_back(e.to, std::move(waits));
  }

  // Processes of one number in all groups exchange what they hold.
  TaskName exchanged_between(const BetweenGroups& e, const NodeChoice& choice, BlockMaker& maker, const Waits& after) const {
    const std::string label = std::string(name(e.exchange)) + " between groups";
    const Waits waits = collective(label, e.exchange, {across_, pairs_between_},
                                   held_bytes(e.whole, choice.gives[0], options_.processes), maker, after);
    // Where nothing is sent, a task stands for the exchange all the same.
    return e.exchange == Exchange::kNone || waits.size() != 1 ? maker.compute_for(label, devices_, 0, waits) : waits[0].task;
  }

  // Groups that exchange at the same time, and which of their exchanges go in pairs.
  struct Members {
    const std::vector<Devices>& groups;
    const distribution::PairLimits& pairs;
  };

  Waits collective(const std::string& label, Exchange exchange, const Members& members, double bytes, BlockMaker& maker,
                   const Waits& after) const {
    const std::vector<Devices>& groups = members.groups;
    Collective collective{CollectiveKind::kAllReduce, groups, bytes};
    collective.how.strategy = strategy_of(distribution::way_of(groups.front().size(), bytes, members.pairs));
    if (collective.how.strategy == distribution::AllReduceStrategy::kRing) collective.rings = rings_of(machine_, groups);
    switch (exchange) {
      case Exchange::kNone:
      case Exchange::kHalo:
        return after;
      case Exchange::kAllGather:
        collective.kind = CollectiveKind::kAllGather;
        break;
      case Exchange::kReduceScatter:
        collective.kind = CollectiveKind::kReduceScatter;
        break;
      case Exchange::kAllToAll:
        collective.kind = CollectiveKind::kAllToAll, collective.bytes = bytes / static_cast<double>(groups.front().size());
        break;
      case Exchange::kAllReduce:
        break;
    }
    return maker.collective(label, collective, after);
  }

  // Rows of the neighbours' parts, in one round.
  Schedule halo(const TensorType& type, const Need& need) const {
    const double row = bytes_of(type) / static_cast<double>(type.shape[need.holding.axis].value());
    Phase phase;
    for (const Devices& group : groups_)
      for (std::size_t p = 0; p + 1 < group.size(); ++p) {
        if (need.before > 0) phase.messages.push_back({group[p], group[p + 1], row * static_cast<double>(need.before)});
        if (need.after > 0) phase.messages.push_back({group[p + 1], group[p], row * static_cast<double>(need.after)});
      }
    return {phase};
  }

  const Machine& machine_;
  const Graph& graph_;
  const Partition& partition_;
  const PartitionOptions& options_;
  const std::map<std::size_t, BetweenGroups>& between_;
  const distribution::PairLimits& pairs_between_;
  std::vector<std::vector<std::int32_t>> users_;
  Devices devices_;
  std::vector<Devices> groups_, across_;  // the processes of each group; those of each number in all groups
  std::vector<ValueId> outputs_;
  std::map<std::uint32_t, BlockMaker> blocks_;
  std::vector<PlannedExchange> exchanges_;
  ExecutionOrder order_;
  std::vector<double> rearranging_;  // by node
  std::vector<std::optional<TaskName>> made_;
  std::vector<TaskName> computed_;    // by node
  std::map<ValueId, ValueId> views_;  // of another value
  std::map<ValueId, std::vector<std::pair<Need, Waits>>> done_;
  std::vector<Holding> held_;
};

}  // namespace

std::uint32_t block_of(std::size_t place) { return static_cast<std::uint32_t>(2 * place + 2); }

StepBlocks step_blocks(const Machine& machine, const Graph& graph, const Partition& partition, const PartitionOptions& options,
                       const StepGroups& groups) {
  return Step(machine, graph, partition, options, groups).blocks();
}

void replace_blocks(Simulation& simulation, const StepBlocks& before, const StepBlocks& after) {
  for (const auto& [number, block] : before)
    if (!after.contains(number)) simulation.set_block(number, {});
  for (const auto& [number, block] : after)
    if (const auto known = before.find(number); known == before.end() || !(known->second == block))
      simulation.set_block(number, block);
}

void simulate_step(Simulation& simulation, const Graph& graph, const Partition& partition, const PartitionOptions& options,
                   const StepGroups& groups) {
  replace_blocks(simulation, {}, step_blocks(simulation.machine(), graph, partition, options, groups));
}

}  // namespace rewright::plans
