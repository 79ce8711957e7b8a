#include "plans/plan.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "plans/groups/execution_order.h"
#include "plans/pipelines/schedule_check.h"

namespace rewright::plans {

namespace {

std::string hash_of(const Graph& graph) {
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << graph.hash();
  return text.str();
}

std::string place_of(const Graph& graph, std::size_t position) {
  const Node& node = *graph.nodes()[position];
  std::string text = "node " + std::to_string(position) + " (" + (node.op ? node.op->name() : "opaque");
  for (const ValueId v : node.outputs)
    if (v != kNoValue && !graph.value(v).name.empty()) {
      text += " \"" + graph.value(v).name + "\"";
      break;
    }
  return text + ")";
}

std::string value_name(const Graph& graph, ValueId v) {
  const std::string& name = graph.value(v).name;
  return name.empty() ? "value " + std::to_string(v) : "value \"" + name + "\"";
}

bool same_exchange(const PlannedExchange& a, const PlannedExchange& b) {
  return a.value == b.value && a.from == b.from && a.to == b.to && a.exchange == b.exchange;
}

// A holding that a value of this type can have.
void require_holding(const Graph& graph, ValueId v, const Holding& h, std::int64_t processes) {
  if (h.kind == Holding::Kind::kPartial)
    throw Error(ErrorCode::kBadInput, value_name(graph, v) + " is given, and cannot be held as partial values");
  if (h.kind != Holding::Kind::kCut) return;
  const TensorType& type = graph.value(v).type;
  if (h.axis >= type.rank() || h.unit < 1 || h.units < processes || h.unit > type.shape[h.axis].value() / h.units)
    throw Error(ErrorCode::kBadInput, value_name(graph, v) + " of type " + to_string(type) + " cannot be " + to_string(h));
}

void require_for(const Plan& plan, const Graph& graph, bool is_same) {
  const bool has_marks = plan.again.empty() || plan.again.size() == plan.cuts.size();
  if (!is_same || !has_marks || plan.cuts.size() != graph.nodes().size() || plan.given.size() != graph.value_count())
    throw Error(ErrorCode::kBadInput, plan.purpose == "training"
                                          ? "the plan is for another model, other sizes or other options of training"
                                          : "the plan is for another model, or for other sizes");
}

bool fits(const Cut& cut, const Node& node) {
  return node.op && cut.operands.size() == node.inputs.size() && cut.outputs.size() >= node.outputs.size();
}

using Between = std::map<std::size_t, BetweenGroups>;

// An exchange between groups, cut along an axis that it does not change.
NodeChoice choice_between(const Plan& plan, const Graph& graph, std::size_t n, const BetweenGroups& exchange) {
  const TensorType& result = graph.value(graph.nodes()[n]->outputs.at(0)).type;
  for (NodeChoice& c : choices_between(exchange, result, plan.processes, {}))
    if (c.cut == plan.cuts[n]) return std::move(c);
  throw Error(ErrorCode::kBadInput, place_of(graph, n) + ": an exchange between groups cannot be cut so");
}

NodeChoice choice_of(const Plan& plan, const Graph& graph, std::size_t n, const Between& between) {
  if (const auto exchange = between.find(n); exchange != between.end()) return choice_between(plan, graph, n, exchange->second);
  const Node& node = *graph.nodes()[n];
  if (!plan.cuts[n]) return whole_choice(node);
  if (!fits(*plan.cuts[n], node)) throw Error(ErrorCode::kBadInput, place_of(graph, n) + ": the cut does not fit its operands");
  std::vector<TensorType> results;
  for (const ValueId v : node.outputs) results.push_back(v == kNoValue ? TensorType{} : graph.value(v).type);
  auto choice = make_choice(graph.operand_types(node), results, *plan.cuts[n], plan.processes);
  if (!choice)
    throw Error(ErrorCode::kBadInput,
                place_of(graph, n) + " has too few units of work for " + std::to_string(plan.processes) + " processes");
  share_zeros(graph, node, *choice);
  return std::move(*choice);
}

Partition partition_of(const Plan& plan, const Graph& graph, const Between& between, bool is_same) {
  require_for(plan, graph, is_same);
  Partition partition;
  partition.given = plan.given;
  partition.sequence = plan.sequence, partition.again = plan.again;
  for (ValueId v = 0; v < graph.value_count(); ++v) require_holding(graph, v, plan.given[v], plan.processes);
  for (std::size_t n = 0; n < plan.cuts.size(); ++n) partition.nodes.push_back(choice_of(plan, graph, n, between));
  return partition;
}

// The fault of a plan of one level; empty if it is proved.
std::string fault_of(const Plan& plan, const Graph& graph, const std::vector<std::pair<std::size_t, ValueId>>& replaced,
                     const Between& between, CutFinder& cuts) {
  for (std::size_t n = 0; n < plan.cuts.size(); ++n) {
    if (!plan.cuts[n] || between.count(n) > 0) continue;
    const Node& node = *graph.nodes()[n];
    if (!fits(*plan.cuts[n], node)) return place_of(graph, n) + ": the cut does not fit its operands";
    const CutProof proof = cuts.proof(*node.op, node.attributes, graph.operand_types(node), *plan.cuts[n]);
    if (!proof.proved) return place_of(graph, n) + ": its parts do not compute what it computes: " + proof.open_question;
  }
  PartitionOptions options;
  options.processes = plan.processes;
  options.replaced = replaced;
  std::vector<PlannedExchange> needed;
  try {
    const Partition partition = partition_of(plan, graph, between, true);
    needed = exchanges_of(graph, partition, options);
    execution_order(graph, partition, needed, between);  // refuses an order that cannot be
  } catch (const Error& e) {
    return e.what();
  }
  for (const PlannedExchange& e : needed)
    if (std::none_of(plan.exchanges.begin(), plan.exchanges.end(), [&](const auto& o) { return same_exchange(e, o); }))
      return value_name(graph, e.value) + " is held " + to_string(e.from) + " and needed " + to_string(e.to.holding) +
             (e.before >= 0 ? " by " + place_of(graph, static_cast<std::size_t>(e.before)) : " as an output") +
             ": the plan has no " + std::string(name(e.exchange)) + " for it";
  for (const PlannedExchange& e : plan.exchanges)
    if (std::none_of(needed.begin(), needed.end(), [&](const auto& o) { return same_exchange(e, o); }))
      return value_name(graph, e.value) + ": nothing needs the plan's " + std::string(name(e.exchange)) + " of it";
  return {};
}

}  // namespace

double PlanPrediction::most_bytes() const {
  return peak_bytes.empty() ? 0 : *std::max_element(peak_bytes.begin(), peak_bytes.end());
}
double PlanPrediction::all_sent() const { return std::accumulate(bytes_sent.begin(), bytes_sent.end(), 0.0); }

distribution::PairLimits pair_limits(const Plan& plan) {
  return plan.pairs.value_or(distribution::usual_limits(static_cast<std::size_t>(plan.processes)));
}

Plan make_plan(const Graph& graph, const Partition& partition, const PartitionOptions& options) {
  Plan plan;
  plan.processes = options.processes;
  plan.graph_hash = hash_of(graph);
  for (const NodeChoice& c : partition.nodes) plan.cuts.push_back(c.cut);
  plan.given = partition.given;
  plan.sequence = partition.sequence, plan.again = partition.again;
  plan.exchanges = exchanges_of(graph, partition, options);
  if (distribution::can_pair(static_cast<std::size_t>(options.processes))) plan.pairs = options.pairs;
  return plan;
}

GroupGraph group_of(const Plan& plan, const Graph& graph, const std::vector<std::pair<std::size_t, ValueId>>& replaced,
                    std::size_t group) {
  PartitionOptions options;
  options.processes = plan.processes;
  options.replaced = replaced;
  GroupGraph result = group_graph(graph, partition_of(plan, graph), options, group);
  if (!plan.within || plan.within->recomputed.empty()) return result;
  return with_recomputations(result, plan.within->recomputed).group;
}

Partition partition_of(const Plan& plan, const Graph& graph) {
  return partition_of(plan, graph, {}, plan.graph_hash == hash_of(graph));
}

Partition partition_within(const Plan& within, const GroupGraph& group) {
  return partition_of(within, group.graph, group.exchanges, true);
}

PlanCheck check_plan(const Plan& plan, const Graph& graph, const std::vector<std::pair<std::size_t, ValueId>>& replaced) {
  require_for(plan, graph, plan.graph_hash == hash_of(graph));
  PlanCheck result;
  CutFinder cuts;
  result.reason = fault_of(plan, graph, replaced, {}, cuts);
  if (result.reason.empty() && plan.within) try {
      const GroupGraph group = group_of(plan, graph, replaced, 0);
      require_for(*plan.within, group.graph, plan.within->graph_hash == hash_of(group.graph));
      result.reason = fault_of(*plan.within, group.graph, group.replaced, group.exchanges, cuts);
      if (!result.reason.empty()) result.reason = "within groups: " + result.reason;
    } catch (const Error& e) {
      result.reason = e.what();
    }
  if (result.reason.empty() && plan.pipeline) try {
      const GroupGraph group = group_of(plan, graph, replaced, 0);
      const MicroBatchRoles roles = roles_of(group, plan.purpose == "training");
      result.reason = fault_of_pipeline(*plan.pipeline, group, roles, static_cast<std::size_t>(plan.processes));
      const std::string why = result.reason.empty() ? why_asynchronous(plan.pipeline->schedule) : "";
      if (!why.empty()) {
        result.reason = "its schedule is asynchronous, and computes something else than one process: " + why;
        result.only_stale = true;
      }
    } catch (const Error& e) {
      result.reason = e.what();
    }
  result.rules = cuts.proofs();
  result.proved = result.reason.empty();
  return result;
}

}  // namespace rewright::plans
