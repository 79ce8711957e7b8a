#include "runtime/planned/planned_graph.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "graph/file.h"

namespace rewright::runtime {

using distribution::Communicator;
using plans::Plan, plans::PlanCheck;

namespace {

// Calls `work` in the first process; where it throws, all processes throw the same.
void in_first_process(Communicator& processes, const std::string& file, const std::function<void()>& work) {
  std::string problem;
  ErrorCode code = ErrorCode::kBadInput;
  if (processes.rank() == 0) try {
      work();
    } catch (const Error& error) {
      code = error.code();
      problem = error.text().empty() ? "cannot be read" : error.text();
    }
  processes.broadcast(problem, 0);
  if (!problem.empty()) throw Error(code, problem, file);
}

// Means over examples become sums, divided by the number of addends: sums over parts of a batch add up, means do not.
Graph with_sums_over_examples(Graph graph) {
  std::vector<std::pair<ValueId, ValueId>> replacements;
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  const Operator& sum = registry().get("ReduceSum");
  for (const auto& node : nodes) {
    if (!node->op || node->op->name() != "ReduceMean") continue;
    const TensorType type = graph.value(node->inputs[0]).type;
    const auto& axes = std::get<Indices>(node->attributes.at(node->op->field("axes").value()));
    if (!is_real(type.type) || std::find(axes.begin(), axes.end(), Index(0)) == axes.end()) continue;
    Attributes attributes = sum.defaults();
    for (const char* field : {"axes", "keepdims"})
      attributes.at(sum.field(field).value()) = node->attributes.at(node->op->field(field).value());
    Index count = 1;
    for (const Index& axis : axes) count = count * type.shape.at(static_cast<std::size_t>(axis.value()));
    const ValueId addends = graph.add_constant(Tensor::scalar(type.type, static_cast<double>(count.value())));
    const ValueId total = graph.add_node(sum, std::move(attributes), {node->inputs[0]}).at(0);
    const Operator& divide = registry().get("Div");
    replacements.emplace_back(node->outputs[0], graph.add_node(divide, divide.defaults(), {total, addends}).at(0));
  }
  graph.replace_uses(replacements);
  graph.tidy();
  return graph;
}

}  // namespace

Graph with_batch(const Graph& model, std::optional<std::int64_t> batch) {
  return with_sizes(model, [&](const Atom& a) -> std::optional<Index> {
    if (a.kind != Atom::Kind::kSymbol) return std::nullopt;
    if (!batch)
      throw Error(ErrorCode::kUsage, "the size \"" + a.name + "\" is open", {}, "--batch says what open sizes stand for");
    return Index(*batch);
  });
}

PlannedGraph planned_for_inference(Graph sized) {
  PlannedGraph result;
  result.graph = std::move(sized);
  result.data.assign(result.graph.inputs().begin(), result.graph.inputs().end());
  for (ValueId v = 0; v < result.graph.value_count(); ++v)
    if (result.graph.is_constant(v)) result.parameters.push_back(v);
  return result;
}

PlannedGraph planned_for_training(const training::TrainingGraphs& graphs) {
  PlannedGraph result;
  result.graph = with_sums_over_examples(graphs.step);
  const auto inputs = result.graph.inputs();
  const std::size_t kept = graphs.parameters.size() * (1 + graphs.states.size()) + graphs.statistics.size();
  const std::size_t first = inputs.size() - kept;
  // Behind the loss stand the new parameters, statistics and states, in the order of the old ones.
  for (std::size_t k = 0; k < kept; ++k) {
    result.replaced.emplace_back(1 + k, inputs[first + k]);
    result.parameters.push_back(inputs[first + k]);
  }
  result.data.assign(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(first));
  return result;
}

const std::vector<std::string>& strategies() {
  static const std::vector<std::string> kStrategies{"auto", "data", "zero", "tensor", "hybrid", "spatial"};
  return kStrategies;
}

std::function<bool(ValueId, const plans::Holding&)> holdings_of(const std::string& strategy, const PlannedGraph& planned) {
  const auto is_in = [](const std::vector<ValueId>& list, ValueId v) {
    return std::find(list.begin(), list.end(), v) != list.end();
  };
  return [&planned, strategy, is_in](ValueId v, const plans::Holding& h) {
    const bool is_whole = h.kind == plans::Holding::Kind::kWhole;
    const bool is_parameter = is_in(planned.parameters, v), is_data = is_in(planned.data, v);
    const TensorType& type = planned.graph.value(v).type;
    if (is_parameter && (strategy == "data" || strategy == "spatial")) return is_whole;
    if (!is_data || type.rank() == 0) return true;
    if (strategy == "data" || strategy == "zero" || strategy == "hybrid") return !is_whole && h.axis == 0;
    if (strategy == "tensor") return is_whole;
    if (strategy == "spatial") return type.rank() < 4 ? is_whole : !is_whole && h.axis >= 2;
    return true;
  };
}

training::TrainingGraphOptions planned_training(const std::string& loss, const std::string& update) {
  training::TrainingGraphOptions options;
  options.loss = training::loss_from_name(loss);
  options.update.method = training::update_method_from_name(update);
  options.guarded = false;
  return options;
}

Plan read_plan_together(Communicator& processes, const std::string& file, const std::string& purpose) {
  std::string text;
  in_first_process(processes, file, [&] {
    text = map_file(file).text();
    plans::read_plan(text, "");
  });
  processes.broadcast(text, 0);
  Plan plan = plans::read_plan(text, file);
  if (plan.all_processes() != static_cast<std::int64_t>(processes.size()))
    throw Error(ErrorCode::kBadInput,
                "the plan is for " + std::to_string(plan.all_processes()) + " processes, and " + std::to_string(processes.size()) +
                    (processes.size() == 1 ? " was started" : " were started"),
                file, "mpirun -n " + std::to_string(plan.all_processes()) + " starts as many");
  if (!purpose.empty() && plan.purpose != purpose)
    throw Error(ErrorCode::kBadInput, "the plan is for " + plan.purpose + ", not for " + purpose, file,
                "plan --for " + purpose + " makes such a plan");
  return plan;
}

void require_proved(const Plan& plan, const PlannedGraph& planned, Communicator& processes, const std::string& file) {
  in_first_process(processes, file, [&] {
    const PlanCheck check = check_plan(plan, planned.graph, planned.replaced);
    if (!check.proved) throw Error(ErrorCode::kBadInput, "the plan is not proved, and is not executed: " + check.reason);
  });
}

}  // namespace rewright::runtime
