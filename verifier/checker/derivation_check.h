// Follows derivations: checks step by step, without a search, that a sum is 0.
//
// Properties of sums: a bijection of the summation variables changes nothing; terms over the same variables with the same
// product of factors are added by adding coefficients where their guards hold. Of maxima: equal sets have equal maxima.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "verifier/checker/questions.h"
#include "verifier/derivation.h"
#include "verifier/sum.h"

namespace rewright::proof {

class DerivationCheck {
 public:
  // `rank`: of the checked output, at the position o!0, o!1, ... Throws Refusal if a content mentions what is not in scope.
  DerivationCheck(Questions& questions, std::size_t rank, const Contents& contents);

  // Throws Refusal unless the derivation shows that two normal forms are equal under the assumptions.
  void difference_is_zero(const Sum& a, const Sum& b, const Guards& assumptions, const Derivation& derivation);

 private:
  struct Image;
  void zero(const Sum& sum, const Guards& assumptions, const Derivation& derivation, int depth);
  Image image(const Term& term, const Member& member, const MemberClass& c, const Guards& assumptions, bool bijective);
  void equal(const Image& a, const Image& b, const Member& member, const Guards& assumptions, int depth);
  void equal(const Factor& a, const Factor& b, const Guards& assumptions, const std::vector<Derivation>& parts,
             std::size_t& next, int depth);
  void equal_maxima(const Factor& a, const Factor& b, const Guards& assumptions, const Derivation& derivation, int depth);
  void same(const Index& a, const Index& b, const Guards& assumptions);
  void implied(const Guards& assumptions, const Guard& goal);
  void vanishes(const Term& term, const Guards& assumptions);

  Solver &recorded_, &own_;
  // Variables that are not sizes: the position, contents, and those of enclosing classes.
  std::set<std::string, std::less<>> scope_;
};

}  // namespace rewright::proof
