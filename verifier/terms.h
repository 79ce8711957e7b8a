// The laws of normal forms: sums are simplified, multiplied, and split into cases.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verifier/sum.h"

namespace rewright::proof {

// Bound variables that equations determine are eliminated, trivial guards dropped, terms that are surely 0 too.
Sum simplified(const Sum& sum);
// Their bound variables must be different: a sum times itself is product(sum, with_fresh_names(sum)).
Sum product(const Sum& a, const Sum& b);
Sum with_fresh_names(Sum sum);
Sum scaled(Sum sum, const Rational& factor);
Sum with_guards(const Sum& sum, const Guards& guards, const Indices& bound = {});
Sum joined(Sum a, const Sum& b);
Sum constant(const Rational& value);
std::optional<Rational> number(const Sum& sum);  // nothing if it is more than a number
Sum single(Factor factor);

// Takes away the factors that all terms have and that do not depend on their bound variables.
std::vector<Factor> take_common_factors(Sum& sum);
// As above, of all values of a maximum, for the wanted factors; those that depend on no element's variables.
std::vector<Factor> take_common_factors(std::vector<MaximumElement>& elements,
                                        const std::function<bool(const Factor&)>& wanted);
// Takes away the terms that all elements have and that do not depend on their bound variables.
Sum take_common_addends(std::vector<MaximumElement>& elements);

// Independent of the names of bound variables.
bool is_same(const Term& a, const Term& b);
bool is_same(const Factor& a, const Factor& b);

// Takes the sum, its coefficient left aside, out of a term that is a multiple of it. False: it is not seen to be one.
bool take_sum(Term& term, const Term& sum);

// The element with variables eliminated that equations determine. Nothing: no values of the variables satisfy the guards.
std::optional<MaximumElement> simplified(const MaximumElement& element);

// Takes away elements that never decide: those that are there twice, numbers below another one.
void drop_repeated(std::vector<MaximumElement>& elements);

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

}  // namespace rewright::proof
