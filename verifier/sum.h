// The normal form of an element: a sum of terms  c * SUM over bound variables, where guards hold, of a product of factors.
#pragma once

#include <string>
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

}  // namespace rewright::proof
