#include "plans/groups/group_graph.h"

#include <algorithm>

#include "base/error.h"
#include "optimizer/costs/cost_model.h"

namespace rewright::plans {

namespace {

bool is_even(const Holding& h, std::int64_t processes) { return h.kind != Holding::Kind::kCut || h.units == processes; }

TensorType part_type(TensorType type, const Holding& h, std::int64_t groups) {
  if (h.kind == Holding::Kind::kCut) type.shape[h.axis] = floor_div(type.shape[h.axis], groups);
  return type;
}

Sizes sizes_of(const TensorType& type) {
  Sizes sizes;
  for (const Index& size : type.shape) sizes.push_back(size.value());
  return sizes;
}

class GroupGraphMaker {
 public:
  GroupGraphMaker(const Graph& graph, const Partition& partition, const PartitionOptions& options, std::size_t group)
      : graph_(graph), partition_(partition), options_(options), group_(group), held_(partition.given) {
    held_.resize(graph.value_count());
    here_.resize(graph.value_count());
  }

  GroupGraph make() {
    for (const ValueId v : graph_.inputs()) {
      as_held(v);
      result_.inputs.push_back(division(v, held_[v]));
    }
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) add_node(n);
    for (std::size_t o = 0; o < graph_.outputs().size(); ++o) add_output(o);
    return std::move(result_);
  }

 private:
  Division division(ValueId v, const Holding& h) const {
    const Sizes sizes = sizes_of(graph_.value(v).type);
    return {sizes, parts_of({h}, sizes, options_.processes)};
  }

  void add_node(std::size_t n) {
    const Node& node = *graph_.nodes()[n];
    const NodeChoice& choice = partition_.nodes[n];
    const auto place = [&] { return "node " + std::to_string(n) + " (" + (node.op ? node.op->name() : "opaque") + ")"; };
    if (const std::string why = why_not_alike(choice, options_.processes); !why.empty())
      throw Error(ErrorCode::kBadInput, place() + ": " + why);
    std::vector<ValueId> operands;
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      operands.push_back(node.inputs[k] == kNoValue ? kNoValue : as_needed(node.inputs[k], choice.needs[k].holding));
    std::vector<ValueId> results;
    if (node.op) {
      Attributes attributes = node.attributes;
      if (choice.cut)
        attributes = part_attributes(attributes, *choice.cut, choice.cut->units.value() / options_.processes, false, false);
      std::vector<std::string> names;
      for (const ValueId v : node.outputs) names.push_back(v == kNoValue ? "" : graph_.value(v).name);
      results = result_.graph.add_node(*node.op, std::move(attributes), std::move(operands), names);
    } else {
      results = add_opaque(node, std::move(operands));
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId v = node.outputs[o];
      if (v == kNoValue) continue;
      here_[v] = {{choice.gives[o], results[o]}};
      held_[v] = choice.gives[o];
      if (node.op && !(result_.graph.value(results[o]).type == part_type(graph_.value(v).type, held_[v], options_.processes)))
        throw Error(ErrorCode::kBadInput, place() + ": a group has another part of its result than the plan says");
    }
  }

  std::vector<ValueId> add_opaque(const Node& node, std::vector<ValueId> operands) {
    Node copy = node;
    copy.inputs = std::move(operands);
    copy.parameters.clear();
    for (ValueId& v : copy.outputs)
      if (v != kNoValue) v = result_.graph.add_value(graph_.value(v));
    std::vector<ValueId> results = copy.outputs;
    result_.graph.add_raw(std::move(copy));
    return results;
  }

  ValueId as_held(ValueId v) {
    if (!here_[v].empty()) return here_[v].front().second;
    const Value& value = graph_.value(v);
    if (!is_even(held_[v], options_.processes))
      throw Error(ErrorCode::kBadInput, "value \"" + value.name + "\" has parts of different sizes, which groups cannot have");
    ValueId mine = kNoValue;
    if (graph_.is_constant(v))
      mine = result_.graph.add_constant(part_of(value.constant, division(v, held_[v]).parts, group_), value.name);
    else
      mine = result_.graph.add_input(value.name, part_type(value.type, held_[v], options_.processes));
    here_[v] = {{held_[v], mine}};
    return mine;
  }

  ValueId as_needed(ValueId v, const Holding& to) {
    const ValueId held = as_held(v);
    for (const auto& [holding, mine] : here_[v])
      if (holding == to) return mine;
    const Value& value = graph_.value(v);
    ValueId result = kNoValue;
    const Exchange exchange = exchange_for(held_[v], {to});
    if (exchange == Exchange::kNone && graph_.is_constant(v))
      result = result_.graph.add_constant(part_of(value.constant, division(v, to).parts, group_), value.name);
    else
      result = add_exchange({exchange, held_[v], to, value.type}, held);
    here_[v].emplace_back(to, result);
    return result;
  }

  ValueId add_exchange(BetweenGroups exchange, ValueId held) {
    Value value;
    value.type = part_type(exchange.whole, exchange.to, options_.processes);
    Node node;
    node.inputs = {held};
    node.outputs = {result_.graph.add_value(value)};
    node.opaque_reason = std::string(name(exchange.exchange)) + " between groups of " + to_string(exchange.whole) + ", " +
                         to_string(exchange.from) + ", to " + to_string(exchange.to);
    const ValueId result = node.outputs[0];
    result_.exchanges.emplace(result_.graph.nodes().size(), std::move(exchange));
    result_.graph.add_raw(std::move(node));
    return result;
  }

  void add_output(std::size_t o) {
    const GraphOutput& output = graph_.outputs()[o];
    Holding to;
    for (const auto& [number, value] : options_.replaced)
      if (number == o) {
        to = partition_.given.at(value);
        result_.replaced.emplace_back(o, as_held(value));
      }
    result_.graph.add_output(output.name, as_needed(output.value, to));
    result_.outputs.push_back(division(output.value, to));
  }

  const Graph& graph_;
  const Partition& partition_;
  const PartitionOptions& options_;
  const std::size_t group_;
  std::vector<Holding> held_;
  std::vector<std::vector<std::pair<Holding, ValueId>>> here_;  // a value's forms in the group's graph, as held first
  GroupGraph result_;
};

}  // namespace

std::string why_not_alike(const NodeChoice& choice, std::int64_t processes) {
  if (!choice.cut) return {};
  for (const AttributeChange& c : choice.cut->changes)
    if (c.kind != AttributeChange::Kind::kScaled) return "its first or last part has a pad of its own";
  bool even = !choice.cut->divides() || choice.cut->units.value() % processes == 0;
  for (const Holding& h : choice.gives) even = even && is_even(h, processes);
  for (const Need& need : choice.needs) {
    if (need.before > 0 || need.after > 0) return "its parts need rows of their neighbours";
    if (need.once) return "its first part has an operand that the others do not have";
    even = even && is_even(need.holding, processes);
  }
  return even ? "" : "its parts have different sizes";
}

GroupGraph group_graph(const Graph& graph, const Partition& partition, const PartitionOptions& options, std::size_t group) {
  return GroupGraphMaker(graph, partition, options, group).make();
}

RecomputedGroup with_recomputations(const GroupGraph& group, std::span<const Recomputation> recomputations) {
  RecomputedGraph changed = with_recomputations(group.graph, recomputations);
  RecomputedGroup result{group, std::move(changed.of_node), std::move(changed.again)};
  result.group.graph = std::move(changed.graph);
  result.group.exchanges.clear();
  for (std::size_t n = 0; n < result.of_node.size(); ++n)
    if (const auto at = group.exchanges.find(static_cast<std::size_t>(result.of_node[n])); at != group.exchanges.end())
      result.group.exchanges.emplace(n, at->second);
  return result;
}

std::vector<NodeChoice> choices_between(const BetweenGroups& exchange, const TensorType& result, std::int64_t processes,
                                        const PartitionOptions& between) {
  const auto seconds = [&](double bytes) { return exchange_seconds(exchange.exchange, bytes, between); };
  const double bytes = bytes_of(exchange.whole);
  NodeChoice whole;
  whole.needs.resize(1), whole.gives.resize(1);
  whole.seconds = seconds(bytes * static_cast<double>(processes));  // as many processes share the links between groups
  std::vector<NodeChoice> choices{whole};
  const auto changes = [](const Holding& h, std::size_t axis) { return h.kind == Holding::Kind::kCut && h.axis == axis; };
  for (std::size_t axis = 0; axis < result.rank(); ++axis) {
    const std::int64_t rows = result.shape[axis].value();
    if (rows < processes || changes(exchange.from, axis) || changes(exchange.to, axis)) continue;
    const Share share{Share::Kind::kCut, axis};
    const std::vector<std::optional<TensorType>> types{result};
    auto choice = make_choice(types, {result}, {rows, {share}, {share}, {}}, processes);
    if (!choice) continue;
    choice->seconds = seconds(bytes);
    choices.push_back(std::move(*choice));
  }
  return choices;
}

}  // namespace rewright::plans
