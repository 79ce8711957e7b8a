// Support vectors of ai.onnx.ml, as graphs of operators.
#pragma once

#include <optional>

#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

// The squares of the distances of each row of a from each row of b, [rows of a, rows of b].
ValueId squared_distances(GraphBuilder& graph, ValueId a, ValueId b);

// kernel(x, v) for each row of x and each row v of `vectors`, by the attributes kernel_type and kernel_params. Throws
// Error(kBadInput) for an unknown kernel.
ValueId kernel_values(GraphBuilder& graph, const OnnxAttributes& attributes, ValueId x, ValueId vectors);

// A classifier compares each class with each other one: the score of each pair [rows, pairs], and how often each class has won
// [rows, classes].
struct PairScores {
  ValueId scores, votes;
};
// For x of [rows, columns]. nullopt if the lists in its attributes do not fit one another or x, for `classes` classes.
std::optional<PairScores> pair_scores(GraphBuilder& graph, const OnnxAttributes& attributes, ValueId x, std::size_t classes);

}  // namespace rewright::operators
