// The graphs inside of two nodes of If, Loop or Scan as models of their own, which are proved by themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "equivalence/checker/joint.h"
#include "graph/graph.h"

namespace rewright::equivalence {

struct BodyPair {
  Graph x, y;     // of both nodes, in one attribute
  NameMap names;  // of inputs and outputs: formal ones and results by position, captured values by what they are equal to
};

// The bodies of two nodes of the table, of the models a and b: where all pairs are equal, so are the nodes. nullopt if the
// nodes are of other operators or attributes, or read what is not known to be equal. Throws Error if a body cannot be imported.
std::optional<std::vector<BodyPair>> paired_bodies(const Joint& joint, const Graph& a, const Graph& b, std::int32_t of_first,
                                                   std::int32_t of_second);

}  // namespace rewright::equivalence
