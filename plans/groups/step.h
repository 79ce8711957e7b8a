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

// Puts one block for each node into the simulation: the node on all devices, each for the time of its choice. Exchanges stand
// between them, in blocks of their own. Buffers are what each device holds of each value, from its making to its last reader.
// Device d is process d; there are as many as the machine has. The order is that in which plans are executed
// (execution_order.h), and exchanges of all kinds run beside computing, one after another (runtime/planned/planned_run.h).
//
// The groups of a plan of two levels: a group's graph and its partition. Process p of group g is device g * P + p.
struct StepGroups {
  std::size_t count = 1;
  std::map<std::size_t, BetweenGroups> exchanges = {};  // GroupGraph
  distribution::PairLimits pairs = {};                  // of exchanges between them
};
// The block of the node that is computed at this place in the order, from 0.
std::uint32_t block_of(std::size_t place);
using StepBlocks = std::map<std::uint32_t, Block>;
StepBlocks step_blocks(const Machine& machine, const Graph& graph, const Partition& partition, const PartitionOptions& options,
                       const StepGroups& groups = {});
// Sets the blocks in which two steps differ.
void replace_blocks(Simulation& simulation, const StepBlocks& before, const StepBlocks& after);
void simulate_step(Simulation& simulation, const Graph& graph, const Partition& partition, const PartitionOptions& options,
                   const StepGroups& groups = {});

}  // namespace rewright::plans
