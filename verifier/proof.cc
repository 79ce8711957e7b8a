#include "verifier/proof.h"

#include <algorithm>

#include "operators/error.h"
#include "verifier/cases.h"
#include "verifier/compare.h"
#include "verifier/normal_form.h"

namespace rewright::proof {

namespace {

// The proof of one case: empty if it was found, else what stayed open.
class CaseProof {
 public:
  CaseProof(const Rule& rule, const SymbolicCase& c, Solver& solver) : rule_(rule), case_(c), solver_(solver) {}

  std::string run(std::vector<Condition>& missing) {
    SideConditions conditions;
    DefinedSide target;
    try {
      target = define_side(rule_, rule_.target, case_.inputs, case_.bindings, true, conditions);
    } catch (const Error& e) {
      return std::string("is the target well-typed: ") + e.what();
    }
    std::string open;
    for (const Condition& c : conditions.typing)
      if (!solver_.proves(case_.hypotheses, guard(c))) {
        if (std::none_of(missing.begin(), missing.end(), [&](const Condition& m) { return m.to_string() == c.to_string(); }))
          missing.push_back(c);
        open = "is the target well-typed: " + c.to_string();
      }
    if (!open.empty()) return open;
    for (std::size_t k = 0; k < rule_.source.outputs.size(); ++k)
      if (open = output(target, k); !open.empty()) return "output " + std::to_string(k) + ": " + open;
    return {};
  }

 private:
  std::string output(const DefinedSide& target, std::size_t k) {
    const PatternValue &left = rule_.source.outputs[k], &right = rule_.target.outputs[k];
    const TensorType &a = type_of(case_.source, left), &b = type_of(target, right);
    const std::string types = "is it of one type: " + to_string(a) + " and " + to_string(b);
    if (a.type != b.type || a.rank() != b.rank()) return types;
    Guards known = case_.hypotheses;
    Indices position;
    for (std::size_t n = 0; n < a.rank(); ++n) {
      if (!(a.shape[n] == b.shape[n]) && !solver_.proves(case_.hypotheses, zero(a.shape[n] - b.shape[n]))) return types;
      position.push_back(Index::symbol("o!" + std::to_string(n)));
      for (const Guard& g : within(position.back(), a.shape[n])) known.push_back(g);
    }
    const Sum difference = joined(Normalizer(case_.source, known, solver_).at(left, position),
                                  scaled(Normalizer(target, known, solver_).at(right, position), -1));
    Comparison comparison(solver_);
    return comparison.is_zero(difference, known) ? "" : comparison.open_question();
  }

  const Rule& rule_;
  const SymbolicCase& case_;
  Solver& solver_;
};

void search(const Rule& rule, const ProofLimits& limits, Solver& solver, ProofSearch& result) {
  CaseEnumerator cases(rule, solver);
  const std::size_t largest = cases.largest_rank(limits.maximum_rank);
  bool any_model = false, stopped = false;
  for (std::size_t rank = 0; rank <= largest && !stopped; ++rank) {
    std::string open;
    const std::size_t before = result.cases;
    const bool done = cases.for_each(rank, [&](const SymbolicCase& c) {
      if (result.cases >= limits.maximum_cases && any_model) {
        stopped = true;
        return false;
      }
      ++result.cases;
      any_model |= c.has_model;
      open = CaseProof(rule, c, solver).run(result.missing);
      if (!open.empty()) open += " (" + c.to_string() + ")";
      return open.empty();
    });
    if (!open.empty()) {
      result.open_question = open;
      return;
    }
    if (done) {
      result.ranks = rank;
    } else {
      result.cases = before;
    }
  }
  if (!any_model) {
    result.open_question =
        result.cases == 0 ? "no sizes satisfy the conditions" : "no sizes were found that satisfy the conditions";
    return;
  }
  result.all_ranks = result.ranks == largest;
  result.found = true;
}

}  // namespace

ProofSearch search_proof(const Rule& rule, const ProofLimits& limits, Solver& solver) {
  ProofSearch result;
  try {
    search(rule, limits, solver, result);
  } catch (const Error& e) {
    result.open_question = e.what();
  }
  return result;
}

}  // namespace rewright::proof
