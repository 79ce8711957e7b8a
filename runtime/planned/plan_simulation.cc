#include "runtime/planned/plan_simulation.h"

#include "plans/groups/step.h"
#include "plans/partition/moved_shares.h"
#include "runtime/planned/pipeline_planner.h"
#include "runtime/planned/plan_choices.h"

namespace rewright::runtime {

namespace {

using plans::GroupGraph, plans::Partition, plans::PartitionOptions, plans::Plan, plans::PlanPrediction, plans::Simulation;

}  // namespace

void simulate_partition(Simulation& simulation, const Graph& graph, const Partition& partition, const PartitionOptions& options,
                        const GroupGraph* group, std::size_t groups, const distribution::PairLimits& pairs_between) {
  if (group)
    simulate_step(simulation, graph, partition, options, {groups, group->exchanges, pairs_between});
  else
    simulate_step(simulation, graph, partition, options);
  simulation.run();
}

PlanPrediction prediction_of(Simulation& simulation) {
  PlanPrediction result;
  result.seconds = simulation.seconds();
  const auto peaks = simulation.peak_bytes();
  result.peak_bytes.assign(peaks.begin(), peaks.end());
  const plans::StepTotals totals = plans::totals(simulation);
  result.bytes_sent = totals.sent_bytes;
  result.computing_seconds = totals.computing_seconds, result.exchanging_seconds = totals.exchanging_seconds;
  return result;
}

void simulate_plan(Simulation& simulation, const Plan& plan, const PlannedGraph& planned) {
  if (plan.pipeline) return simulate_pipeline_plan(simulation, plan, planned);
  PartitionOptions options;
  if (!plan.within) {
    options.processes = plan.processes, options.replaced = planned.replaced, options.pairs = pair_limits(plan);
    const Partition whole = with_seconds(partition_of(plan, planned.graph), planned.graph, plan.processes,
                                         device_seconds(simulation.machine(), is_step(planned)));
    return simulate_partition(simulation, planned.graph, whole, options, nullptr, 1, {});
  }
  const GroupGraph group = group_of(plan, planned.graph, planned.replaced, 0);
  options.processes = plan.within->processes, options.replaced = group.replaced, options.pairs = pair_limits(*plan.within);
  const Partition inner = with_seconds(partition_within(*plan.within, group), group.graph, options.processes,
                                       device_seconds(simulation.machine(), is_step(planned)));
  simulate_partition(simulation, group.graph, inner, options, &group, static_cast<std::size_t>(plan.processes),
                     pair_limits(plan));
}

}  // namespace rewright::runtime
