#include "runtime/cuda/planning/plan.h"

#include <utility>

#include "runtime/cuda/planning/planner.h"

namespace rewright::cuda {

Plan Planner::make() {
  bind_inputs();
  for (const Group& group : make_groups(facts_)) plan_group(group);
  bind_outputs();
  Plan& plan = builder_.plan;
  plan.steps = std::move(main_.steps());
  list_values();
  compute_in_places(plan, options_.places);
  order_steps(plan, options_.most_streams);
  return std::move(plan);
}

void Planner::bind_inputs() {
  Plan& plan = builder_.plan;
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    const ValueId value = graph_.inputs()[i];
    const ValueInfo& info = facts_.info(value);
    const int place = options_.places.inputs.empty() ? -1 : options_.places.inputs.at(i);
    Buffer b;
    b.kind = place >= 0 ? Buffer::Kind::kResident : Buffer::Kind::kInput;
    b.number = place >= 0 ? place : static_cast<int>(i);
    b.bytes = builder_.byte_count(value);
    plan.input_places.push_back(place);
    plan.input_types.push_back({info.type, to_indices(info.sizes)});
    main_.place({value, kRows}, builder_.add_buffer(std::move(b)));
  }
}

void Planner::bind_outputs() {
  for (const GraphOutput& output : graph_.outputs()) {
    builder_.plan.outputs.push_back(main_.required_buffer(output.value, kRows));
    const ValueInfo& info = facts_.info(output.value);
    builder_.plan.output_types.push_back({info.type, to_indices(info.sizes)});
  }
}

// Values with two layouts in one buffer are listed once.
void Planner::list_values() {
  std::vector<PlannedValue>& listed = builder_.plan.values;
  for (const auto& [placed, buffer] : main_.places()) {
    if (placed.value >= graph_.value_count() || facts_.constant(placed.value)) continue;
    const bool is_listed = !listed.empty() && listed.back().value == placed.value && listed.back().buffer == buffer;
    if (!is_listed) listed.push_back({placed.value, buffer, placed.layout == kChannelsLast});
  }
}

Step Planner::described(const std::vector<int>& nodes, ValueId result) const {
  planning::Description description = planning::describe(graph_, nodes);
  Step step;
  step.nodes = nodes;
  step.node = std::move(description.node);
  step.operators = std::move(description.operators);
  step.flops = description.flops;
  if (step.node.empty() && result < graph_.value_count()) step.node = graph_.value(result).name;
  return step;
}

Plan make_plan(const Graph& graph, const PlanOptions& options) { return Planner(graph, options).make(); }

}  // namespace rewright::cuda
