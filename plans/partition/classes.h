// Nodes and values of equal surroundings.
#pragma once

#include <cstdint>
#include <vector>

#include "base/namespaces.h"
#include "graph/graph.h"

namespace rewright::plans {

struct Classes {
  std::vector<std::uint32_t> of_node;   // by position
  std::vector<std::uint32_t> of_value;  // by value; of those that no node reads or computes as well
  std::size_t nodes = 0, values = 0;    // numbers of classes
};

// Nodes whose surroundings are alike to this distance are cut alike.
inline constexpr int kAlikeDistance = 2;

// Two nodes are of one class if they have the same operator, attributes and types, and so have, port by port, those that they
// read from and that read from them, up to a distance.
Classes classes_of(const Graph& graph, int distance);

}  // namespace rewright::plans
