// What one step of RNN, GRU and LSTM computes, said by operators: for the loop that executes them (recurrent.cc) and for the
// graph of all steps, which has gradients (recurrent_graph.cc).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

// An activation with its parameters, as far as they are given.
struct Activation {
  std::string name;
  std::optional<double> alpha, beta;
};

ValueId activated(GraphBuilder& graph, const Activation& f, ValueId x);

// One step of one direction, being described.
struct CellStep {
  GraphBuilder& graph;
  std::span<const Activation> activations;
  std::optional<double> clip;
  std::int64_t hidden;
  ValueId x;  // [batch, gates * hidden]: x W^T with the biases that only need to be added
  ValueId r;  // [gates * hidden, hidden]
  bool r_is_constant;
  std::vector<ValueId> states;  // [batch, hidden] each: h, and the cell
  ValueId state_bias;           // [gates * hidden], where it is not in x; kNoGradient: zero
  ValueId peepholes;            // [3 * hidden]; kNoGradient: zero
};
// Returns the next states.
using Cell = std::function<std::vector<ValueId>(const CellStep&)>;

// RNN, GRU or LSTM as a node says it: what one step is, and what there is of the operands.
struct RecurrentKind {
  std::int64_t gates;
  std::vector<std::size_t> initial_states;  // the numbers of their inputs
  bool splits_biases;                       // of the two biases, that of the state's product is given to the step
  std::vector<Activation> activations;      // of all directions
  std::size_t activations_per_direction;
  Cell cell;
};
// Throws Error(kBadInput) if activations are missing.
RecurrentKind recurrent_kind(const OnnxAttributes& node);

// All steps as one graph (operators/procedure.h): the length of the sequences must be known.
std::optional<std::vector<OnnxValue>> graph_of_recurrent(OnnxSource& source, std::string& reason);

}  // namespace rewright::operators
