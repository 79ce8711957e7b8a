// Giving memory back that a graph holds for the sake of the model it was read from.
#pragma once

#include <span>

#include "graph/graph.h"

namespace rewright::graph {

// The value stays, with its name and type, but holds no elements any more.
void forget_constant(Graph& graph, ValueId id);

// Forgets these, in the graph and in its model: they are given others by set_constant before the graph is used again. Pages of
// the model's file that were read are given back; what is still needed of them is read again.
void release_constants(Graph& graph, std::span<const ValueId> constants);

}  // namespace rewright::graph
