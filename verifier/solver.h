// Questions about integers, and the module that answers them with a solver (Z3).
//
// Questions are free of quantifiers except for covers. Floor divisions, remainders, minima and maxima become variables with
// their definitions; a definition q*D + r = e, 0 <= r < D is stated for D >= 1 only, so that it never contradicts. Lemmas of
// division are instantiated before non-linear arithmetic is tried: first monomials are unknowns, then products. Budgets count
// the solver's steps, not time, so that answers are the same on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verifier/guard.h"
#include "verifier/models.h"
#include "verifier/rational.h"

namespace rewright::proof {

enum class Answer { kProved, kRefuted, kUnknown, kError };
std::string_view name(Answer answer);

// coefficient where all guards hold, else 0
struct Indicator {
  Rational coefficient;
  Guards guards;
};

// Do the guards hold for some values of the bound variables?
struct Existence {
  Indices bound;
  Guards guards;
};

// A question as passed to the solver: the statement is proved if the assertions have no model.
struct Query {
  std::string text;         // SMT-LIB, before solving
  unsigned steps = 0;       // budget in solver steps
  bool quantified = false;  // only covers are
  Answer answer = Answer::kUnknown;
};

// Records questions. A repeated question is reported again, with its known answer.
class QueryObserver {
 public:
  virtual ~QueryObserver() = default;
  virtual void asked(const Query& query) = 0;     // before it is solved
  virtual void answered(const Query& query) = 0;  // its answer is there
};

// Solves a question as written.
using Engine = std::function<Answer(const Query&)>;
Engine linked_z3(unsigned seed);
// One for many proofs, one after another: its copies share what Z3 needs, which takes longer to make than most proofs.
Engine shared_z3(unsigned seed);

struct SolverOptions {
  unsigned linear_steps = 4000000;
  unsigned nonlinear_steps = 6000000;
  unsigned seed = 0;
  // Is the time over? Then questions that were not asked before stay unknown, so that a proof ends soon. Empty: it never is.
  std::function<bool()> ended = {};
  Engine engine = {};  // that verify() asks; empty: a new linked_z3()
};

class Solver {
 public:
  explicit Solver(SolverOptions options = {}) : Solver(options, linked_z3(options.seed)) {}
  Solver(SolverOptions options, Engine engine) : options_(options), engine_(std::move(engine)) {}
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;
  const SolverOptions& options() const { return options_; }
  void observe(QueryObserver* observer) { observer_ = observer; }  // null: nobody

  // Do the assumptions imply the goal? kRefuted: a model of the assumptions violates it.
  Answer implies(const Guards& assumptions, const Guard& goal);
  bool proves(const Guards& assumptions, const Guard& goal);
  // Without products of unknowns. For facts that help if they are found, and may be missed.
  bool proves_quickly(const Guards& assumptions, const Guard& goal);
  // Do the assumptions have no model?
  Answer contradictory(const Guards& assumptions);
  // Is the sum of the indicators 0 wherever the assumptions hold?
  Answer cancel(const Guards& assumptions, const std::vector<Indicator>& indicators);
  // Does one on the left hold exactly where one on the right does?
  Answer same_cover(const Guards& assumptions, const std::vector<Existence>& left, const std::vector<Existence>& right);

  const std::vector<Query>& queries() const { return queries_; }

 private:
  Answer solve(const std::string& text, unsigned steps, bool quantified);
  template <class Goal>
  Answer ask(const Guards& assumptions, const Goal& goal, bool quantified, bool quick = false);

  SolverOptions options_;
  Engine engine_;
  QueryObserver* observer_ = nullptr;
  std::vector<Query> queries_;
  std::map<std::string, Answer, std::less<>> answers_;  // by text
  Models models_;                                       // answers most false statements without the solver
};

}  // namespace rewright::proof
