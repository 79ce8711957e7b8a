// Checkpoints of a run, and what must agree between a run and its checkpoint, or between the processes of a run.
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

// How far a run has come.
struct Progress {
  std::int64_t step = 0;  // steps done
  LossScale scale;        // with float16 products
};

using RunFacts = std::map<std::string, std::string>;
// The facts in which a run and a checkpoint that it resumes must agree. `examples`: the size of the data.
RunFacts run_facts(const TrainOptions& options, const TrainingGraphs& graphs, std::int64_t examples);
// Throws Error(kUsage) in all processes if they were started with different facts, models or options. All processes call it.
void require_same_start(const TrainOptions& options, const RunFacts& facts, const Graph& model, const Backend& backend,
                        Communicator& processes);

TrainingCheckpoint make_checkpoint(RunFacts facts, const Progress& progress, const TrainingGraphs& graphs,
                                   TrainedTensors tensors);
// Reads the progress of a checkpoint; a scale that it lacks is `now`'s. Throws Error(kBadInput) if the checkpoint has other
// facts, or no step.
Progress read_progress(const TrainingCheckpoint& checkpoint, const RunFacts& facts, const Progress& now);
// Replaces tensors by those of a checkpoint. Throws Error(kBadInput) if one is missing, or has another type or other sizes.
void restore_tensors(const TrainingCheckpoint& checkpoint, const TrainingGraphs& graphs, TrainedTensors& tensors);

}  // namespace rewright::training
