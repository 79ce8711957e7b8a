// A plan: how the processes of a machine share the work of a graph. A file (JSON) that anyone can read, and that is proved of
// the model it is for before anybody executes it.
//
// It says of each node how it is cut, of each given value how it is held, and every exchange between processes; nothing is
// implied. What a plan computes follows from that: each node's cut is a rule that is proved (plans/cuts/cut.h), and every
// operand is held as the cut needs it, after the exchanges that are listed. Then each value, put together from what the
// processes hold, is that of the graph.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "plans/groups/group_graph.h"
#include "plans/partition/partition.h"
#include "plans/pipelines/stages.h"

namespace rewright::plans {

// A simulation's results; nothing depends on them.
struct PlanPrediction {
  double seconds = 0, lower_bound = 0;                                                // of a step
  std::vector<double> peak_bytes, bytes_sent, computing_seconds, exchanging_seconds;  // by process
  std::vector<double> node_seconds;                                                   // of what is cut last
  std::optional<double> bubble;  // of a pipeline: the share of a step in which a process does not compute, mean over them
  // Pipelines only, whose steps overlap: of a step that begins when the one before is done in all processes.
  std::optional<double> seconds_alone;

  double most_bytes() const;  // of the fullest process
  double all_sent() const;
};

struct Plan {
  std::string purpose = "inference";  // or "training"
  std::string loss, update;           // of training, by name
  std::optional<std::int64_t> batch;  // that the model's open sizes stand for
  std::int64_t processes = 1;
  std::string strategy;
  std::string graph_hash;                         // of the graph whose nodes are cut
  std::vector<std::optional<Cut>> cuts;           // by position; none: every process computes the node
  std::vector<Holding> given;                     // by value; of computed ones without meaning
  std::vector<PlannedExchange> exchanges;         // in the order in which their results are first needed
  std::optional<distribution::PairLimits> pairs;  // which of them go in pairs; none: as is usual for their number
  std::vector<std::size_t> sequence;              // see Partition; of one level, or within groups
  // The nodes that are computed again, in the graph that is cut last: this plan is for the graph with the copies, which `again`
  // names by position. Copies are in memory from before their readers on, so that the first results need not be.
  std::vector<Recomputation> recomputed;
  std::vector<bool> again;  // empty: none
  // In a plan of two levels `processes` counts groups, and this divides the work of each (plans/groups/group_graph.h).
  std::shared_ptr<const Plan> within;
  // In a pipeline `processes` counts micro-batches, and this divides the work of one among stages.
  std::shared_ptr<const Pipeline> pipeline;

  std::optional<PlanPrediction> predicted;

  std::int64_t all_processes() const {
    return pipeline ? static_cast<std::int64_t>(pipeline->schedule.processes.size())
                    : processes * (within ? within->processes : 1);
  }
};

// The plan's, or those that are usual for its processes.
distribution::PairLimits pair_limits(const Plan& plan);

Plan make_plan(const Graph& graph, const Partition& partition, const PartitionOptions& options);

// Numbers, names of operators and values; `graph` gives the names. `replaced` as in PartitionOptions.
std::string write_plan(const Plan& plan, const Graph& graph, const std::vector<std::pair<std::size_t, ValueId>>& replaced = {});
// Throws Error(kBadInput) with the place: no plan, numbers out of range, keys that are missing.
Plan read_plan(std::string_view text, const std::string& name);

// The graph of a group of a plan of two levels. Throws as partition_of() and group_graph() do.
GroupGraph group_of(const Plan& plan, const Graph& graph, const std::vector<std::pair<std::size_t, ValueId>>& replaced,
                    std::size_t group);

// The choices of nodes and the holdings of given values that the plan's cuts mean, without proving them. Throws
// Error(kBadInput) with the place where a cut does not fit its node, or if the plan is for another graph.
Partition partition_of(const Plan& plan, const Graph& graph);
// The partition of an inner plan, for any of the groups, whose graphs differ in their parts of constants alone.
Partition partition_within(const Plan& within, const GroupGraph& group);

struct PlanCheck {
  bool proved = false;
  std::string reason;  // where it is not: the node or the value, and what is wrong
  // All else is proved of a pipeline whose schedule reads stale weights: it does what the schedule says.
  bool only_stale = false;
  std::size_t rules = 0;  // that were proved
};
// That the plan computes what the graph computes. Throws Error(kBadInput) if it is for another graph.
PlanCheck check_plan(const Plan& plan, const Graph& graph, const std::vector<std::pair<std::size_t, ValueId>>& replaced);

}  // namespace rewright::plans
