// Splits a graph at nodes that a backend does not compile: opaque ones, and those that read or make strings.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/open_graph.h"

namespace rewright::runtime {

// Does a backend compile the node? Others are interpreted.
bool is_compiled(const Graph& graph, const Node& node);
bool is_compiled(const Graph& graph);  // all its nodes, inputs and outputs

// The compiled nodes of one stage as a graph.
struct Part {
  Graph graph;
  std::vector<ValueId> inputs, outputs;  // in the whole graph
  std::vector<std::string> symbols;      // named sizes in attributes of its nodes
};

// One stage: first the part is executed, if it has nodes, then the interpreted nodes, in order.
struct Stage {
  Part part;
  std::vector<std::size_t> interpreted;  // positions in the graph's nodes
};

// The fewest stages that the interpreted nodes allow. A node is in the first stage if it depends on no interpreted node, nor on
// a size that one computes.
std::vector<Stage> stages_of(const Graph& graph);

// The part with these nodes, which must be in topological order and all compiled. Its outputs are those of their values that
// `leaves` marks.
Part part_of(const Graph& graph, std::span<const std::size_t> nodes, const std::vector<bool>& leaves);

// Are the types of all values known, sizes included?
bool is_definite(const Graph& graph);

// A part's graph for inputs of these types; all other types are inferred.
Graph with_types(const Part& part, std::span<const TensorType> inputs, const Substitution& sizes);

// A part that is given many sets of sizes.
//
//   const OpenPart open(part);
//   const Graph graph = open.with_types(types, sizes);  // for each call
//
// May be used by several threads at once.
class OpenPart {
 public:
  explicit OpenPart(Part part) : part_(std::move(part)), open_(part_.graph) {}
  const Part& part() const { return part_; }
  // Returns runtime::with_types(part(), inputs, sizes), faster where the model's types are those of the inputs.
  Graph with_types(std::span<const TensorType> inputs, const Substitution& sizes) const;

 private:
  Part part_;
  OpenGraph open_;
};

}  // namespace rewright::runtime
