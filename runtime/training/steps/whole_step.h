// A step in which one process computes gradients and update as a single graph.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "runtime/session.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::training {

// Prepares a session for the graph that may compute these outputs in the memory of the inputs they replace.
using PrepareWhole = std::function<std::unique_ptr<Session>(const Graph& graph, std::vector<Replacement> replacements)>;

// `start` is moved in, so that its parameters and statistics are not shared: if the graph is `guarded` (TrainingGraphOptions),
// steps overwrite them.
std::unique_ptr<TrainingStep> make_whole_step(const TrainingGraphs& graphs, bool guarded, const PrepareWhole& prepare,
                                              TrainedTensors start);

}  // namespace rewright::training
