// A graph with open sizes that is given many sets of numbers for them: what does not depend on the numbers is found once.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/graph.h"
#include "graph/size_expressions.h"

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
  // The graph with open sizes whose values a graph that with_sizes returned has: graph() or a part of it.
  const Graph& graph_of(const Graph& sized) const;
  // By value of a graph that with_sizes returned: do its sizes or elements depend on open sizes, apart from what inputs
  // contribute to it?
  const std::vector<bool>& open_values(const Graph& sized) const;

 private:
  // Expressions: those that numbers_ names from `first` on.
  struct List {
    std::size_t first = 0, count = 0;
  };
  struct OpenValue {
    ValueId id;
    List shape, contents;
  };
  struct OpenAttribute {
    std::size_t place;
    List numbers;
  };
  struct UsedNode {
    std::shared_ptr<const Node> node;  // without the attributes that are open
    List attributes;                   // in attributes_
    bool is_open() const { return attributes.count > 0; }
  };
  // Nodes with numbers that an earlier call has made, by place in nodes_: those that nobody else has any more are written
  // again.
  using MadeNodes = std::vector<std::shared_ptr<Node>>;
  struct Spare {
    std::mutex mutex;
    MadeNodes nodes;
  };
  UsedNode used_node(const std::shared_ptr<const Node>& node);
  void set_numbers(Indices& list, const List& expressions, const Indices& numbers) const;
  Value sized(const OpenValue& open, const Indices& numbers) const;
  std::shared_ptr<const Node> sized(const UsedNode& used, const Indices& numbers, std::shared_ptr<Node>& made) const;
  struct NumberedCondition {
    std::size_t left;
    Condition::Relation relation;
    std::size_t right;
    friend bool operator==(const NumberedCondition&, const NumberedCondition&) = default;
  };
  std::size_t number_of_size(const Index& expression);
  List numbers_of_sizes(const Indices& expressions);
  void find_requirements(const Node& node);

  Graph graph_;
  Graph part_;                     // that is returned
  std::vector<UsedNode> nodes_;    // of the part ...
  std::size_t first_open_ = 0;     // ... those before this one are returned as they are
  std::vector<OpenValue> values_;  // of the part
  std::vector<OpenAttribute> attributes_;
  std::vector<std::size_t> numbers_;
  SizeExpressions expressions_;  // of sizes and contents, and of requirements
  std::vector<bool> is_size_;    // by expression: is it one of the former?
  std::vector<bool> open_values_, open_values_of_part_;
  std::vector<NumberedCondition> requirements_;  // of all nodes
  bool is_regular_ = true;                       // the requirements are all that nodes need for the types that the graph says
  std::unique_ptr<Spare> spare_ = std::make_unique<Spare>();
};

}  // namespace rewright::graph
