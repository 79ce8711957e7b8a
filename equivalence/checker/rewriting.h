// Follows rewrites that show two values of a small graph equal: each adds what a rule says to a table of terms, at named
// places, and nothing is searched for.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/congruence.h"
#include "equivalence/checker/ranges.h"
#include "graph/graph.h"
#include "rules/bindings.h"
#include "rules/rule.h"

namespace rewright::equivalence {

// A rule applied to terms. The graph's inputs and constants are terms, in the order of their values, then its nodes, then, for
// each application, the nodes of the rule's target.
struct Application {
  std::string rule;
  std::vector<std::uint32_t> where;  // for each node of the source its term; for a Fill also a constant
  std::uint64_t swapped = 0;         // bit i: the first two operands of node i (commutative) are exchanged
  friend bool operator==(const Application&, const Application&) = default;
};

class TermTable {
 public:
  explicit TermTable(const Graph& graph);

  // Throws proof::Refusal if the rule does not match there, its target is ill-typed, or integers of it may wrap around.
  void apply(const Rule& rule, const Application& application);
  bool outputs_are_equal() const;

  std::uint32_t term_of_value(ValueId leaf) const { return value_terms_.at(leaf); }  // of an input or a constant
  std::uint32_t term_of_node(std::size_t position) const { return first_node_ + static_cast<std::uint32_t>(position); }
  std::size_t size() const { return terms_.size(); }

 private:
  struct Term {
    const Operator* op = nullptr;  // null: an input or a constant
    Attributes attributes;
    std::vector<std::uint32_t> inputs;   // values; kAbsent
    std::vector<std::uint32_t> outputs;  // values
    Tensor constant;
  };
  static constexpr std::uint32_t kAbsent = ~std::uint32_t{0};

  struct Matched {
    std::vector<std::uint32_t> inputs;   // values of the rule's
    std::vector<Attributes> attributes;  // of the source's nodes
  };
  std::uint32_t output_of(std::uint32_t term, std::uint32_t output) const;
  void match_operand(std::uint32_t value, const PatternValue& wanted, const Application& application,
                     std::vector<std::uint32_t>& bound) const;
  Matched match_source(const Rule& rule, const Application& application) const;
  Bindings bind(const Rule& rule, const Matched& matched) const;
  std::uint32_t add_value(TensorType type, const Range& range);
  std::uint32_t add_node(const Operator& op, Attributes attributes, std::vector<std::uint32_t> inputs,
                         const Definition& definition);
  bool same(std::uint32_t a, std::uint32_t b) const {
    return a == b || (a != kAbsent && b != kAbsent && classes_.find(a) == classes_.find(b));
  }
  void unite(std::uint32_t a, std::uint32_t b);
  void close();

  Classes classes_;                // of values
  std::vector<TensorType> types_;  // by value
  std::vector<Range> ranges_;      // by value
  std::vector<Term> terms_;
  std::vector<std::uint32_t> value_terms_;
  std::vector<std::uint32_t> of_graph_;  // values of the graph
  std::uint32_t first_node_ = 0;
  std::uint32_t a_ = 0, b_ = 0;
};

}  // namespace rewright::equivalence
