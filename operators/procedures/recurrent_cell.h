// One step of RNN, GRU and LSTM as a graph of operators: for the loop that executes it (recurrent.cc), and for the graph of all
// steps, which has gradients (recurrent_graph.cc).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

// An activation function; a parameter that is not given is nullopt.
struct Activation {
  std::string name;
  std::optional<double> alpha, beta;
};

ValueId activated(GraphBuilder& graph, const Activation& f, ValueId x);

// The operands of one step of one direction.
struct CellStep {
  GraphBuilder& graph;
  std::span<const Activation> activations;
  std::optional<double> clip;
  std::int64_t hidden;
  ValueId x;  // [batch, gates * hidden]: x W^T plus all biases but `state_bias`
  ValueId r;  // [gates * hidden, hidden]
  bool r_is_constant;
  std::vector<ValueId> states;  // [batch, hidden] each: h, and the cell
  ValueId state_bias;           // [gates * hidden], of the state's product; kNoGradient: zero, or part of x
  ValueId peepholes;            // [3 * hidden]; kNoGradient: zero
  std::function<ValueId(ValueId h)> state_product = {};  // in an LSTM: the state times its weights by other means than r
};
// Adds the nodes of a step and returns the next states.
using Cell = std::function<std::vector<ValueId>(const CellStep&)>;

// The kind of recurrence of a node, RNN, GRU or LSTM: its step, and the layout of its operands.
struct RecurrentKind {
  std::int64_t gates;
  std::vector<std::size_t> initial_states;  // the inputs that hold them
  bool splits_biases;                       // the step gets the bias of the state's product separately (CellStep::state_bias)
  std::vector<Activation> activations;      // of all directions
  std::size_t activations_per_direction;
  Cell cell;
};
// Throws Error(kBadInput) if activations are missing.
RecurrentKind recurrent_kind(const OnnxAttributes& node);

// All steps as one graph (Procedure::graph). The length of the sequences must be known.
std::optional<std::vector<OnnxValue>> graph_of_recurrent(OnnxSource& source, std::string& reason);

}  // namespace rewright::operators
