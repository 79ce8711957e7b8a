// What an opaque node computes, apart from its inputs: to tell whether nodes of two models are the same function of them.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// Equal only for nodes that compute equal results from equal inputs: operator, version, attributes, graphs inside, and the
// functions of the model that they may call. The names of values do not count, nor which inputs are there.
std::string opaque_meaning(const Graph& graph, const Node& node);

// The meaning of an If, Loop or Scan apart from the graphs in its attributes.
std::string meaning_without_bodies(const Graph& graph, const Node& node);
// The number of inputs that the ONNX node names: the others, behind them, are values that its graphs capture.
std::size_t own_inputs(const Node& node);

// An absent optional input whose default is a tensor of zeros.
struct ImplicitZeros {
  std::size_t input;
  TensorType type;
};
// The absent initial states, bias and peepholes of RNN, GRU and LSTM, as far as their sizes are known.
std::vector<ImplicitZeros> implicit_zeros(const Graph& graph, const Node& node);

// Does an opaque node, or a node of a graph inside of it, draw random numbers?
bool is_random(const Node& node);

}  // namespace rewright::graph
