// A training step that several processes take as a pipeline: each keeps the weights and states of its stages.
#pragma once

#include <memory>

#include "distribution/communicator.h"
#include "plans/execution/pipeline_program.h"
#include "runtime/session.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::runtime {

// As make_planned_step (planned_step.h), of a plan that was checked.
std::unique_ptr<training::TrainingStep> make_pipeline_step(plans::PipelineProgram program, training::TrainedTensors start,
                                                           distribution::Communicator& processes, const Backend& backend,
                                                           const SessionOptions& options);

}  // namespace rewright::runtime
