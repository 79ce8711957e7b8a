// RNN, GRU and LSTM with constant weights, computed by packed products instead of a session for each step.
#pragma once

#include <memory>

#include "operators/procedure.h"
#include "runtime/session.h"

namespace rewright::cpu {

// Executes such a node of floats: with its usual activations, without peepholes, clipping or lengths of sequences, and with the
// steps in front. Null: it is another node. The graph need not outlive the result.
std::unique_ptr<Executable> prepare_recurrent(const Graph& graph, const Node& node, const SessionOptions& options);

}  // namespace rewright::cpu
