// The operators of graphs as processes compute them: a kernel's rate on a part is not always that on the whole (windows of a
// narrow image, products of few columns), so parts are measured as well.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "plans/machines/machine.h"

namespace rewright::runtime {

// A graph for each way to divide a node among so many processes (its cuts as they are read off the denotation): the part of a
// process in the middle, in plans of one level. Nodes that take next to nothing of their graph, on the machine, are left out.
// Sizes are known.
std::vector<Graph> operator_parts(const plans::Machine& machine, std::span<const Graph> graphs, std::size_t processes);

}  // namespace rewright::runtime
