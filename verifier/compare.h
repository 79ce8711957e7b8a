// Are two normal forms equal, for all values of all inputs?
//
// Terms are grouped by what they consist of; bound variables are renamed by pivots (a position of an access in which the
// variable stands alone with coefficient 1 or -1 determines it), so that sums become sums over positions; for each class of
// equal products the solver is asked whether the guarded coefficients cancel pointwise. A maximum is compared as a set: for
// each value, whether it is there on both sides under the same conditions.
#pragma once

#include <string>

#include "verifier/solver.h"
#include "verifier/terms.h"

namespace rewright::proof {

class Comparison {
 public:
  explicit Comparison(Solver& solver) : solver_(solver) {}

  // Do the assumptions imply that the sum is 0? False: not shown; `open_question()` then says what was not.
  bool is_zero(const Sum& sum, const Guards& assumptions);
  const std::string& open_question() const { return open_; }

 private:
  bool equal(const Factor& a, const Factor& b, const Guards& assumptions);
  bool equal_maxima(const Factor& a, const Factor& b, const Guards& assumptions);
  Term canonical(Term term, const std::string& prefix, std::vector<std::size_t>& pivots) const;
  Sum without_known_indices(const Sum& sum, const Guards& assumptions);

  Solver& solver_;
  int depth_ = 0;
  std::string open_;
};

}  // namespace rewright::proof
