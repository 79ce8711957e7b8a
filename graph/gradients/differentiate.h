// Reverse-mode differentiation of graphs, by the gradients of operators (operators/gradient.h).
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// A value and the gradient of the objective in it, of the same type.
struct Seed {
  ValueId value, gradient;
};

// Adds to the graph what computes the gradients in the values of `wanted` (inputs, constants or inner values), from those of
// the seeds; returns one value for each, kNoValue where the gradient is zero whatever the inputs are. Sizes must be known where
// a gradient computes with them. The added nodes are ordinary ones and can be differentiated again. Throws Error(kUnsupported)
// that names the node and says why, where a gradient passes through what has none.
std::vector<ValueId> differentiate(Graph& graph, std::span<const Seed> seeds, std::span<const ValueId> wanted);

// The gradients of the sum of y's elements in the first `count` of these variables, which y is computed from, at other values
// of them all, of the same types: where these are not the variables themselves, what lies between is computed again. One value
// for each, zeros where y does not depend on it. Throws as differentiate does.
std::vector<ValueId> gradients_at(Graph& graph, ValueId y, std::span<const ValueId> variables, std::span<const ValueId> at,
                                  std::size_t count);

}  // namespace rewright::graph
