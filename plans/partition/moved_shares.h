// The share of a node's bytes that passes through memory. A value that is read by a single node, element by element, is
// used where it is computed: executors fuse the two (docs/cpu.md, docs/gpu.md), so that it is neither written nor read. What
// such a kernel writes counts for one of its nodes, the first product (or another that computes more than elements), or else
// the first one.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace rewright::plans {

// By node: the share of the bytes of its operands and results, 0 to 1. Sizes are known.
std::vector<double> moved_shares(const Graph& graph);

}  // namespace rewright::plans
