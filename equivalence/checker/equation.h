// An equation between two values: what computes them from values that are known to be equal, as a small graph, and as a rule
// for all sizes and all elements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "equivalence/checker/joint.h"
#include "rules/rule.h"

namespace rewright::equivalence {

struct Equation {
  ValueId a = kNoValue, b = kNoValue;  // of the joint table
  std::vector<ValueId> leaves;         // stand for any tensors of their types
};

// A proof says that `b` is defined where `a` is. Does it make no value known that may be undefined where the first model is
// defined? `a` is known, or a term from which one value of the second model follows: what makes the term known comes later.
bool leads_from_first(const Joint& joint, const Equation& equation);

// An equation as a graph whose two outputs are claimed to be equal.
struct Statement {
  Graph graph;                          // inputs: the leaves; outputs: both values
  std::vector<ValueId> leaves;          // of each input: the class in the table
  std::vector<ValueId> classes;         // of each value of the graph
  std::vector<std::int32_t> positions;  // of each node: in the table
  std::size_t nodes_of_a = 0;           // the first nodes compute `a`, the others only `b`
  std::optional<ValueId> unexplained;
};

// Both values, back to the leaves, inputs, constants, results of nodes without a denotation, and integers that may wrap around
// (checker/ranges.h): of those a denotation says nothing. Throws Error(kUnsupported) if that takes more nodes than `most`.
inline constexpr std::size_t kMostNodes = 120;
Statement statement_of(const Joint& joint, const Equation& equation, std::size_t most = kMostNodes);

// Constants that were used as the numbers that they are keep these: no term takes their places.
void keep_numbers(Joint& joint, const Statement& statement);

// Are all elements the same finite number?
bool is_one_number(const Tensor& tensor);

// Which numbers in shapes and attributes a rule is about.
enum class SizesInRule {
  kAsGiven,  // those that are there
  kAny,      // larger ones stand for any sizes, equal ones for equal sizes: one proof for many equations
};

// source = target, where constants of many elements are any tensors of their types, and named sizes any sizes. Throws
// Error(kUnsupported) if it cannot be written as a rule.
Rule rule_of(const Statement& statement, SizesInRule sizes);

// Does `b` read at a position that is an element, and that `a` does not read at? It may be outside of the tensor.
bool may_read_outside(const Statement& statement);
// Does the node divide, or apply a function that is not defined everywhere?
bool is_partial(const Graph& graph, const Node& node);
// Does it, or does `b` divide, or apply a function that is not defined everywhere, where `a` does not? Then it may be undefined
// where `a` is defined. A division by constants without a zero is defined, as is a power of constant whole numbers.
bool may_be_less_defined(const Statement& statement);

}  // namespace rewright::equivalence
