// Constant folding: what is computed from constants alone is evaluated once.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "optimizer/devices/device.h"

namespace rewright::optimizer {

struct FoldOptions {
  // A result is kept unless it is larger than both: so many bytes, and so many times the bytes it is computed from. Otherwise
  // a small model may become a large file.
  std::size_t max_bytes = std::size_t{1} << 20;
  double max_growth = 1.1;
};

// The values that folding would make constants: those computed from constants (or integers whose elements are known) that
// something else uses.
std::vector<ValueId> foldable(const Graph& graph, const FoldOptions& options);

// Evaluates these values and makes them constants: in double with one rounding at the end, but for what decides an integer, a
// truth value or a position anywhere in the graph (optimizer/folding/rounding.h), which is rounded after every operator, as in
// execution. Throws Error if one is not computed from constants.
Graph fold(const Graph& graph, std::span<const ValueId> values, Evaluator& evaluator);

// Evaluates by the reference interpreter: slow, and always there.
std::unique_ptr<Evaluator> make_reference_evaluator();

}  // namespace rewright::optimizer
