// Finds the cause of a failed step.
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

// Executes the graph again and returns the first value that is not finite: an input ("x"), or the result of a node with finite
// inputs. Empty if there is none. A node added by training is described by the nearest preceding node of the model.
std::string first_not_finite(const Graph& graph, std::span<const Tensor> inputs, const Backend& backend, int threads);

// The first value of a failed step that is not finite, in any shard of any process, as described by first_not_finite().
// `shards`: the inputs of this process's shards, as passed to TrainingStep::advance. All processes call it.
std::string diagnose(TrainingStep& step, const TrainingGraphs& graphs, const std::vector<std::vector<Tensor>>& shards,
                     const Backend& backend, int threads, Communicator& processes);

// Compares the processes' copies of weights, which were computed from the same numbers. If a processor or memory is faulty and
// one differs, throws Error(kMissing) with its name. `number`: the step. All processes call it.
void compare_copies(const TrainingStep& step, const TrainingGraphs& graphs, std::int64_t number, Communicator& processes);

}  // namespace rewright::training
