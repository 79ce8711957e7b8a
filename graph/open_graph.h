// A graph with open sizes that is given many sets of numbers for them: what does not depend on the numbers is found once.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

//   const OpenGraph open(graph);
//   const Graph first = open.with_sizes(bind_sizes(graph, inputs));  // for each call
//
// May be used by several threads at once.
class OpenGraph {
 public:
  // `used`, by node: those that with_sizes returns, as long as the sizes are none that the graph has assumed away; empty: all.
  // The requirements of unused nodes on sizes are checked, too.
  explicit OpenGraph(Graph graph, const std::vector<bool>& used = {});

  const Graph& graph() const { return graph_; }
  // Returns graph::with_sizes(graph(), sizes), faster, and perhaps without unused nodes. Their values are left out as well, so
  // that others have other numbers, in the same order.
  Graph with_sizes(const Substitution& sizes) const;
  // By value of a graph that with_sizes returned: do its sizes or elements depend on open sizes, apart from what inputs
  // contribute to it?
  const std::vector<bool>& open_values(const Graph& sized) const;

 private:
  struct OpenValue {
    ValueId id;
    std::vector<std::size_t> shape, contents;  // expressions, by number
  };
  struct UsedNode {
    std::shared_ptr<const Node> node;
    bool is_open;  // are its attributes?
  };
  std::size_t number_of(const Index& expression);
  std::vector<std::size_t> numbers_of(const Indices& expressions);
  void find_requirements(const Node& node);

  Graph graph_;
  Graph part_;                      // that is returned
  std::vector<UsedNode> nodes_;     // of the part ...
  std::size_t first_open_ = 0;      // ... those before this one are returned as they are
  std::vector<OpenValue> values_;   // of the part
  std::vector<Index> expressions_;  // all different
  std::vector<bool> open_values_, open_values_of_part_;
  std::vector<Condition> requirements_;  // of all nodes
  bool is_regular_ = true;               // the requirements are all that nodes need for the types that the graph says
};

}  // namespace rewright::graph
