// Releases memory that a graph holds for the model it was read from.
#pragma once

#include <span>

#include "graph/graph.h"

namespace rewright::graph {

// Drops a constant's elements; the value keeps its name and type.
void forget_constant(Graph& graph, ValueId id);

// Drops the elements of these constants in the graph and in its model; set_constant must give them others before the graph is
// used again. Also releases the pages of the model's file, which are mapped again when they are read.
void release_constants(Graph& graph, std::span<const ValueId> constants);

}  // namespace rewright::graph
