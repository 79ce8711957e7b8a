// Questions about integers, and the solver that answers them (Z3), behind one module.
//
// Questions are free of quantifiers but for covers. Floor divisions, remainders, minima and maxima become variables with
// their definitions; a definition q*D + r = e, 0 <= r < D is stated for D >= 1 only, so that it never contradicts. Lemmas of
// division are instantiated before non-linear arithmetic is tried: first monomials are unknowns of their own, then products.
// Budgets are counted in steps of the solver, never in time: an answer is the same on every machine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/guard.h"
#include "verifier/rational.h"

namespace rewright::proof {

enum class Answer { kProved, kRefuted, kUnknown, kError };
std::string_view name(Answer answer);

// coefficient where all guards hold, else 0
struct Indicator {
  Rational coefficient;
  Guards guards;
};

// The guards hold for some values of the bound variables.
struct Existence {
  Indices bound;
  Guards guards;
};

// One question as it was put to the solver: the statement is proved if the assertions have no model.
struct Query {
  std::string text;  // SMT-LIB, written before it is solved
  Answer answer = Answer::kUnknown;
};

struct SolverOptions {
  unsigned linear_steps = 4000000;
  unsigned nonlinear_steps = 6000000;
  unsigned seed = 0;
};

class Solver {
 public:
  explicit Solver(SolverOptions options = {});
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // Do the assumptions imply the goal? kRefuted: there is a model of the assumptions where it does not hold.
  Answer implies(const Guards& assumptions, const Guard& goal);
  bool proves(const Guards& assumptions, const Guard& goal);
  // The same without products of unknowns: for what is of use if it is so, and no loss if it is not seen.
  bool proves_quickly(const Guards& assumptions, const Guard& goal);
  // Are the assumptions without a model?
  Answer contradictory(const Guards& assumptions);
  // Is the sum of the indicators 0 wherever the assumptions hold?
  Answer cancel(const Guards& assumptions, const std::vector<Indicator>& indicators);
  // Does one of the left hold exactly where one of the right does?
  Answer same_cover(const Guards& assumptions, const std::vector<Existence>& left, const std::vector<Existence>& right);

  const std::vector<Query>& queries() const { return queries_; }

 private:
  Answer solve(const std::string& text, unsigned steps, bool quantified);
  template <class Goal>
  Answer ask(const Guards& assumptions, const Goal& goal, bool quantified, bool quick = false);

  struct Z3;
  SolverOptions options_;
  std::unique_ptr<Z3> z3_;
  std::vector<Query> queries_;
  std::map<std::string, Answer, std::less<>> answers_;  // by text
};

}  // namespace rewright::proof
