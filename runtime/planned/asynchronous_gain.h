// When asynchronous training could take more steps than a plan.
#pragma once

#include <optional>

#include "plans/machines/machine.h"
#include "runtime/planned/planned_graph.h"

namespace rewright::runtime {

// The ratio of steps that workers and parameter servers take in the same time, at most. Stale gradients may need more.
struct AsynchronousGain {
  double even = 0;       // all processes are equally fast
  double straggler = 0;  // one is half as fast
};

// For a step in which each process computes for `computing` seconds, of `seconds` in all. Steps of a plan wait for the slowest
// process, which takes (slowness - 1) computing longer. A worker computes as much and sends a gradient and reads weights in
// `exchanging` seconds beside that; it waits for nobody.
double asynchronous_gain(double seconds, double computing, double exchanging, std::size_t processes, double slowness);

// For a plan of training with a prediction. Servers are taken to be on all nodes, each with as much of the weights, and to cost
// no time but that of messages over the links of a node, or of the cluster if there are several nodes. None for a single
// process, and where weights and gradients do not fit into a worker.
std::optional<AsynchronousGain> asynchronous_gain(const plans::Plan& plan, const PlannedGraph& planned,
                                                  const plans::Machine& machine);

}  // namespace rewright::runtime
