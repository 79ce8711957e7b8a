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

// Adds the nodes that compute the gradients in the values of `wanted` (inputs, constants or inner values) from the seeds.
// Returns one value for each, kNoValue where the gradient is always zero. Sizes that a gradient computes with must be known.
// The added nodes are ordinary ones and can be differentiated again. Throws Error(kUnsupported), with the node and the reason,
// if a gradient would pass through a node without one.
//
//   const ValueId one = NodeBuilder(graph).scalar(DataType::kFloat, 1);
//   const Seed seed{loss, one};                                          // loss: float[]
//   const std::vector<ValueId> gradients = differentiate(graph, {&seed, 1}, weights);
std::vector<ValueId> differentiate(Graph& graph, std::span<const Seed> seeds, std::span<const ValueId> wanted);

// The gradients of the sum of y's elements in the first `count` of `variables`, at the values `at`, one for each variable and
// of its type. If these are not the variables themselves, the nodes between the variables and y are added again. Returns one
// value for each of the `count` variables, zeros where y does not depend on it. Throws as differentiate does.
std::vector<ValueId> gradients_at(Graph& graph, ValueId y, std::span<const ValueId> variables, std::span<const ValueId> at,
                                  std::size_t count);

}  // namespace rewright::graph
