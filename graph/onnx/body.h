// The graphs inside of nodes (the bodies of If, Loop and Scan) as separate graphs.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// The ONNX operator of an opaque node, as "Loop" or "domain.Type"; empty for other nodes.
std::string onnx_operator(const Node& node);

// The names of a node's attributes that hold a graph.
std::vector<std::string> bodies_of(const Node& node);

// The names in a graph, which values of its nodes' bodies must not get; for body_of.
using OuterNames = std::shared_ptr<const std::unordered_set<std::string>>;
OuterNames outer_names(const Graph& graph);

// The graph in an attribute of a node. Its inputs are the body's inputs and then the captured values; captured constants are
// constants inside, too. The types of the inputs hold in every execution of the body: a value that a loop carries keeps the
// sizes of its first value if the body returns the same sizes. `procedures_as_graphs` as in ImportOptions. Throws Error if the
// body cannot be imported by itself.
//
//   const Graph body = body_of(graph, node, "then_branch", outer_names(graph));
//   node = with_body(node, "then_branch", rewritten(body));
Graph body_of(const Graph& graph, const Node& node, const std::string& attribute, const OuterNames& names,
              bool procedures_as_graphs = false);

// The node with another graph in an attribute, made by rewriting the result of body_of. Throws Error(kUnsupported) if it cannot
// be written in the node's opset.
Node with_body(const Node& node, const std::string& attribute, const Graph& body);

// The graph with the nodes at these positions replaced, tidied.
Graph with_nodes(const Graph& graph, const std::map<std::size_t, Node>& nodes);

}  // namespace rewright::graph
