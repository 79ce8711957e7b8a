// The model's trained constants: taken out of it when training starts, and put back with their new values.
#pragma once

#include "graph/graph.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::training {

// Moves the initial values of trained tensors out of the model and its graphs; as views of the model's file, unless they are
// to be `owned`. States are views of the same zeros.
TrainedTensors take_start(Graph& model, TrainingGraphs& graphs, bool owned);

// The model with these values; the model itself if they are not here.
Graph with_trained(const Graph& model, const TrainingGraphs& graphs, const TrainedTensors& tensors);

}  // namespace rewright::training
