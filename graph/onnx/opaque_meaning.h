// What an opaque node computes, apart from its inputs: to tell whether nodes of two models are the same function of them.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// Equal only for nodes that compute equal results from equal inputs: operator, version, attributes, graphs inside, and the
// functions of the model that they may call. The names of values do not count, nor which inputs are there.
std::string opaque_meaning(const Graph& graph, const Node& node);

// The same for a node of If, Loop or Scan without the graphs inside. Its first inputs are its own, the others are captured by
// those graphs; the graphs themselves have no inputs for those of If.
std::string meaning_without_bodies(const Graph& graph, const Node& node);
std::size_t own_inputs(const Node& node);

// An input that a node does without, and that stands for zeros of this type then.
struct ImplicitZeros {
  std::size_t input;
  TensorType type;
};
// Of recurrent nodes: initial states, bias, peepholes. Without those whose sizes are not known.
std::vector<ImplicitZeros> implicit_zeros(const Graph& graph, const Node& node);

// Does an opaque node, or a node of a graph inside of it, draw random numbers?
bool is_random(const Node& node);

}  // namespace rewright::graph
