// A rewrite rule is data: a source pattern, a target pattern, the conditions under which they are equal, the effect on
// rounding, its origin, and whether it is proved.
//
// A rule is about tensors of unknown sizes. Its variables are
//   - indices (sizes, axes, strides): symbols in index expressions,
//   - lists of indices (permutations, strides of any rank), real numbers, texts, truth values, element types: by name.
// Names are unique over all sorts. Matching or instantiating a rule binds each variable to a value (rules/bindings.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "expressions/attributes.h"
#include "expressions/index.h"
#include "operators/operator.h"

namespace rewright::rules {

// An attribute's value, as an expression over the rule's variables.
struct Expression {
  enum class Kind {
    kValue,     // a literal; its indices are expressions over index variables, its reals may be unknowns (real variables)
    kVariable,  // the value bound to a name: a list, text, truth value or element type
    kCall,      // a function of the arguments, see rule_functions()
  };
  Kind kind = Kind::kValue;
  AttributeValue value;  // kValue
  std::string name;      // kVariable: the variable; kCall: the function. An input's name is a variable in calls such as rank(x)
  std::vector<Expression> arguments;  // kCall

  static Expression literal(AttributeValue value) { return {Kind::kValue, std::move(value), {}, {}}; }
  static Expression variable(std::string name) { return {Kind::kVariable, {}, std::move(name), {}}; }
  static Expression call(std::string function, std::vector<Expression> arguments) {
    return {Kind::kCall, {}, std::move(function), std::move(arguments)};
  }
  friend bool operator==(const Expression&, const Expression&) = default;
};

// Functions of calls. Lists are zero-based; "x" is a pattern input.
//   to an index:  rank(x)  size(x, axis)  length(list)  at(list, position)  product(list)  position(list, index)
//   to a list:    shape(x)  compose(p, q)[i] = p[q[i]]  inverse(p)  identity(n)  repeat(value, n)  join(list, list)
//                 add(list, list)  subtract(list, list)  multiply(list, list)  with(list, position, value)
//                 insert(list, position, value)  remove(list, position)  slice(list, begin, end)
//   to a real:    plus(a, b)  times(a, b)  negative(a)
// "shape(x)" is the shape of an input; position(list, i) is the first position at which i stands.
struct RuleFunction {
  enum class Result { kIndex, kIndices, kReal };
  std::string_view name;
  std::string_view arguments;  // a letter each: x a pattern input, i an index, l a list, r a real
  Result result;
};
std::span<const RuleFunction> rule_functions();
const RuleFunction* find_rule_function(std::string_view name);  // null if there is none

// Which element types an input may have.
struct TypePattern {
  enum class Kind { kReal, kInteger, kAny, kFixed };
  Kind kind = Kind::kReal;
  DataType fixed = DataType::kUndefined;  // kFixed
  std::string variable = "T";             // equal variables are equal types; empty: independent of all others
  friend bool operator==(const TypePattern&, const TypePattern&) = default;
};

// The shape of an input: sizes from the front, then perhaps any number of further axes, then sizes up to the back.
struct ShapePattern {
  Indices front;
  bool open = true;    // there is a part of any rank between front and back: x[N, C, ...]
  std::string middle;  // its list variable, x[N, C, S...]; empty: not named
  Indices back;        // only if open
  friend bool operator==(const ShapePattern&, const ShapePattern&) = default;
};

struct PatternInput {
  std::string name;
  ShapePattern shape;
  TypePattern type;
  bool constant = false;  // the rule is applied only if this input is computed from constants. A hint, since the rule
                          // holds for every input
  friend bool operator==(const PatternInput&, const PatternInput&) = default;
};

// A value of a pattern: a pattern input, an output of one of the nodes of the same side, or an optional input that is absent.
struct PatternValue {
  enum class Kind { kAbsent, kInput, kNode };
  Kind kind = Kind::kAbsent;
  std::uint32_t number = 0;  // of the input or the node
  std::uint32_t output = 0;  // kNode: which of its outputs
  static PatternValue absent() { return {}; }
  static PatternValue input(std::uint32_t number) { return {Kind::kInput, number, 0}; }
  static PatternValue node(std::uint32_t number, std::uint32_t output = 0) { return {Kind::kNode, number, output}; }
  friend bool operator==(const PatternValue&, const PatternValue&) = default;
};

struct PatternNode {
  const Operator* op = nullptr;        // never null in a Rule
  std::vector<Expression> attributes;  // one a field, in the operator's order; a field that was not mentioned is its default
  std::vector<PatternValue> inputs;
  std::uint32_t outputs = 1;  // how many outputs it has (Split)
  friend bool operator==(const PatternNode&, const PatternNode&) = default;
};

// One side of a rule. Nodes are in topological order, without duplicates or dead nodes, in the order of a depth-first walk from
// the outputs, so that equal sides compare equal.
//
// Matching compares attributes after normalization (Operator::normalized). In a source, inputs of a commutative operator match
// in either order; a Fill also matches a constant whose elements are all equal; trailing absent inputs are omitted.
struct Pattern {
  std::vector<PatternNode> nodes;
  std::vector<PatternValue> outputs;
  friend bool operator==(const Pattern&, const Pattern&) = default;
};

// A named value computed from the variables bound before it: `let n = size(x, a)`.
struct Quantity {
  std::string name;
  Expression value;  // a call; of an index: `name` is an index variable
  friend bool operator==(const Quantity&, const Quantity&) = default;
};

// A condition on values other than single indices.
struct Predicate {
  enum class Kind {
    kEqual,        // two lists, texts, truth values, types or reals are equal
    kNotEqual,     //
    kPermutation,  // a list is a permutation of 0 .. its length - 1
    kPositive,     // every element of the list, or the real, is positive
    kNonNegative,  //
  };
  Kind kind = Kind::kEqual;
  std::vector<Expression> arguments;  // two, one, one, one
  friend bool operator==(const Predicate&, const Predicate&) = default;
};

// How applying a rule may change results in floating point. Proofs are over the reals.
enum class MathClass {
  kExact,         // the same operations on the same numbers: results are equal in every bit
  kReassociates,  // equal up to rounding (--math reassociate, the default)
  kCancels,       // the target subtracts large numbers where the source has a small one: digits are lost (--math fast)
  kNeedsFinite,   // and only if no intermediate value is NaN or infinite (--math fast)
};

// Who found the rule. For shipped rules tools/make_rules writes it.
enum class RuleOrigin {
  kHandwritten,   // a person alone
  kGenerated,     // the generator alone
  kImported,      // another program
  kBoth,          // a person and the generator
  kRediscovered,  // a person; it follows from generated rules
  kGeneralizes,   // a person; some instances follow from generated rules
};

enum class RuleStatus {
  kUnknown,    // nothing is known yet
  kProved,     // proved for all sizes
  kRefuted,    // a counterexample is known
  kUndecided,  // a proof was tried and did not succeed
};

struct RuleProof {
  RuleStatus status = RuleStatus::kUnknown;
  std::string method;       // the prover's
  std::string certificate;  // name of the certificate's file
  std::string note;         // the counterexample, or the question that stayed open
  std::string digest;       // SHA-256 of the certificate
  std::uint32_t ranks = 0;  // proved for inputs up to this rank; 0: of all ranks
  friend bool operator==(const RuleProof&, const RuleProof&) = default;
};

struct Rule {
  std::string name;         // unique in a database: letters, digits, _
  std::string description;  // one line
  std::vector<PatternInput> inputs;
  Pattern source, target;             // equally many outputs; output i of the target replaces output i of the source
  std::vector<Quantity> quantities;   // in order of evaluation, after the source has been matched
  std::vector<Condition> conditions;  // over index variables
  std::vector<Predicate> predicates;
  MathClass math = MathClass::kReassociates;
  bool for_training = true;  // also valid, with its gradients, where weights are variables
  RuleOrigin origin = RuleOrigin::kHandwritten;
  bool later = false;  // a search uses it where the others find nothing more
  RuleProof proof;
  friend bool operator==(const Rule&, const Rule&) = default;
};

// Throws Error(kBadInput) with the rule's name for references out of range, cycles, variables of the target that the source
// does not bind, unknown functions, wrong numbers of inputs, and sides with different numbers of outputs.
void check_rule(const Rule& rule);

// Sorts a side's nodes into the order that Pattern requires.
Pattern canonical(const Pattern& pattern);

// Rules in order, names unique.
class RuleSet {
 public:
  RuleSet() = default;
  explicit RuleSet(std::vector<Rule> rules);  // throws Error(kBadInput) for a name that is there twice
  const std::vector<Rule>& rules() const { return rules_; }
  const Rule* find(std::string_view name) const;  // null if there is none
  std::uint64_t hash() const;                     // of everything: a database's version

 private:
  std::vector<Rule> rules_;
};

// The database that is part of the library.
const RuleSet& shipped_rules();

std::string_view name(MathClass math);  // "exact", "reassociates", "cancels", "needs_finite"
std::optional<MathClass> parse_math(std::string_view name);
std::string_view name(RuleStatus status);  // "unknown", "proved", ...
std::string_view name(RuleOrigin origin);  // "handwritten", ..., "generalizes"
std::optional<RuleOrigin> parse_origin(std::string_view name);

}  // namespace rewright::rules
