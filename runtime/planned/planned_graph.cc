#include "runtime/planned/planned_graph.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "graph/file.h"
#include "graph/recomputation.h"
#include "runtime/training/graphs/row_order.h"

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

// Steps of training in operators that can be cut, where others compute the same.
class CuttableForms {
 public:
  explicit CuttableForms(Graph graph) : graph_(std::move(graph)) {}

  Graph run() {
    const std::vector<std::shared_ptr<const Node>> nodes(graph_.nodes().begin(), graph_.nodes().end());
    for (const auto& node : nodes) {
      if (!node->op) continue;
      std::optional<ValueId> other;
      if (node->op->name() == "ReduceMean") other = sum_over_examples(*node);
      if (node->op->name() == "ScatterElements") other = one_of_a_row(*node);
      if (other) replacements_.emplace_back(node->outputs[0], *other);
    }
    graph_.replace_uses(replacements_);
    graph_.tidy();
    return std::move(graph_);
  }

 private:
  template <class T>
  static const T& field(const Node& node, const char* name) {
    return std::get<T>(node.attributes.at(node.op->field(name).value()));
  }
  ValueId add(const char* name, std::vector<ValueId> inputs) {
    const Operator& op = registry().get(name);
    return graph_.add_node(op, op.defaults(), std::move(inputs)).at(0);
  }
  ValueId scalar(DataType type, double value) { return graph_.add_constant(Tensor::scalar(type, value)); }

  // A mean as a sum, divided by the number of addends: sums over parts of a batch add up, means do not.
  std::optional<ValueId> sum_over_examples(const Node& node) {
    const TensorType type = graph_.value(node.inputs[0]).type;
    const auto& axes = field<Indices>(node, "axes");
    if (!is_real(type.type) || std::find(axes.begin(), axes.end(), Index(0)) == axes.end()) return std::nullopt;
    const Operator& sum = registry().get("ReduceSum");
    Attributes attributes = sum.defaults();
    for (const char* name : {"axes", "keepdims"})
      attributes.at(sum.field(name).value()) = node.attributes.at(node.op->field(name).value());
    std::int64_t count = 1;
    for (const Index& axis : axes) count *= type.shape.at(static_cast<std::size_t>(axis.value())).value();
    const ValueId total = graph_.add_node(sum, std::move(attributes), {node.inputs[0]}).at(0);
    return add("Div", {total, scalar(type.type, static_cast<double>(count))});
  }

  // One update for each row of zeros (the gradient of what a target selects): each element compares its position with the
  // index.
  std::optional<ValueId> one_of_a_row(const Node& node) {
    const TensorType type = graph_.value(node.outputs[0]).type;
    const auto axis = static_cast<std::size_t>(field<Index>(node, "axis").value());
    Indices rows = type.shape;
    rows.at(axis) = 1;
    const auto producer = std::find_if(graph_.nodes().begin(), graph_.nodes().end(), [&](const auto& other) {
      return std::find(other->outputs.begin(), other->outputs.end(), node.inputs[0]) != other->outputs.end();
    });
    const bool is_zero = producer != graph_.nodes().end() && (*producer)->op && (*producer)->op->is_fill() &&
                         field<Real>(**producer, "value") == Real(0);
    const TensorType indices = graph_.value(node.inputs[1]).type;
    if (!is_zero || !is_real(type.type) || indices.shape != rows || graph_.value(node.inputs[2]).type.shape != rows)
      return std::nullopt;
    if (const auto& by = field<std::string>(node, "reduction"); by != "add" && by != "none") return std::nullopt;
    const std::int64_t count = type.shape[axis].value();
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    Sizes sizes(type.rank(), 1);
    sizes[axis] = count;
    const ValueId places = graph_.add_constant(Tensor::from_integers(indices.type, sizes, numbers));
    const ValueId from_front =
        add("Where", {add("Less", {node.inputs[1], scalar(indices.type, 0)}),
                      add("Add", {node.inputs[1], scalar(indices.type, static_cast<double>(count))}), node.inputs[1]});
    return add("Where", {add("Equal", {from_front, places}), node.inputs[2], scalar(type.type, 0)});
  }

  Graph graph_;
  std::vector<std::pair<ValueId, ValueId>> replacements_;
};

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
  training::put_samples_outermost(sized);
  result.graph = std::move(sized);
  result.data.assign(result.graph.inputs().begin(), result.graph.inputs().end());
  for (ValueId v = 0; v < result.graph.value_count(); ++v)
    if (result.graph.is_constant(v)) result.parameters.push_back(v);
  return result;
}

PlannedGraph planned_for_training(const training::TrainingGraphs& graphs) {
  PlannedGraph result;
  result.graph = CuttableForms(graphs.step).run();
  result.trained = graphs.parameters.size();
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

PlannedGraph divided_by(const Plan& plan, PlannedGraph planned) {
  if (!plan.recomputed.empty()) planned.graph = with_recomputations(planned.graph, plan.recomputed).graph;
  return planned;
}

const std::vector<PlanStrategy>& strategies() {
  using Data = PlanStrategy::Data;
  static const std::vector<PlanStrategy> kStrategies{{"auto", Data::kAny, false},       {"data", Data::kSamples, true},
                                                     {"tensor", Data::kWhole, false},   {"zero", Data::kSamples, false},
                                                     {"hybrid", Data::kSamples, false}, {"spatial", Data::kImages, true}};
  return kStrategies;
}

std::function<bool(ValueId, const plans::Holding&)> holdings_of(const std::string& strategy, const PlannedGraph& planned) {
  const auto is_in = [](const std::vector<ValueId>& list, ValueId v) {
    return std::find(list.begin(), list.end(), v) != list.end();
  };
  const auto known = std::ranges::find(strategies(), strategy, &PlanStrategy::name);
  return [&planned, is_in, how = known == strategies().end() ? PlanStrategy() : *known](ValueId v, const plans::Holding& h) {
    const bool is_whole = h.kind == plans::Holding::Kind::kWhole;
    const bool is_parameter = is_in(planned.parameters, v), is_data = is_in(planned.data, v);
    const TensorType& type = planned.graph.value(v).type;
    if (is_parameter && how.whole_parameters) return is_whole;
    if (!is_data || type.rank() == 0) return true;
    switch (how.data) {
      case PlanStrategy::Data::kSamples:
        return !is_whole && h.axis == 0;
      case PlanStrategy::Data::kWhole:
        return is_whole;
      case PlanStrategy::Data::kImages:
        return type.rank() < 4 ? is_whole : !is_whole && h.axis >= 2;
      case PlanStrategy::Data::kAny:
        break;
    }
    return true;
  };
}

training::TrainingGraphOptions planned_training(const std::string& loss, const std::string& update) {
  training::TrainingGraphOptions options;
  options.loss = training::loss_from_name(loss);
  options.update.method = training::update_method_from_name(update);
  options.guarded = false;
  options.rows_by_sample = true;
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
                "the plan is for " + std::to_string(plan.all_processes()) + " processes, and " +
                    std::to_string(processes.size()) + (processes.size() == 1 ? " was started" : " were started"),
                file, "mpirun -n " + std::to_string(plan.all_processes()) + " starts as many");
  if (!purpose.empty() && plan.purpose != purpose)
    throw Error(ErrorCode::kBadInput, "the plan is for " + plan.purpose + ", not for " + purpose, file,
                "plan --for " + purpose + " makes such a plan");
  return plan;
}

void require_proved(const Plan& plan, const PlannedGraph& planned, Communicator& processes, const std::string& file) {
  in_first_process(processes, file, [&] {
    const PlanCheck check = check_plan(plan, planned.graph, planned.replaced);
    if (!check.proved && !check.only_stale)
      throw Error(ErrorCode::kBadInput, "the plan is not proved, and is not executed: " + check.reason);
  });
}

PlannedGraph planned_group(const PlannedGraph& planned, const plans::GroupGraph& group) {
  PlannedGraph result;
  result.graph = group.graph, result.replaced = group.replaced;
  const auto is_in = [](const std::vector<ValueId>& list, ValueId v) {
    return std::find(list.begin(), list.end(), v) != list.end();
  };
  const auto whole = planned.graph.inputs(), mine = result.graph.inputs();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (is_in(planned.data, whole[i])) result.data.push_back(mine[i]);
    if (is_in(planned.parameters, whole[i])) result.parameters.push_back(mine[i]);
  }
  const bool has_constants = std::any_of(planned.parameters.begin(), planned.parameters.end(),
                                         [&](ValueId v) { return planned.graph.is_constant(v); });
  for (ValueId v = 0; has_constants && v < result.graph.value_count(); ++v)
    if (result.graph.is_constant(v)) result.parameters.push_back(v);
  return result;
}

}  // namespace rewright::runtime
