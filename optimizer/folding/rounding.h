// Finds reals that decide something. A real that becomes an integer, a truth value or a position, or is rounded to a whole
// number, must have exactly the value it has in execution, since its last bit may change everything that follows.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace rewright::optimizer {

// For each value: is it a real whose last bit may decide an integer, a truth value or a position, in its reader or a later
// operator? Derived from denotations; operators without one decide by all of their operands. Dependence ends at a sum that
// depends on the graph's inputs, because a kernel's order of addition has the same effect there.
std::vector<bool> deciding_values(const Graph& graph);

class Evaluator;

// The outputs of a graph without inputs. Values that are `deciding`, and integers or truth values of operators that read reals,
// are computed operator by operator (Evaluator::evaluate, not in double); then `rest` computes the remaining outputs, with
// those as constants.
using EvaluateRest = std::function<std::vector<Tensor>(const Graph&)>;
std::vector<Tensor> evaluate_with_decisions(const Graph& constants, const std::vector<bool>& deciding, Evaluator& evaluator,
                                            const EvaluateRest& rest);

// Does any integer or truth value in the graph depend on reals?
bool decides_by_reals(const Graph& graph);

}  // namespace rewright::optimizer
