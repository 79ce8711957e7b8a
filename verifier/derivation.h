// Derivations: how a sum was shown to be 0, or two maxima to be equal, in enough detail to be checked without a search.
#pragma once

#include <vector>

#include "verifier/guard.h"
#include "verifier/rational.h"

namespace rewright::proof {

struct Derivation;

// A term of the sum, or an element of one of the two maxima, in the variables of its class.
struct Member {
  std::size_t term = 0;            // of the sum; for maxima: elements of the first, then of the second
  Indices values{};                // values of the term's bound variables, in order, in terms of the class's
  Indices inverse{};               // values of the class's variables, then the quantified ones, in terms of the term's
  Indices quantified{};            // maximum: variables in `values` that do not affect the value
  Guards guards{};                 // the term's guards for these values, as used in questions
  Rational coefficient = 1;        // includes the constant parts of index factors
  std::vector<std::size_t> order;  // the term's factors in the order of the first member's, without indices
  // Derivations of its parts from the first member's: of each argument of a function, each maximum, an element's value.
  std::vector<Derivation> parts;
};

// Terms: sums of the same product over the same variables, whose coefficients cancel. Elements: equal values that both sides
// have under the same conditions.
struct MemberClass {
  Indices variables;  // pivots (positions of accesses) first, then variables without one
  std::vector<Member> members;
};

struct Derivation {
  std::vector<std::size_t> vanished;  // terms with contradictory guards, or coefficient 0
  std::vector<MemberClass> classes;   // every other term is in one class
};

}  // namespace rewright::proof
