// From a model to the graphs of a training step.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/training/loss.h"
#include "runtime/training/update.h"

namespace rewright {

struct TrainingOptions {
  Loss loss = Loss::kSoftmaxCrossEntropy;
  Update update = {};
  double clip_norm = 0;                  // of all gradients together; 0: they are not clipped
  double batch_norm_momentum = 0.9;      // running = momentum * running + (1 - momentum) * of this batch
  std::vector<std::string> frozen = {};  // constants that are not trained, by name
};

// A tensor that training changes.
struct TrainedTensor {
  ValueId in_model;  // the constant of the model that it starts as
  std::string name;
};

// The model's sizes must be known (with_sizes). Inputs and outputs of the graphs come in the order of these lists.
struct TrainingGraphs {
  std::vector<TrainedTensor> parameters;
  std::vector<TrainedTensor> statistics;  // running means and variances of batch normalizations
  std::vector<std::string> states;        // of each parameter, see states_of

  // inputs: the model's, targets, parameters, statistics; outputs: loss, gradients of the parameters, new statistics.
  Graph gradients;
  // inputs: rate and step (float scalars), parameters, gradients, states (all of the first kind, then of the second); outputs:
  // parameters, states.
  Graph update;
  // Both as one. inputs: the model's, targets, rate, step, parameters, statistics, states; outputs: loss, parameters,
  // statistics, states.
  Graph step;
};

// Every real constant that reaches the loss through operators with a gradient is a parameter, unless it is a scalar or frozen;
// batch normalizations use the statistics of the batch. `output` names the model's predictions (empty: its first output).
// Throws Error(kUnsupported) that names the node where a gradient is missing.
TrainingGraphs make_training_graphs(const Graph& model, const std::string& output, const TrainingOptions& options);

}  // namespace rewright
