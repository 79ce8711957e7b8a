// Are two normal forms equal, for all values of all inputs?
//
// Terms are grouped by their factors. Bound variables are renamed by pivots: a position of an access in which the variable
// occurs alone with coefficient 1 or -1 determines it, so that sums become sums over positions. For each class of equal
// products, the solver is asked whether the guarded coefficients cancel pointwise. Maxima are compared as sets: is each value
// present on both sides under the same conditions?
#pragma once

#include <string>

#include "verifier/derivation.h"
#include "verifier/solver.h"
#include "verifier/terms.h"

namespace rewright::proof {

class Comparison {
 public:
  explicit Comparison(Solver& solver) : solver_(solver) {}

  // Do the assumptions imply that the sum is 0? False: not proved; `open_question()` then returns the open part. `derivation`,
  // if not null, receives the derivation.
  bool is_zero(const Sum& sum, const Guards& assumptions, Derivation* derivation = nullptr);
  const std::string& open_question() const { return open_; }

 private:
  // A term with its bound variables renamed.
  struct Canonical {
    Term term;
    std::vector<std::size_t> pivots;  // numbers of the positions that determine variables
    Indices variables, inverse;       // the new variables, pivots first, and their values in terms of the old ones
  };
  Canonical canonical(Term term, const std::string& prefix) const;
  bool equal(const Factor& a, const Factor& b, const Guards& assumptions, std::vector<Derivation>* parts);
  bool equal_maxima(const Factor& a, const Factor& b, const Guards& assumptions, Derivation* derivation);
  bool cancels(const std::vector<Term>& members, const Guards& assumptions);
  Sum without_known_indices(const Sum& sum, const Guards& assumptions);

  Solver& solver_;
  int depth_ = 0;
  std::string open_;
};

}  // namespace rewright::proof
