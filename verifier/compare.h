// Are two normal forms equal, for all values of all inputs?
//
// Terms are grouped by what they consist of; bound variables are renamed by pivots (a position of an access in which the
// variable stands alone with coefficient 1 or -1 determines it), so that sums become sums over positions; for each class of
// equal products the solver is asked whether the guarded coefficients cancel pointwise. A maximum is compared as a set: for
// each value, whether it is there on both sides under the same conditions.
#pragma once

#include <string>

#include "verifier/derivation.h"
#include "verifier/solver.h"
#include "verifier/terms.h"

namespace rewright::proof {

class Comparison {
 public:
  explicit Comparison(Solver& solver) : solver_(solver) {}

  // Do the assumptions imply that the sum is 0? False: not shown; `open_question()` then says what was not. How it was shown
  // is told to whom wants to know.
  bool is_zero(const Sum& sum, const Guards& assumptions, Derivation* derivation = nullptr);
  const std::string& open_question() const { return open_; }

 private:
  // A term with its bound variables renamed.
  struct Canonical {
    Term term;
    std::vector<std::size_t> pivots;  // the numbers of the positions that determine variables
    Indices variables, inverse;       // the new ones, pivots first, and what they are in terms of the old ones
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
