// The laws of normal forms: sums are simplified, multiplied, and split into cases.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verifier/sum.h"

namespace rewright::proof {

// Stands without bound variables and conditions.
inline bool is_plain(const Term& t) { return t.bound.empty() && t.guards.empty(); }
inline bool is_plain(const MaximumElement& e) { return e.bound.empty() && e.guards.empty(); }

// Eliminates bound variables determined by equations, and drops trivial guards and terms that are surely 0.
Sum simplified(const Sum& sum);
// Their bound variables must be distinct: the square of a sum is product(sum, with_fresh_names(sum)).
Sum product(const Sum& a, const Sum& b);
Sum with_fresh_names(Sum sum);
Sum scaled(Sum sum, const Rational& factor);
Sum with_guards(const Sum& sum, const Guards& guards, const Indices& bound = {});
Sum joined(Sum a, const Sum& b);
Sum constant(const Rational& value);
std::optional<Rational> number(const Sum& sum);  // nullopt if it is not just a number
Sum single(Factor factor);

// Removes and returns the factors common to all terms that do not depend on their bound variables.
std::vector<Factor> take_common_factors(Sum& sum);
// Removes and returns the wanted factors common to all values of a maximum that do not depend on the elements' variables.
std::vector<Factor> take_common_factors(std::vector<MaximumElement>& elements,
                                        const std::function<bool(const Factor&)>& wanted);
// Removes and returns the addends common to all elements that do not depend on their bound variables.
Sum take_common_addends(std::vector<MaximumElement>& elements);

// Equality up to the names of bound variables.
bool is_same(const Term& a, const Term& b);
bool is_same(const Factor& a, const Factor& b);
bool same_value(const Sum& a, const Sum& b);

// The values of a maximum over finitely many, or of a minimum if its coefficient is negative; empty for anything else.
std::vector<Sum> alternatives(const Sum& sum, bool& is_maximum);

// Divides a term by the sum (without its coefficient) if it is recognized as a multiple. False: it is not.
bool take_sum(Term& term, const Term& sum);

// Eliminates variables determined by equations; nullopt if no values of the variables satisfy the guards.
std::optional<MaximumElement> simplified(const MaximumElement& element);

// Removes elements that never decide: duplicates, and numbers below another one.
void drop_repeated(std::vector<MaximumElement>& elements);

// A binary decision over the guards without the sum's bound variables: exhaustive, exclusive cases.
struct Case {
  Guards guards;
  Sum value;
};
std::vector<Case> cases(const Sum& sum);

Factor function(std::string name, const Function* law, std::vector<Sum> arguments);

// Terms can only be equal if their signatures are: their factors without positions.
std::string signature(const Factor& factor);
std::string signature(const Term& term);
std::string signature(const Sum& sum);

}  // namespace rewright::proof
