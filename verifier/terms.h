// The normal form of an element: a sum of terms  c * SUM over bound variables, where guards hold, of a product of factors.
#pragma once

#include <string>
#include <vector>

#include "operators/function.h"
#include "verifier/guard.h"
#include "verifier/rational.h"

namespace rewright::proof {

struct Term;
using Sum = std::vector<Term>;  // the empty sum is 0

// One of a set that a maximum is taken of: the values for all bound variables that satisfy the guards.
struct MaximumElement {
  Indices bound;
  Guards guards;
  Sum value;
};

struct Factor {
  enum class Kind {
    kAccess,           // input[position]
    kFunction,         // name(arguments)
    kMaximum,          // the maximum of a set; of none: minus infinity
    kIndex,            // an index expression as a number
    kReciprocalIndex,  // 1 / index
    kUnknown,          // a named number
  };
  Kind kind = Kind::kUnknown;
  std::size_t input = 0;                   // kAccess
  Indices position{};                      // kAccess
  Index index{};                           // kIndex, kReciprocalIndex
  std::string name{};                      // kFunction, kUnknown
  const Function* law = nullptr;           // kFunction: where its laws stand, if it has any
  std::vector<Sum> arguments{};            // kFunction
  std::vector<MaximumElement> elements{};  // kMaximum
};

struct Term {
  Rational coefficient = 1;
  Indices bound{};
  Guards guards{};
  std::vector<Factor> factors{};
};

Term replaced(const Term& term, const Replacements& replacements);
Sum replaced(const Sum& sum, const Replacements& replacements);

// Bound variables that equations determine are eliminated, trivial guards dropped, terms that are surely 0 too.
Sum simplified(const Sum& sum);
Sum product(const Sum& a, const Sum& b);
Sum scaled(Sum sum, const Rational& factor);
Sum with_guards(const Sum& sum, const Guards& guards, const Indices& bound = {});
Sum joined(Sum a, const Sum& b);
Sum constant(const Rational& value);
Sum single(Factor factor);

// A binary decision over the guards that do not speak of the sum's own bound variables: exhaustive, exclusive cases.
struct Case {
  Guards guards;
  Sum value;
};
std::vector<Case> cases(const Sum& sum);

Factor function(std::string name, const Function* law, std::vector<Sum> arguments);

// Terms can be equal only if their signatures are: what they consist of, without positions.
std::string signature(const Factor& factor);
std::string signature(const Term& term);
std::string signature(const Sum& sum);

std::string to_string(const Sum& sum);  // for messages

}  // namespace rewright::proof
