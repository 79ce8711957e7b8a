#include "plans/execution/local_program.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "plans/groups/execution_order.h"

namespace rewright::plans {

namespace {

Sizes sizes_of(const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  Sizes sizes;
  for (const Index& size : value.type.shape) {
    const auto known = size.constant();
    if (!known || !value.shape_known)
      throw Error(ErrorCode::kUnsupported, "the sizes of value \"" + value.name + "\" are not known");
    sizes.push_back(*known);
  }
  return sizes;
}

class ProgramMaker {
 public:
  // `within`: the plan, or that within its groups. `groups`: as many as have this graph; 1 for a plan without groups.
  ProgramMaker(Partition partition, const Plan& within, const Plan& plan, const GroupGraph& group, std::size_t groups,
               std::size_t rank)
      : group_(group),
        graph_(group.graph),
        partition_(std::move(partition)),
        processes_(within.processes),
        groups_(static_cast<std::int64_t>(groups)),
        rank_(rank),
        pairs_between_(pair_limits(plan)) {
    program_.groups = groups;
    options_.processes = processes_, options_.pairs = pair_limits(within);
    options_.replaced = group.replaced;
    exchanges_ = exchanges_of(graph_, partition_, options_);
    held_ = partition_.given;
    used_later_.resize(graph_.value_count());
  }

  LocalProgram make() {
    find_levels();
    add_exchanges();
    add_inputs();
    add_outputs();
    for (auto at = order_.nodes.begin(); at != order_.nodes.end();) {
      const auto end =
          std::find_if(at, order_.nodes.end(), [&](std::size_t n) { return order_.node_level[n] != order_.node_level[*at]; });
      add_piece({at, end});
      at = end;
    }
    return std::move(program_);
  }

 private:
  // The exchange that gives what the need says; none if the value is held so, or is there.
  std::optional<std::size_t> exchange_of(ValueId v, const Need& need) const {
    for (std::size_t e = 0; e < exchanges_.size(); ++e)
      if (exchanges_[e].value == v && exchanges_[e].to == need) return e;
    return std::nullopt;
  }

  // Is nothing needed of the operand, as another process adds it?
  bool is_zero_here(const Need& need) const { return need.once && rank_ != 0; }

  void find_levels() {
    order_ = execution_order(graph_, partition_, exchanges_, group_.exchanges);
    const auto nodes = graph_.nodes();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const Node& node = *nodes[n];
      if (group_.exchanges.count(n) == 0) require_executable(node, n);
      for (std::size_t o = 0; o < node.outputs.size(); ++o)
        if (node.outputs[o] != kNoValue) held_[node.outputs[o]] = partition_.nodes[n].gives[o];
    }
    for (const std::size_t n : order_.nodes)
      for (std::size_t k = 0; k < nodes[n]->inputs.size(); ++k) {
        const ValueId v = nodes[n]->inputs[k];
        if (v != kNoValue && order_.value_level[v] < order_.node_level[n] && !exchange_of(v, partition_.nodes[n].needs[k]))
          used_later_[v] = true;
      }
  }

  void require_executable(const Node& node, std::size_t n) const {
    const auto refuse = [&](const std::string& why) {
      const std::string name = node.origin ? " \"" + node.origin->name + "\"" : "";
      throw Error(ErrorCode::kUnsupported, "node " + std::to_string(n) + " (" + (node.op ? node.op->name() : "opaque") + name +
                                               ") cannot be executed by several processes: " + why);
    };
    if (!node.op) refuse(node.opaque_reason);
    if (node.op->random()) refuse("each would draw random numbers of its own");
  }

  // In the order that all processes have.
  void add_exchanges() {
    results_.resize(exchanges_.size());
    for (const ExecutionOrder::Step& step : order_.exchanges) {
      if (step.between_groups)
        add_between(step.number);
      else
        add_exchange(step.number);
    }
  }

  // Between the groups, with the processes that hold the same part within theirs.
  void add_between(std::size_t n) {
    const BetweenGroups& planned = group_.exchanges.at(n);
    const ValueId from = graph_.nodes()[n]->inputs[0], to = graph_.nodes()[n]->outputs[0];
    const Need& need = partition_.nodes[n].needs[0];
    LocalExchange local;
    local.exchange = planned.exchange, local.level = PlanLevel::kBetween, local.pairs = pairs_between_;
    for (const Index& size : planned.whole.shape) local.whole.push_back(size.value());
    if (need.holding.kind == Holding::Kind::kCut)
      local.whole[need.holding.axis] = part_sizes(sizes_of(graph_, from), parts(from, need), rank_)[need.holding.axis];
    local.before = parts_of({planned.from}, local.whole, groups_);
    local.after = parts_of({planned.to}, local.whole, groups_);
    if (planned.from.kind == Holding::Kind::kPartial) local.reduction = planned.from.reduction;
    if (const auto e = exchange_of(from, need)) {
      local.from = results_[*e];
    } else {
      local.from = held_[from] == need.holding ? held_value(from) : own_part(from, need);
      used_later_[from] = true;
    }
    local.to = held_value(to);
    program_.exchanges.push_back(std::move(local));
  }

  void add_exchange(std::size_t e) {
    const PlannedExchange& planned = exchanges_[e];
    LocalExchange local;
    local.exchange = planned.exchange, local.pairs = options_.pairs;
    local.whole = sizes_of(graph_, planned.value);
    local.before = parts(planned.value, {planned.from});
    local.after = parts(planned.value, planned.to);
    if (planned.from.kind == Holding::Kind::kPartial) local.reduction = planned.from.reduction;
    local.from = held_value(planned.value);
    local.to = results_[e] = add_value(planned.value, local.after);
    used_later_[planned.value] = true;
    program_.exchanges.push_back(std::move(local));
  }

  TensorParts parts(ValueId v, const Need& need) const { return parts_of(need, sizes_of(graph_, v), processes_); }

  std::size_t add_value(ValueId v, const TensorParts& parts) {
    const Value& value = graph_.value(v);
    program_.values.push_back({value.name, value.type.type, part_sizes(sizes_of(graph_, v), parts, rank_), {}});
    return program_.values.size() - 1;
  }

  // The number of the value as it is held.
  std::size_t held_value(ValueId v) {
    if (const auto at = local_.find(v); at != local_.end()) return at->second;
    const TensorParts held = parts(v, {held_[v]});
    const std::size_t number = local_[v] = add_value(v, held);
    if (graph_.is_constant(v)) program_.values[number].constant = part_of(graph_.value(v).constant, held, rank_);
    return number;
  }

  // `between`: by number of the input or output; empty without groups.
  LocalPort port(ValueId v, std::size_t value, std::string name, const Need& need, const std::vector<Division>& between,
                 std::size_t number) const {
    LocalPort result{value, std::move(name), graph_.value(v).type.type, std::nullopt, {sizes_of(graph_, v), parts(v, need)}};
    if (!between.empty()) result.between = between[number];
    return result;
  }

  void add_inputs() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId v = graph_.inputs()[i];
      program_.inputs.push_back(port(v, held_value(v), graph_.value(v).name, {held_[v]}, group_.inputs, i));
    }
  }

  void add_outputs() {
    for (std::size_t o = 0; o < graph_.outputs().size(); ++o) {
      const auto& [name, v, type, shape_known] = graph_.outputs()[o];
      Need need;
      for (const auto& [output, given] : options_.replaced)
        if (output == o) need.holding = partition_.given.at(given);
      std::size_t number = 0;
      if (const auto e = exchange_of(v, need)) {
        number = results_[*e];
      } else {
        number = held_value(v);
        used_later_[v] = true;
        if (!(held_[v] == need.holding)) number = own_part(v, need);
      }
      program_.outputs.push_back(port(v, number, name, need, group_.outputs, o));
    }
  }

  // A part of what each process has: an exchange without a message.
  std::size_t own_part(ValueId v, const Need& need) {
    LocalExchange local;
    local.whole = sizes_of(graph_, v);
    local.from = held_value(v);
    local.before = parts(v, {held_[v]});
    local.after = parts(v, need);
    local.to = add_value(v, local.after);
    program_.exchanges.push_back(local);
    return local.to;
  }

  // ---- A piece

  struct PieceState {
    LocalPiece piece;
    std::map<std::size_t, ValueId> values;                     // by number
    std::map<ValueId, ValueId> computed;                       // by value of the whole graph
    std::map<std::pair<ValueId, std::string>, ValueId> parts;  // slices, and constants
  };

  // Adds a piece that computes these nodes, which are of one level.
  void add_piece(std::span<const std::size_t> nodes) {
    PieceState state;
    for (const std::size_t n : nodes) add_node(state, n);
    for (const std::size_t n : nodes)
      for (const ValueId v : graph_.nodes()[n]->outputs) {
        if (v == kNoValue || !used_later_[v]) continue;
        state.piece.outputs.push_back(held_value(v));
        state.piece.graph.add_output(graph_.value(v).name, state.computed.at(v));
      }
    // It would join nodes that are computed again with those that they repeat.
    if (partition_.again.empty()) state.piece.graph.tidy();
    program_.pieces.push_back(std::move(state.piece));
  }

  void add_node(PieceState& state, std::size_t n) {
    const Node& node = *graph_.nodes()[n];
    const NodeChoice& choice = partition_.nodes[n];
    std::vector<ValueId> operands;
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      operands.push_back(node.inputs[k] == kNoValue ? kNoValue : operand(state, node.inputs[k], choice.needs[k]));
    Attributes attributes = node.attributes;
    if (choice.cut) {
      const std::int64_t units = choice.cut->units.value(), me = static_cast<std::int64_t>(rank_);
      const std::int64_t mine = (me + 1) * units / processes_ - me * units / processes_;
      attributes = part_attributes(attributes, *choice.cut, mine, me == 0, me + 1 == processes_);
    }
    std::vector<std::string> names;
    for (const ValueId v : node.outputs) names.push_back(v == kNoValue ? "" : graph_.value(v).name);
    const std::vector<ValueId> results =
        state.piece.graph.add_node(*node.op, std::move(attributes), std::move(operands), names);
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId v = node.outputs[o];
      if (v == kNoValue) continue;
      state.computed[v] = results[o];
      if (sizes_of(state.piece.graph, results[o]) != part_sizes(sizes_of(graph_, v), parts(v, {held_[v]}), rank_))
        throw Error(ErrorCode::kUnsupported, "node " + std::to_string(n) + " (" + node.op->name() + "): process " +
                                                 std::to_string(rank_) + " has another part of its result than the plan says");
    }
  }

  ValueId operand(PieceState& state, ValueId v, const Need& need) {
    if (is_zero_here(need)) return zeros(state, v);
    if (const auto e = exchange_of(v, need)) return brought(state, results_[*e]);
    const bool is_as_held = held_[v] == need.holding;
    if (graph_.is_constant(v)) return constant_part(state, v, is_as_held ? Need{held_[v]} : need);
    const auto here = state.computed.find(v);
    const ValueId held = here != state.computed.end() ? here->second : brought(state, held_value(v));
    return is_as_held ? held : slice(state, v, held, need);
  }

  ValueId brought(PieceState& state, std::size_t number) {
    const auto [at, is_new] = state.values.try_emplace(number, kNoValue);
    if (!is_new) return at->second;
    const LocalValue& value = program_.values[number];
    state.piece.inputs.push_back(number);
    at->second = state.piece.graph.add_input(value.name.empty() ? "value_" + std::to_string(number) : value.name,
                                             {value.type, to_indices(value.sizes)});
    return at->second;
  }

  ValueId constant_part(PieceState& state, ValueId v, const Need& need) {
    const TensorParts rows = parts(v, need);
    ValueId& result = known_part(state, v, rows);
    if (result == kNoValue)
      result = state.piece.graph.add_constant(part_of(graph_.value(v).constant, rows, rank_), graph_.value(v).name);
    return result;
  }

  ValueId slice(PieceState& state, ValueId v, ValueId held, const Need& need) {
    const TensorParts rows = parts(v, need);
    ValueId& result = known_part(state, v, rows);
    if (result != kNoValue) return result;
    const Operator& op = registry().get("Slice");
    const Sizes whole = sizes_of(graph_, v);
    Indices begin(whole.size(), Index(0));
    begin[rows.axis] = rows.rows[rank_].begin;
    Attributes attributes = op.defaults();
    attributes.at(op.field("begin").value()) = begin;
    attributes.at(op.field("length").value()) = to_indices(part_sizes(whole, rows, rank_));
    attributes.at(op.field("step").value()) = Indices(whole.size(), Index(1));
    return result = state.piece.graph.add_node(op, std::move(attributes), {held}).at(0);
  }

  ValueId& known_part(PieceState& state, ValueId v, const TensorParts& rows) const {
    std::string which = "whole";
    if (!rows.is_whole())
      which =
          std::to_string(rows.axis) + ":" + std::to_string(rows.rows[rank_].begin) + "-" + std::to_string(rows.rows[rank_].end);
    return state.parts.try_emplace({v, which}, kNoValue).first->second;
  }

  ValueId zeros(PieceState& state, ValueId v) const {
    const TensorType& type = graph_.value(v).type;
    ValueId& result = state.parts.try_emplace({v, "zeros"}, kNoValue).first->second;
    if (result != kNoValue) return result;
    const Operator& op = registry().get("Fill");
    Attributes attributes = op.defaults();
    attributes.at(op.field("value").value()) = Real(0);
    attributes.at(op.field("shape").value()) = type.shape;
    attributes.at(op.field("type").value()) = type.type;
    return result = state.piece.graph.add_node(op, std::move(attributes), {}).at(0);
  }

  const GroupGraph& group_;
  const Graph& graph_;
  const Partition partition_;
  const std::int64_t processes_, groups_;
  const std::size_t rank_;
  const distribution::PairLimits pairs_between_;
  PartitionOptions options_;
  std::vector<PlannedExchange> exchanges_;
  std::vector<Holding> held_;
  ExecutionOrder order_;
  std::vector<bool> used_later_;          // by value: outside of its piece, as it is held
  std::map<ValueId, std::size_t> local_;  // numbers of values as they are held
  std::vector<std::size_t> results_;      // numbers of the exchanges' results
  LocalProgram program_;
};

}  // namespace

LocalProgram local_program(const Plan& plan, const Graph& graph, const std::vector<std::pair<std::size_t, ValueId>>& replaced,
                           std::size_t rank) {
  const auto make = [&](const Plan& within, Partition partition, const GroupGraph& group, std::size_t groups) {
    const auto number = static_cast<std::int64_t>(rank) % within.processes;
    return ProgramMaker(std::move(partition), within, plan, group, groups, static_cast<std::size_t>(number)).make();
  };
  if (!plan.within) {
    Partition partition = partition_of(plan, graph);
    return make(plan, std::move(partition), {graph, replaced, {}, {}, {}}, 1);
  }
  const std::size_t group = rank / static_cast<std::size_t>(plan.within->processes);
  const GroupGraph mine = group_of(plan, graph, replaced, group);
  return make(*plan.within, partition_within(*plan.within, mine), mine, static_cast<std::size_t>(plan.processes));
}

Tensor own_part(const Tensor& whole, const LocalPort& port, const PlanProcesses& processes) {
  const Tensor of_group = port.between ? part_of(whole, port.between->parts, processes.between().rank()) : whole;
  return part_of(of_group, port.within.parts, processes.within().rank());
}

Tensor scatter(const Tensor& whole, const LocalPort& port, PlanProcesses& processes) {
  Tensor of_group = whole;
  if (port.between && processes.within().rank() == 0)
    of_group = distribution::scatter(processes.between(), whole, port.type, port.between->whole, port.between->parts, 0);
  return distribution::scatter(processes.within(), of_group, port.type, port.within.whole, port.within.parts, 0);
}

Tensor gather(const Tensor& mine, const LocalPort& port, PlanProcesses& processes) {
  Tensor of_group = redistribute(processes.within(), mine, port.within.whole, port.within.parts, {});
  if (!port.between) return of_group;
  return redistribute(processes.between(), of_group, port.between->whole, port.between->parts, {});
}

Tensor gather_in_first(const Tensor& mine, const LocalPort& port, PlanProcesses& processes) {
  Tensor of_group = distribution::gather(processes.within(), mine, port.within.whole, port.within.parts, 0);
  if (!port.between || processes.within().rank() != 0) return of_group;
  return distribution::gather(processes.between(), of_group, port.between->whole, port.between->parts, 0);
}

Tensor exchanged(const LocalExchange& e, const Tensor& mine, PlanProcesses& all, TensorPool* pool) {
  Communicator& processes = all.at(e.level);
  return e.reduction ? combine(processes, mine, *e.reduction, e.after, e.pairs, pool)
                     : redistribute(processes, mine, e.whole, e.before, e.after, e.pairs, pool);
}

std::vector<Tensor> run_in_order(const LocalProgram& program, PlanProcesses& processes, std::vector<Tensor> inputs,
                                 const std::function<std::vector<Tensor>(const Graph&, std::span<const Tensor>)>& compute) {
  std::vector<Tensor> values;
  for (const LocalValue& value : program.values) values.push_back(value.constant);
  for (std::size_t i = 0; i < inputs.size(); ++i) values[program.inputs[i].value] = std::move(inputs[i]);
  std::size_t done = 0;
  const auto exchange = [&] {
    for (; done < program.exchanges.size() && values[program.exchanges[done].from]; ++done)
      values[program.exchanges[done].to] = exchanged(program.exchanges[done], values[program.exchanges[done].from], processes);
  };
  exchange();
  for (const LocalPiece& piece : program.pieces) {
    std::vector<Tensor> given;
    for (const std::size_t i : piece.inputs) given.push_back(values[i]);
    const std::vector<Tensor> results = compute(piece.graph, given);
    for (std::size_t o = 0; o < results.size(); ++o) values[piece.outputs[o]] = results[o];
    exchange();
  }
  std::vector<Tensor> outputs;
  for (const LocalPort& port : program.outputs) outputs.push_back(values[port.value]);
  return outputs;
}

}  // namespace rewright::plans
