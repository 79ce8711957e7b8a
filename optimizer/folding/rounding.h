// Which reals decide something: a real that becomes an integer, a truth value or a position, or that is rounded to a whole
// number, must be exactly what executing the model gives, since the last bit of it may change everything that follows.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace rewright::optimizer {

// For each value of the graph: is it a real whose last bit may decide an integer, a truth value or a position, in the operator
// that reads it or in one further on? Read off the denotations. Operators without one decide by all that they read. A bit is
// not followed through a sum that depends on the graph's inputs: there the order in which a kernel adds changes as much.
std::vector<bool> deciding_values(const Graph& graph);

class Evaluator;

// The outputs of a graph without inputs. Values that are `deciding`, and what is an integer or a truth value because of a real,
// are computed operator by operator (Evaluator::evaluate, not in double); then `rest` computes the outputs that are left of a
// graph in which those are constants.
using EvaluateRest = std::function<std::vector<Tensor>(const Graph&)>;
std::vector<Tensor> evaluate_with_decisions(const Graph& constants, const std::vector<bool>& deciding, Evaluator& evaluator,
                                            const EvaluateRest& rest);

// Is an integer or a truth value computed from reals anywhere in the graph?
bool decides_by_reals(const Graph& graph);

}  // namespace rewright::optimizer
