// From a model to the graphs of a training step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/training/graphs/loss.h"
#include "runtime/training/graphs/update.h"

namespace rewright::training {

struct TrainingGraphOptions {
  Loss loss = Loss::kSoftmaxCrossEntropy;
  Update update = {};
  double clip_norm = 0;                  // of all gradients together; 0: they are not clipped
  double batch_norm_momentum = 0.9;      // running = momentum * running + (1 - momentum) * of this batch
  std::vector<std::string> frozen = {};  // constants that are not trained, by name
  std::uint64_t seed = 0;                // of what is dropped
  // float, or what products compute in (runtime/training/graphs/mixed_precision.h). With float16 gradients are computed of the
  // loss times the scale, and divided by it.
  DataType precision = DataType::kFloat;
  // What parameters of type float, and their gradients and states, are kept as: float, or a type of 16 bits. Updates are
  // computed in float, and what they change is rounded to its type once, at random if `stochastic`: steps that are smaller than
  // half the distance of two numbers are not lost then.
  DataType weights = DataType::kFloat;
  bool stochastic = false;
  // Do updates in the graph of a step wait until all is known to be finite? Then they may be computed in the memory of what
  // they replace, but all gradients live until the end. If not, each stands behind its gradient, and what it replaces stays
  // until the caller takes the new: less memory where values of the step are what counts.
  bool guarded = true;
  // The batch normalizations of `gradients` use the statistics of this many shards of a batch together, and of all examples.
  std::int64_t shared_by = 1;
};

// These elements, rounded to another real type; the tensor itself where it has that.
Tensor converted(const Tensor& tensor, DataType type);

// A tensor that training changes.
struct TrainedTensor {
  ValueId in_model;  // the constant of the model that it starts as
  std::string name;
  DataType type;  // that it is kept as
};

// The model's sizes must be known (with_sizes). Inputs and outputs of the graphs come in the order of these lists.
struct TrainingGraphs {
  std::vector<TrainedTensor> parameters;
  std::vector<TrainedTensor> statistics;  // running means and variances of batch normalizations
  std::vector<std::string> states;        // of each parameter, see states_of

  // inputs: the model's, targets, step, part, scale, parameters, statistics, sums; outputs: loss, gradients of the parameters,
  // new statistics, shares of the sums (shared_statistics.h). Random elements depend on the number of the step, from 1, and on
  // that of the part of the batch; these and the scale are float scalars.
  Graph gradients;
  std::size_t sums = 0;  // over the shards of a batch, in the graph of gradients
  // inputs: rate and step (float scalars), parameters, gradients (clipped by now), states (all of the first kind, then of the
  // second); outputs: parameters, states.
  Graph update;
  // Both as one, for a batch of one shard. inputs: the model's, targets, step, part, scale, rate, parameters, statistics,
  // states; outputs: loss, parameters, statistics, states, and whether loss, gradients and statistics were finite. If not,
  // nothing else has changed (if it is guarded).
  Graph step;
};

// Every real constant that reaches the loss through operators with a gradient is a parameter, unless it is a scalar or frozen;
// batch normalizations use the statistics of the batch, and Dropout that the model has in training mode drops. `output` names
// the model's predictions (empty: its first output). Throws Error(kUnsupported) that names the node where a gradient is
// missing.
TrainingGraphs make_training_graphs(const Graph& model, const std::string& output, const TrainingGraphOptions& options);

// The end of a step of several shards. inputs: rate, step, parameters, statistics, states, and the sums over the shards of what
// `gradients` gives; outputs: those of `step`, guarded.
Graph make_update_from_sums(const TrainingGraphs& graphs, const TrainingGraphOptions& options, std::int64_t shards);

// A graph of gradients that adds what it gives to what it is given: behind its own inputs stand a truth value (is this the
// first shard?) and for each output the sum so far, which counts if not.
Graph make_accumulating(const Graph& gradients);

// The numbers of the graph's outputs in the order in which their nodes compute them; outputs without a node come first.
std::vector<std::size_t> outputs_as_computed(const Graph& graph);

// The update of TrainingGraphs for parameters of these types, or parts of parameters. Throws Error(kUsage).
struct UpdatedPart {
  std::string name;
  TensorType type;
  std::int64_t parameter = 0, first = 0;  // its number, and the first of its elements: where random bits come from
};
Graph make_update_graph(const std::vector<UpdatedPart>& parts, const TrainingGraphOptions& options);

}  // namespace rewright::training
