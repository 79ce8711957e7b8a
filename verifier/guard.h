// Conditions on integers, as the prover writes them: comparisons of index polynomials with 0.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "expressions/index.h"

namespace rewright::proof {

struct Guard {
  enum class Kind { kNonNegative, kZero, kNonZero, kAll, kAny };
  Kind kind = Kind::kAll;
  Index value;               // for the first three kinds
  std::vector<Guard> parts;  // kAll, kAny

  std::optional<bool> decided() const;
  Guard negated() const;
  std::string to_string() const;
  friend bool operator==(const Guard&, const Guard&) = default;
};
using Guards = std::vector<Guard>;

Guard non_negative(Index value);
Guard zero(Index value);
Guard non_zero(Index value);
Guard any_of(Guards parts);
Guard guard(const Condition& condition);
inline Guard at_least(const Index& a, const Index& b) { return non_negative(a - b); }
inline Guard below(const Index& a, const Index& b) { return non_negative(b - a - 1); }
// 0 <= index < size
Guards within(const Index& index, const Index& size);

// Atoms (symbols, bound variables) and their replacements.
using Replacements = std::vector<std::pair<Index, Index>>;
Index replaced(const Index& index, const Replacements& replacements);
Indices replaced(const Indices& indices, const Replacements& replacements);
Guard replaced(const Guard& guard, const Replacements& replacements);
Guards replaced(const Guards& guards, const Replacements& replacements);

bool occurs(const Index& variable, const Index& in);
bool occurs(const Index& variable, const Guard& in);
// The coefficient (1 or -1) if the variable occurs exactly once, alone, with it; else 0.
int unit_coefficient(const Index& polynomial, const Index& variable);
// The value of the variable where the polynomial is 0, for a unit coefficient.
Index solved_for(const Index& polynomial, const Index& variable);

// A symbol that the equation polynomial = 0 determines: one with a unit coefficient.
std::optional<Index> isolated(const Index& polynomial);

// Are the guards equal, in any order?
bool same_guards(const Guards& a, const Guards& b);

// Cheap tests without a solver: does a imply b? is there no integer solution?
bool surely_implies(const Guard& a, const Guard& b);
bool surely_contradictory(const Guards& guards);
// Is it at least 1 because it is a sum of products of factors that the assumptions bound by 1?
bool surely_positive(const Index& index, const Guards& assumptions);

}  // namespace rewright::proof
