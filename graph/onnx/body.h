// Graphs inside of nodes: the bodies of If, Loop and Scan, as graphs of their own.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// The ONNX operator that an opaque node is, after its domain and a dot if it has one; empty for other nodes.
std::string onnx_operator(const Node& node);

// The names of the attributes of a node that hold a graph each.
std::vector<std::string> bodies_of(const Node& node);

// The names that values inside of a graph's nodes must not get, for body_of.
using OuterNames = std::shared_ptr<const std::unordered_set<std::string>>;
OuterNames outer_names(const Graph& graph);

// The graph in an attribute of a node. Its inputs are the body's, and then what it captures, unless that is a constant: it is
// one inside as well. The types of inputs are those that hold each time that the body is executed: what a loop carries keeps
// the sizes that its first value has, if the body gives back the same. `procedures_as_graphs` as in ImportOptions. Throws Error
// if the body cannot be imported by itself.
Graph body_of(const Graph& graph, const Node& node, const std::string& attribute, const OuterNames& names,
              bool procedures_as_graphs = false);

// The node with another graph in an attribute, one that was made by rewriting what body_of gave. Throws Error(kUnsupported) if
// it cannot be written in the node's opset.
Node with_body(const Node& node, const std::string& attribute, const Graph& body);

// The graph with other nodes in these positions, tidied.
Graph with_nodes(const Graph& graph, const std::map<std::size_t, Node>& nodes);

}  // namespace rewright::graph
