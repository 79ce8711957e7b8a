// Two models as one table of values with known equalities: both read the same inputs, and a proof of their equality adds
// equations until their outputs are equal. Used by the prover and by the checker, which adds an equation only after it checked
// its proof.
//
// Equal operators with equal attributes and equal operands compute equal results (congruence); so do opaque nodes of one
// meaning. A random node of one model equals at most one node of the other.
//
//   Joint joint(a, b, {});
//   joint.unite(x, y);                    // x = y was proved
//   if (joint.outputs_are_equal()) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/congruence.h"
#include "graph/graph.h"

namespace rewright::equivalence {

// Names of inputs and outputs of the second model that stand for others of the first.
using NameMap = std::map<std::string, std::string>;  // from the first model's to the second's

class Joint {
 public:
  // The numbers of values of the first graph stay. Throws Error(kBadInput), which names it, for an input or an output that the
  // other model does not have, or has with another type or other sizes.
  Joint(const Graph& a, const Graph& b, const NameMap& names);

  // Nodes and values of the first graph, then those of the second, then those of added terms.
  const Graph& graph() const { return graph_; }
  ValueId of_second(ValueId b) const { return of_second_[b]; }
  bool is_of_first(ValueId id) const { return id < first_values_; }
  bool is_of_second(ValueId id) const { return id >= first_values_ && id < second_values_; }
  std::size_t first_nodes() const { return first_nodes_; }                              // they are the first ones
  std::size_t second_nodes() const { return second_nodes_; }                            // that follow them
  const std::vector<std::pair<ValueId, ValueId>>& outputs() const { return outputs_; }  // of both, in the order of the first

  ValueId find(ValueId id) const { return classes_.find(id); }
  bool equal(ValueId a, ValueId b) const { return find(a) == find(b); }
  // A member of the value's class that defines it: an input or a constant, else the one that is computed first. Following
  // definitions never comes back to the same class.
  ValueId defined_by(ValueId id) const { return defined_by_[find(id)]; }
  // The position of the node that computes it; -1 for inputs and constants.
  std::int32_t producer(ValueId id) const { return producers_[id]; }
  bool is_constant(ValueId id) const { return graph_.is_constant(id); }
  // Is a value of the first model in its class?
  bool is_known(ValueId id) const { return in_first_[find(id)]; }

  // Makes two values equal, and everything that follows by congruence. False, without a change, if their types differ.
  bool unite(ValueId a, ValueId b);
  // Makes all results of two equal nodes equal. Sizes that only execution determines become equal, too.
  bool unite_results(std::int32_t a, std::int32_t b);
  // Adds an operator over constants of the first model, as the definition of a constant of the second one.
  ValueId add_term(const Operator& op, Attributes attributes, std::vector<ValueId> inputs);
  // `constant` is a rounding of `term`, and defined by it from now on, as are all constants of its class. False if it is
  // explained already. A constant of the first model is only explained by a term whose nearest number it is, so that two
  // different constants never have equal terms: the product of two of its float constants that are explained by nothing, or a
  // number without constants (1.4142135 for the square root of 2). It must not have been used as the number that it is, nor to
  // explain another constant.
  bool explain(ValueId constant, ValueId term);
  // The constant was used as the number that it is: no term will take its place.
  void keep(ValueId constant) { kept_[constant] = true; }
  // A real attribute of a node is a rounding of a number, which takes its place.
  void set_attribute(std::int32_t position, std::size_t field, double number);
  bool is_explained(ValueId constant) const { return explained_[constant]; }

  bool outputs_are_equal() const;

 private:
  void take_second(const Graph& b, const NameMap& names);
  Graph in_sizes_of_first(const Graph& b, const NameMap& names) const;
  void match_outputs(const Graph& b, const NameMap& names);
  void number_nodes(const Graph& b);
  std::uint32_t kind_of(const Node& node, const std::string& meaning);
  void merge_known_values();
  bool merge_undone_blocks();  // true if there were some
  ValueId concat_of(const std::vector<ValueId>& parts) const;
  void enter(std::uint32_t position);
  void merge_results(const Node& node, const Node& other);
  void close();
  bool merge(ValueId a, ValueId b);
  void learn_sizes(const TensorType& a, const TensorType& b);
  bool may_explain(ValueId constant, ValueId term) const;
  bool is_exact(ValueId constant, ValueId term) const;
  bool is_product(ValueId term) const;
  const Node* node_of_term(ValueId id, std::string_view op) const;
  bool is_plain_number(ValueId term) const;
  bool is_of_numbers(const Node& node) const;
  std::vector<ValueId> constants_of(ValueId term) const;
  bool compatible(ValueId a, ValueId b) const;
  std::int64_t rank(ValueId id) const;

  Graph graph_;
  std::size_t first_values_ = 0, second_values_ = 0, first_nodes_ = 0, second_nodes_ = 0;
  std::vector<ValueId> of_second_;
  std::vector<std::pair<ValueId, ValueId>> outputs_;
  Classes classes_;
  std::vector<ValueId> defined_by_;                // by class
  std::vector<bool> in_first_, explained_;         // by class; by value
  std::vector<bool> of_numbers_;                   // by value: a term over no leaves
  std::vector<bool> kept_;                         // by value: a constant that explains another, or was used as a number
  std::vector<std::int32_t> producers_;            // by value
  std::vector<std::vector<std::uint32_t>> users_;  // by class: positions of nodes that read it
  std::vector<std::uint32_t> kinds_;               // by position: operator and attributes, or meaning
  std::vector<std::string> kind_texts_;
  std::map<std::string, std::uint32_t> kind_numbers_;
  NodeTable table_;
  std::vector<std::uint32_t> pending_;  // positions to enter again
  std::vector<std::uint32_t> undone_;   // positions of a Reshape that may take channels out of blocks
};

}  // namespace rewright::equivalence
