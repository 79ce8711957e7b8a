// Why a step's loss or gradients are not finite.
#pragma once

#include <span>
#include <string>

#include "runtime/session.h"

namespace rewright::training {

// Executes the graph once more with everything it computes kept, and says what is the first that is not finite: an input ("x"),
// or the result of a node though all that it reads is. Empty if there is none. Nodes that training added are named by the node
// of the model that they follow.
std::string first_not_finite(const Graph& graph, std::span<const Tensor> inputs, const Backend& backend, int threads);

}  // namespace rewright::training
