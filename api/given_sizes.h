// The sizes that --shape gives a model's inputs.
//
//   --shape x=1x3x224x224                      one set of sizes
//   --shape x=1x3x224x224*3,1x3x640x640        two, of which the first counts three times as much
//   --shape ids=1x8..512 --shape mask=1x8..512 three: the ends of the range, and a size between them; those of several inputs
//                                              belong together in the order in which they stand
//   --shape x=1x3x320..640/32x320..640/32      multiples of 32 above the range's begin
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "optimizer/inputs/sizes.h"

namespace rewright::api {

struct GivenShape {
  Sizes sizes;
  double weight = 1;
  bool is_weighted = false;  // its weight was given
};

// By the names of inputs; ranges are shapes already. Throws Error(kUsage).
using GivenShapes = std::map<std::string, std::vector<GivenShape>>;
GivenShapes parse_shapes(const std::vector<std::string>& shapes);

// The values of the symbolic sizes of the graph's inputs that follow from the given sizes: at least one set, different ones.
// Throws Error(kBadInput) if they contradict the model or each other.
std::vector<WeightedSizes> given_sizes(const Graph& graph, const GivenShapes& shapes);

// Values of the symbolic sizes of the graph's inputs, to measure the graph at: the given ones, and fitting sizes for the others
// (fitting_sizes). Throws Error(kBadInput) if they contradict each other.
std::vector<WeightedSizes> symbol_sizes(const Graph& graph, const GivenShapes& shapes);

// The only set of them. Throws Error(kUsage) where there are several.
NamedSizes one_set_of_sizes(const Graph& graph, const GivenShapes& shapes);

}  // namespace rewright::api
