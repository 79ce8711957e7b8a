// Inputs that may have missing numbers (NaN), as the rows that an imputer fills.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace rewright::optimizer {

// By value: does the model ask of its elements whether they are NaN, directly or after moves, conversions and choices? A model
// that asks this of what it computed (a softmax of masked rows) says nothing about its inputs.
std::vector<bool> tested_for_missing(const Graph& graph);

}  // namespace rewright::optimizer
