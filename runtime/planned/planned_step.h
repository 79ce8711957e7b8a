// A training step that several processes take together as a plan says: forward, backward and update are one graph, and each
// process keeps its parts of the parameters and of the optimizer's states.
#pragma once

#include <memory>
#include <string>

#include "distribution/communicator.h"
#include "plans/plan.h"
#include "runtime/session.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::runtime {

// A step of the graph `graphs.step`, which is not guarded. Every process gives whole batches and whole tensors to start with,
// and keeps its parts. Throws Error(kBadInput) in all processes if the plan is of another graph or not proved; `file` is the
// plan's name in messages. `processes` must outlive the step.
std::unique_ptr<training::TrainingStep> make_planned_step(const plans::Plan& plan, const std::string& file,
                                                          const training::TrainingGraphs& graphs,
                                                          training::TrainedTensors start, distribution::Communicator& processes,
                                                          const Backend& backend, const SessionOptions& options);

}  // namespace rewright::runtime
