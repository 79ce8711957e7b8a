// The normal form of an element: a sum of terms  c * SUM over bound variables, where guards hold, of a product of factors.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "expressions/function.h"
#include "verifier/guard.h"
#include "verifier/rational.h"

namespace rewright::proof {

struct Term;
using Sum = std::vector<Term>;  // the empty sum is 0

// An element of a maximum: the values for all bound variables that satisfy the guards.
struct MaximumElement {
  Indices bound;
  Guards guards;
  Sum value;
};

struct Factor {
  enum class Kind {
    kAccess,           // input[position]
    kFunction,         // name(arguments)
    kMaximum,          // the maximum of a set; minus infinity for the empty set
    kIndex,            // an index expression as a number
    kReciprocalIndex,  // 1 / index
    kUnknown,          // a named number
  };
  Kind kind = Kind::kUnknown;
  std::size_t input = 0;                   // kAccess
  Indices position{};                      // kAccess
  Index index{};                           // kIndex, kReciprocalIndex
  std::string name{};                      // kFunction, kUnknown
  const Function* law = nullptr;           // kFunction: the function whose laws apply, if any
  std::vector<Sum> arguments{};            // kFunction
  std::vector<MaximumElement> elements{};  // kMaximum
};

struct Term {
  Rational coefficient = 1;
  Indices bound{};
  Guards guards{};
  std::vector<Factor> factors{};
  Indices trace{};  // expressions to which replacements are also applied, to track variables
};

Term replaced(const Term& term, const Replacements& replacements);
Sum replaced(const Sum& sum, const Replacements& replacements);

std::string to_string(const Sum& sum);  // for messages

// A symbol of normal forms for an integer that is computed from the elements of inputs, such as the position of a Gather.
// Proofs hold for whatever number it is: equal values have one symbol, and nothing else is known of it.
struct Content {
  std::string name;  // kContent and a number
  Sum value;         // without bound variables; may mention contents that stand before it
  // If there, the symbol is the position that the value means on an axis of this size (as axis_position).
  std::optional<Index> size{};
};
using Contents = std::vector<Content>;
inline constexpr std::string_view kContent = "contents!";

}  // namespace rewright::proof
