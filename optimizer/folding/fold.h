// Constant folding: evaluates once what is computed from constants.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "optimizer/devices/device.h"

namespace rewright::optimizer {

struct FoldOptions {
  // Results are dropped if they are larger than both this many bytes and this many times their operands' bytes. Otherwise a
  // small model could become a large file.
  std::size_t max_bytes = std::size_t{1} << 20;
  double max_growth = 1.1;
};

// The values that folding would turn into constants: those computed from constants (or integers with known elements) that
// something else uses.
std::vector<ValueId> foldable(const Graph& graph, const FoldOptions& options);

// Evaluates these values and turns them into constants: in double with one rounding at the end. Values that decide an integer,
// a truth value or a position anywhere in the graph (optimizer/folding/rounding.h) are rounded after every operator, as in
// execution. Throws Error if one is not computed from constants.
Graph fold(const Graph& graph, std::span<const ValueId> values, Evaluator& evaluator);

// Uses the reference interpreter: slow, but always available.
std::unique_ptr<Evaluator> make_reference_evaluator();

}  // namespace rewright::optimizer
