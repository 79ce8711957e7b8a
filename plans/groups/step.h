// A partition as the tasks of a simulated step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "graph/graph.h"
#include "plans/groups/group_graph.h"
#include "plans/partition/partition.h"
#include "plans/simulation/simulation.h"

namespace rewright::plans {

// Puts one block for each node into the simulation: the node on all devices, each for the time of its choice; exchanges of its
// results stand behind it, so that they run beside what comes next, and exchanges of given values before their first reader.
// Buffers are what each device holds of each value, from its making to its last reader. Device d is process d; there are as
// many as the machine has. What executes plans does as this supposes (runtime/planned/planned_run.h): exchanges of all kinds
// run beside computing, one after another.
//
// The groups of a plan of two levels: a group's graph and its partition. Process p of group g is device g * P + p.
struct StepGroups {
  std::size_t count = 1;
  std::map<std::size_t, BetweenGroups> exchanges = {};  // GroupGraph
};
using StepBlocks = std::map<std::uint32_t, Block>;
StepBlocks step_blocks(const Machine& machine, const Graph& graph, const Partition& partition, const PartitionOptions& options,
                       const StepGroups& groups = {});
// Sets the blocks in which two steps differ.
void replace_blocks(Simulation& simulation, const StepBlocks& before, const StepBlocks& after);
void simulate_step(Simulation& simulation, const Graph& graph, const Partition& partition, const PartitionOptions& options,
                   const StepGroups& groups = {});

}  // namespace rewright::plans
