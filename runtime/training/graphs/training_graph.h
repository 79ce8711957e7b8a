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
  double clip_norm = 0;                  // norm of all gradients together; 0: no clipping
  double batch_norm_momentum = 0.9;      // running = momentum * running + (1 - momentum) * batch
  std::vector<std::string> frozen = {};  // names of constants that are not trained
  std::uint64_t seed = 0;                // for dropout
  // float, or the type of products (runtime/training/graphs/mixed_precision.h). With float16, gradients are computed from the
  // loss times the scale, and divided by it.
  DataType precision = DataType::kFloat;
  // The type in which float parameters, their gradients and states are stored: float or a 16-bit type. Updates are computed in
  // float and rounded once, stochastically if `stochastic`, so that steps smaller than half the spacing of numbers are not
  // lost.
  DataType weights = DataType::kFloat;
  bool stochastic = false;
  // Do updates in a step's graph wait until everything is known to be finite? Then they may be computed in place, but all
  // gradients live until the end. Otherwise each update follows its gradient, and the old values stay until the caller accepts
  // the new ones: this needs less memory where intermediate values dominate.
  bool guarded = true;
  // Products of whole sequences have their rows by sample (row_order.h), so that plans can cut them by samples.
  bool rows_by_sample = false;
  // The number of shards over which batch normalizations of `gradients` compute joint statistics.
  std::int64_t shared_by = 1;
};

// The tensor converted to another real type; the tensor itself if it has that type.
Tensor converted(const Tensor& tensor, DataType type);

// A tensor that training changes.
struct TrainedTensor {
  ValueId in_model;  // the model's constant with the initial value
  std::string name;
  DataType type;  // the type it is stored in
};

// The model's sizes must be known (with_sizes). Inputs and outputs of the graphs are in the order listed here.
struct TrainingGraphs {
  std::vector<TrainedTensor> parameters;
  std::vector<TrainedTensor> statistics;  // running means and variances of batch normalizations
  std::vector<std::string> states;        // of each parameter, see states_of

  // inputs: the model's, targets, step, part, scale, parameters, statistics, sums; outputs: loss, gradients of the parameters,
  // new statistics, shares of the sums (shared_statistics.h). Random elements depend on the number of the step (from 1) and of
  // the part of the batch; these and the scale are float scalars.
  Graph gradients;
  std::size_t sums = 0;  // over the shards of a batch, in `gradients`
  // inputs: rate and step (float scalars), parameters, gradients (already clipped), states (all of the first kind, then of the
  // second); outputs: parameters, states.
  Graph update;
  // Both as one graph, for a batch of one shard. inputs: the model's, targets, step, part, scale, rate, parameters, statistics,
  // states; outputs: loss, parameters, statistics, states, and whether loss, gradients and statistics were finite. If not, a
  // guarded step changes nothing else.
  Graph step;
};

// Every real constant that reaches the loss through differentiable operators is a parameter, unless it is a scalar or frozen.
// Batch normalizations use the statistics of the batch, and Dropout with the model's training mode drops elements. `output`
// names the model's predictions (empty: its first output). Throws Error(kUnsupported) with the node where a gradient is
// missing.
TrainingGraphs make_training_graphs(const Graph& model, const std::string& output, const TrainingGraphOptions& options);

// The end of a step of several shards. inputs: rate, step, parameters, statistics, states, and the outputs of `gradients`
// summed over the shards; outputs: those of a guarded `step`.
Graph make_update_from_sums(const TrainingGraphs& graphs, const TrainingGraphOptions& options, std::int64_t shards);

// A graph of gradients that accumulates: its additional inputs are a truth value (is this the first shard?), and for each
// output the sum so far, which is ignored for the first shard.
Graph make_accumulating(const Graph& gradients);

// The numbers of the graph's outputs in the order in which their nodes compute them; outputs without a node come first.
std::vector<std::size_t> outputs_as_computed(const Graph& graph);

// The update of TrainingGraphs, for parameters of these types or parts of them. Throws Error(kUsage).
struct UpdatedPart {
  std::string name;
  TensorType type;
  std::int64_t parameter = 0, first = 0;  // the parameter's number, and the part's first element: they determine random bits
};
Graph make_update_graph(const std::vector<UpdatedPart>& parts, const TrainingGraphOptions& options);

}  // namespace rewright::training
