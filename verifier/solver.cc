#include "verifier/solver.h"

#include <z3++.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "verifier/smt_writer.h"

namespace rewright::proof {

using internal::SmtWriter;

std::string_view name(Answer answer) {
  switch (answer) {
    case Answer::kProved:
      return "proved";
    case Answer::kRefuted:
      return "refuted";
    case Answer::kUnknown:
      return "unknown";
    case Answer::kError:
      break;
  }
  return "error";
}

namespace {

// Fourier-Motzkin elimination: a variable between bounds exists if each lower bound is at most each upper one. Exact for
// integers if the variable has coefficient 1 or -1.
Existence without_quantifiers(Existence e) {
  for (std::size_t i = 0; i < e.bound.size();) {
    const Index variable = e.bound[i];
    Guards kept;
    std::vector<Index> lower, upper;  // bounds that must not be exceeded, without the variable
    bool alone = true;
    for (const Guard& g : e.guards) {
      if (!occurs(variable, g)) {
        kept.push_back(g);
        continue;
      }
      const int c = g.kind == Guard::Kind::kNonNegative ? unit_coefficient(g.value, variable) : 0;
      alone = alone && c != 0;
      (c > 0 ? lower : upper).push_back(g.value - Index(c) * variable);
    }
    if (!alone) {
      ++i;
      continue;
    }
    for (const Index& l : lower)
      for (const Index& u : upper) kept.push_back(non_negative(l + u));
    e.guards = std::move(kept);
    e.bound.erase(e.bound.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return e;
}

}  // namespace

Engine linked_z3(unsigned seed) {
  // Making a context takes longer than most proofs, which ask nothing.
  return [context = std::shared_ptr<z3::context>(), seed](const Query& query) mutable {
    try {
      if (!context) context = std::make_shared<z3::context>();
      z3::solver solver = query.quantified ? z3::solver(*context) : z3::solver(*context, z3::solver::simple());
      z3::params parameters(*context);
      parameters.set("rlimit", query.steps);
      parameters.set("random_seed", seed);
      solver.set(parameters);
      solver.from_string(query.text.c_str());
      switch (solver.check()) {
        case z3::unsat:
          return Answer::kProved;
        case z3::sat:
          return Answer::kRefuted;
        case z3::unknown:
          break;
      }
      return Answer::kUnknown;
    } catch (const z3::exception&) {
      return Answer::kError;
    }
  };
}

Engine shared_z3(unsigned seed) {
  return [engine = std::make_shared<Engine>(linked_z3(seed))](const Query& query) { return (*engine)(query); };
}

Answer Solver::solve(const std::string& text, unsigned steps, bool quantified) {
  Query query{text, steps, quantified};
  if (observer_) observer_->asked(query);
  const auto known = answers_.find(text);
  if (known == answers_.end()) {
    if (options_.ended && options_.ended()) return Answer::kUnknown;
    queries_.push_back(query);
    query.answer = engine_(query);
    queries_.back().answer = query.answer;
    answers_.emplace(text, query.answer);
  } else {
    query.answer = known->second;
  }
  if (observer_) observer_->answered(query);
  return query.answer;
}

template <class Goal>
Answer Solver::ask(const Guards& assumptions, const Goal& goal, bool quantified, bool quick) {
  // Less detailed questions are answered sooner, if at all.
  Answer answer = Answer::kUnknown;
  for (const auto detail : {SmtWriter::Detail::kOpaque, SmtWriter::Detail::kLinear, SmtWriter::Detail::kExact}) {
    if (quick && detail == SmtWriter::Detail::kExact) break;
    SmtWriter writer(assumptions, detail);
    if (!goal(writer)) return Answer::kUnknown;
    const std::string text = writer.text();
    answer = solve(text, detail == SmtWriter::Detail::kExact ? options_.nonlinear_steps : options_.linear_steps, quantified);
    if (answer == Answer::kProved || !writer.is_abstract()) return answer;
  }
  return answer;
}

Answer Solver::implies(const Guards& assumptions, const Guard& goal) {
  if (goal.decided() == true) return Answer::kProved;
  for (const Guard& a : assumptions)
    if (surely_implies(a, goal)) return Answer::kProved;
  if (models_.refutes(assumptions, goal)) return Answer::kRefuted;
  return ask(
      assumptions,
      [&](SmtWriter& writer) {
        writer.require(goal.negated());
        return true;
      },
      false);
}

bool Solver::proves(const Guards& assumptions, const Guard& goal) { return implies(assumptions, goal) == Answer::kProved; }

bool Solver::proves_quickly(const Guards& assumptions, const Guard& goal) {
  if (const auto decided = goal.decided()) return *decided;
  for (const Guard& a : assumptions)
    if (surely_implies(a, goal)) return true;
  if (goal.kind == Guard::Kind::kNonNegative && surely_positive(goal.value + 1, assumptions)) return true;
  if (models_.refutes(assumptions, goal)) return false;
  const auto require = [&](SmtWriter& writer) {
    writer.require(goal.negated());
    return true;
  };
  return ask(assumptions, require, false, true) == Answer::kProved;
}

Answer Solver::contradictory(const Guards& assumptions) {
  if (surely_contradictory(assumptions)) return Answer::kProved;
  if (models_.satisfies(assumptions)) return Answer::kRefuted;
  return ask(
      assumptions, [](SmtWriter&) { return true; }, false);
}

Answer Solver::cancel(const Guards& assumptions, const std::vector<Indicator>& indicators) {
  return ask(
      assumptions,
      [&](SmtWriter& writer) {
        writer.require_some_nonzero_sum(indicators);
        return true;
      },
      false);
}

Answer Solver::same_cover(const Guards& assumptions, const std::vector<Existence>& left, const std::vector<Existence>& right) {
  std::vector<Existence> x, y;
  for (const Existence& e : left) x.push_back(without_quantifiers(e));
  for (const Existence& e : right) y.push_back(without_quantifiers(e));
  const auto covered = [](const std::vector<Existence>& some, const std::vector<Existence>& others) {
    return std::all_of(some.begin(), some.end(), [&](const Existence& e) {
      return std::any_of(others.begin(), others.end(), [&](const Existence& f) {
        return e.bound.empty() && f.bound.empty() && same_guards(e.guards, f.guards);
      });
    });
  };
  if (covered(x, y) && covered(y, x)) return Answer::kProved;
  return ask(
      assumptions, [&](SmtWriter& writer) { return writer.require_different_covers(x, y); }, true);
}

}  // namespace rewright::proof
