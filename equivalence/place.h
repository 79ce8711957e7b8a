// The first place where two models differ, and small graphs that show it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "equivalence/samples.h"

namespace rewright::equivalence {

// The name of the node that computes a value, or of the value itself, in its model.
std::string place_name(const Joint& joint, ValueId id);

struct DifferingPair {
  ValueId a = kNoValue, b = kNoValue;
};

// Walks back from an output that is not equal, over values without a counterpart that agrees in the samples, to the first of
// them in each model whose operands all have one.
DifferingPair first_difference(const Joint& joint, const Samples& samples, ValueId a, ValueId b);

// Two graphs of the same inputs that compute both values from operands that agree. Nodes are left out as long as both
// still differ on random inputs, by `differ`. nullopt if they do not differ by themselves.
using Differ = std::function<bool(const Graph& a, const Graph& b)>;
std::optional<std::pair<Graph, Graph>> smallest_difference(const Joint& joint, const Samples& samples,
                                                           const DifferingPair& pair, const Differ& differ);

}  // namespace rewright::equivalence
