// How it was shown that a sum is 0, or that two maxima are equal: what a checker needs in order to follow it without a search.
#pragma once

#include <vector>

#include "verifier/guard.h"
#include "verifier/rational.h"

namespace rewright::proof {

struct Derivation;

// A term of the sum, or an element of one of the two maxima, in the variables of its class.
struct Member {
  std::size_t term = 0;            // of the sum; of a maximum: its elements, then those of the other one
  Indices values{};                // of the term's bound variables, in their order, in terms of the class's
  Indices inverse{};               // of the class's variables, then the quantified ones, in terms of the term's
  Indices quantified{};            // a maximum: variables of `values` that speak of no value
  Guards guards{};                 // the term's guards for these values, as questions state them
  Rational coefficient = 1;        // with the constant parts of index factors
  std::vector<std::size_t> order;  // the term's factors in the order of the first member's, those that are indices left out
  // How they are equal to the first member's: for each argument of each function, for each maximum; for an element's value.
  std::vector<Derivation> parts;
};

// Terms that are sums of the same products over the same variables: their coefficients cancel. Elements of the same value:
// they are on both sides under the same conditions.
struct MemberClass {
  Indices variables;  // pivots, each the position of an access, then those that have none
  std::vector<Member> members;
};

struct Derivation {
  std::vector<std::size_t> vanished;  // terms whose guards contradict each other or whose coefficient is 0
  std::vector<MemberClass> classes;   // every other term is in one of them
};

}  // namespace rewright::proof
