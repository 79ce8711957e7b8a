#include "plans/groups/rearranging.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace rewright::plans {

namespace {

class Rearranger {
 public:
  Rearranger(const LayoutFacts& facts, const Graph& graph, const Partition& partition, const PartitionOptions& options,
             const std::vector<PlannedExchange>& exchanges, const ExecutionOrder& order)
      : facts_(facts),
        graph_(graph),
        partition_(partition),
        options_(options),
        exchanges_(exchanges),
        order_(order),
        held_(partition.given),
        own_(graph.value_count()),
        leaves_(graph.value_count()),
        seconds_(graph.nodes().size()) {
    held_.resize(graph.value_count());
    const auto nodes = graph.nodes();
    for (std::size_t n = 0; n < nodes.size(); ++n)
      for (std::size_t o = 0; o < nodes[n]->outputs.size(); ++o)
        if (nodes[n]->outputs[o] != kNoValue) held_[nodes[n]->outputs[o]] = partition.nodes[n].gives[o];
  }

  std::vector<double> seconds(const std::map<std::size_t, BetweenGroups>& between) {
    find_leaving(between);
    for (const std::size_t n : order_.nodes) add(n);
    return std::move(seconds_);
  }

 private:
  // A value in a piece: as it is held or as an exchange gives it, and in which layouts it is there.
  struct Stored {
    int level = -1;  // of the piece
    bool plain = true, own = false;
    bool undecided = false;  // in one of the two, as its first reader wants it
  };

  const PlannedExchange* exchange_of(ValueId v, const Need& need) const {
    const auto at = std::ranges::find_if(exchanges_, [&](const auto& e) { return e.value == v && e.to == need; });
    return at == exchanges_.end() ? nullptr : &*at;
  }

  // Values that are read outside of their piece, or exchanged: plain tensors.
  void find_leaving(const std::map<std::size_t, BetweenGroups>& between) {
    const auto nodes = graph_.nodes();
    for (const PlannedExchange& e : exchanges_) leaves_[e.value] = true;
    for (const auto& [n, exchange] : between) leaves_[nodes[n]->inputs[0]] = true;
    for (const GraphOutput& o : graph_.outputs()) leaves_[o.value] = true;
    for (const std::size_t n : order_.nodes)
      for (const ValueId v : nodes[n]->inputs)
        if (v != kNoValue && order_.value_level[v] < order_.node_level[n]) leaves_[v] = true;
  }

  bool may_be_changed(ValueId v, const Holding& holding) const {
    const TensorType& type = graph_.value(v).type;
    if (type.rank() < 3 || type.type != DataType::kFloat) return false;
    std::int64_t channels = type.shape[1].value();
    if (holding.kind == Holding::Kind::kCut && holding.axis == 1) channels /= options_.processes;
    return channels >= static_cast<std::int64_t>(facts_.least_channels);
  }

  double copy_seconds(ValueId v, const Holding& holding) const {
    return 2 * held_bytes(graph_.value(v).type, holding, options_.processes) / facts_.bytes_per_second;
  }

  // The forms of an operand in the piece of this level.
  Stored& stored(std::size_t n, ValueId v, const Need& need) {
    const int level = order_.node_level[n];
    if (exchange_of(v, need)) {
      for (auto& [to, known] : brought_[v])
        if (to == need) return begun(known, level);
      return begun(brought_[v].emplace_back(need, Stored{}).second, level);
    }
    Stored& known = begun(own_[v], level);
    if (held_[v] == need.holding) return known;
    // A copy of a part, from a plain value.
    for (auto& [holding, part] : parts_[v])
      if (holding == need.holding && part.level == level) return part;
    take(n, v, held_[v], known, false);
    seconds_[n] += copy_seconds(v, need.holding);
    auto& parts = parts_[v];
    std::erase_if(parts, [&](const auto& part) { return part.first == need.holding; });
    return parts.emplace_back(need.holding, Stored{level}).second;
  }

  // In another piece than before it is plain alone.
  static Stored& begun(Stored& known, int level) {
    if (known.level != level) known = {level};
    return known;
  }

  void take(std::size_t n, ValueId v, const Holding& holding, Stored& known, bool own) {
    if (std::exchange(known.undecided, false)) known.plain = !own, known.own = own;
    bool& there = own ? known.own : known.plain;
    if (!there) seconds_[n] += copy_seconds(v, holding);
    there = true;
  }

  void add(std::size_t n) {
    const Node& node = *graph_.nodes()[n];
    const NodeChoice& choice = partition_.nodes[n];
    if (!node.op) return;
    const std::string& name = node.op->name();
    // Calls `use(operand's number, value, may it be in the kernels' layout?)`.
    const auto for_operands = [&](const auto& use) {
      for (std::size_t k = 0; k < node.inputs.size(); ++k)
        if (const ValueId v = node.inputs[k]; v != kNoValue && !graph_.is_constant(v))
          use(k, v, may_be_changed(v, choice.needs[k].holding));
    };
    const auto may_be_own = [&](std::size_t k, ValueId v) {
      const Stored& known = stored(n, v, choice.needs[k]);
      return known.own || known.undecided;
    };
    bool keeps = false, reads = false;
    for_operands([&](std::size_t k, ValueId v, bool can) {
      if (can && facts_.keeps(name, k)) keeps = keeps || may_be_own(k, v);
      if (can && facts_.reads(name, k)) reads = reads || may_be_own(k, v);
    });
    for_operands([&](std::size_t k, ValueId v, bool can) {
      Stored& known = stored(n, v, choice.needs[k]);
      if (can && known.undecided && facts_.reads(name, k)) return;  // another reader decides
      const bool own = can && (facts_.changes(name, LayoutFacts::kOperand, k) || (keeps && facts_.keeps(name, k)) ||
                               (known.own && facts_.reads(name, k)));
      take(n, v, choice.needs[k].holding, known, own);
    });
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId v = node.outputs[o];
      if (v == kNoValue) continue;
      const bool can = may_be_changed(v, choice.gives[o]);
      const bool own = can && (facts_.changes(name, LayoutFacts::kResult, o) || keeps);
      own_[v] = {order_.node_level[n], !own, own};
      own_[v].undecided = can && reads && !own;
      if (leaves_[v]) take(n, v, choice.gives[o], own_[v], false);
    }
  }

  const LayoutFacts& facts_;
  const Graph& graph_;
  const Partition& partition_;
  const PartitionOptions& options_;
  const std::vector<PlannedExchange>& exchanges_;
  const ExecutionOrder& order_;
  std::vector<Holding> held_;
  std::vector<Stored> own_;  // by value, as it is held
  std::map<ValueId, std::vector<std::pair<Need, Stored>>> brought_;
  std::map<ValueId, std::vector<std::pair<Holding, Stored>>> parts_;
  std::vector<bool> leaves_;
  std::vector<double> seconds_;
};

}  // namespace

std::vector<double> rearranging_seconds(const Machine& machine, const Graph& graph, const Partition& partition,
                                        const PartitionOptions& options, const std::vector<PlannedExchange>& exchanges,
                                        const ExecutionOrder& order, const std::map<std::size_t, BetweenGroups>& between) {
  const std::optional<LayoutFacts>& facts = machine.description().layouts;
  if (!facts) return std::vector<double>(graph.nodes().size());
  return Rearranger(*facts, graph, partition, options, exchanges, order).seconds(between);
}

}  // namespace rewright::plans
