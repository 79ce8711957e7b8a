// Finds out why a step failed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "distribution/communicator.h"
#include "runtime/session.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::training {

// Executes the graph again and returns the first value that is not finite: an input ("x"), or the result of a node whose inputs
// are all finite. Empty if there is none. A node that training added is described by the nearest node of the model in front of
// it.
std::string first_not_finite(const Graph& graph, std::span<const Tensor> inputs, const Backend& backend, int threads);

// The first value of a failed step that is not finite, in any shard of any process, as first_not_finite() describes it.
// `shards`: the inputs of this process's shards, as TrainingStep::advance was given them. All processes call it.
std::string diagnose(TrainingStep& step, const TrainingGraphs& graphs, const std::vector<std::vector<Tensor>>& shards,
                     const Backend& backend, int threads, Communicator& processes);

// Compares the copies of weights that processes hold, which they have computed from the same numbers. Throws Error(kMissing)
// with the name of the first that differs, if a processor or memory is faulty. `number`: of the step. All processes call it.
void compare_copies(const TrainingStep& step, const TrainingGraphs& graphs, std::int64_t number, Communicator& processes);

}  // namespace rewright::training
