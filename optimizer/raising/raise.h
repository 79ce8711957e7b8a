// Raises parts of a graph to calls of ONNX Runtime's own operators.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "optimizer/matching/match.h"
#include "rules/raising/raising.h"

namespace rewright::optimizer {

struct Raised {
  Graph graph;
  std::map<std::string, int> calls;  // of each operator, how many
};

// The shipped rules that raise to these operators.
std::vector<Raising> raisings_of(std::span<const std::string> types);

// Applies the rules wherever they fit, in their order. A call is put in only where its body is the rule's target, node by node,
// so that the graph's denotation is that of the rule. Nodes that are bodies of calls already stay.
Raised raised(const Graph& graph, std::span<const Raising> rules, const MatchOptions& options);

}  // namespace rewright::optimizer
