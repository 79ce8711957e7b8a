// Checkpoints of a run, and the facts that must agree between a run and its checkpoint, or between a run's processes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "distribution/communicator.h"
#include "graph/graph.h"
#include "runtime/session.h"
#include "runtime/training/graphs/mixed_precision.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/memory/checkpoint.h"
#include "runtime/training/steps/train_options.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::training {

// The progress of a run.
struct Progress {
  std::int64_t step = 0;  // steps done
  LossScale scale;        // with float16 products
};

using RunFacts = std::map<std::string, std::string>;
// The facts that must agree between a run and the checkpoint it resumes from. `examples`: the number of examples.
RunFacts run_facts(const TrainOptions& options, const TrainingGraphs& graphs, std::int64_t examples);
// Throws Error(kUsage) in all processes if their facts, models or options differ. All processes call it.
void require_same_start(const TrainOptions& options, const RunFacts& facts, const Graph& model, const Backend& backend,
                        Communicator& processes);

TrainingCheckpoint make_checkpoint(RunFacts facts, const Progress& progress, const TrainingGraphs& graphs,
                                   TrainedTensors tensors);
// Reads a checkpoint's progress; a missing scale is taken from `now`. Throws Error(kBadInput) if the facts differ, or the step
// is missing.
Progress read_progress(const TrainingCheckpoint& checkpoint, const RunFacts& facts, const Progress& now);
// Restores tensors from a checkpoint. Throws Error(kBadInput) if one is missing, or has another type or sizes.
void restore_tensors(const TrainingCheckpoint& checkpoint, const TrainingGraphs& graphs, TrainedTensors& tensors);

}  // namespace rewright::training
