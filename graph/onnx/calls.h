// Calls that stand in a graph as expansions and are unchanged (Expansion of graph/graph.h): export writes them as they stood in
// the model.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// The expansions whose nodes no rewrite changed, and whose inner values nothing else reads.
std::set<const Expansion*> intact_expansions(const Graph& graph);

// Such a call, as the model has it.
struct WholeCall {
  const OnnxAttributes& attributes;
  const std::string& domain;
  const std::vector<ValueId>&inputs, &outputs;  // kNoValue: absent
};
// Calls f with an opaque node as the model has it, unless the model defines its operator itself.
void with_opaque_call(const Graph& graph, const Node& node, const std::function<void(const WholeCall& call)>& f);
// The graph with a node in place of each call for which `node_for` returns one. It defines the outputs of the call.
Graph with_whole_calls(const Graph& graph, const std::function<std::optional<Node>(const WholeCall& call)>& node_for);

}  // namespace rewright::graph
