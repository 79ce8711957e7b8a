// Rewrites of a graph before planning, which prepare it for kernels. Results keep their types, and their values up to rounding.
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

// In execution order.
std::span<const Pass> passes();

// The graph without nodes that only hand on a constant, such as an Identity or a Reshape of a weight: their results are
// constants in the same memory. Sizes may be open. For a graph that is planned many times; a plan would find these constants as
// well.
Graph with_constants_handed_on(Graph graph);

// The graph after all passes.
Graph run_passes(Graph graph, const PlanOptions& options);

}  // namespace rewright::cpu
