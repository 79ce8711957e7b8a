// Rewrites of a graph before it is planned: for kernels, not for speed by themselves. Results keep their types, and their bits
// up to rounding.
#pragma once

#include <span>
#include <string_view>

#include "graph/graph.h"
#include "runtime/cpu/planning/plan.h"

namespace rewright::cpu {

struct Pass {
  std::string_view name;
  Graph (*run)(Graph graph, const PlanOptions& options);
};

// In the order in which they run.
std::span<const Pass> passes();

// The graph after all passes.
Graph run_passes(Graph graph, const PlanOptions& options);

}  // namespace rewright::cpu
