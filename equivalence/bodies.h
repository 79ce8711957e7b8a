// The graphs inside of two nodes of If, Loop or Scan as two models of their own.
#pragma once

#include <optional>

#include "equivalence/checker/joint.h"
#include "graph/graph.h"

namespace rewright::equivalence {

// The node in the model that it comes from: the joint table has it with other numbers of values. Throws Error(kUnsupported) if
// it is not there.
const Node& own_node(const Graph& graph, const Node& node);

// Pairs the names of the inputs and outputs of x and y, bodies of nodes of the models a and b: the first `formal` inputs and
// the outputs by position, captured values by what they are equal to. nullopt if they do not pair.
std::optional<NameMap> names_in_bodies(const Joint& joint, const Graph& a, const Graph& b, const Graph& x, const Graph& y,
                                       std::size_t formal);

}  // namespace rewright::equivalence
