#include "verifier/verify.h"

#include "operators/error.h"
#include "rules/instance.h"

namespace rewright {

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kProved:
      return "proved";
    case Outcome::kRefuted:
      return "refuted";
    case Outcome::kUndecided:
      break;
  }
  return "undecided";
}

Verdict verify(const Rule& rule, const VerifyOptions& options) {
  Verdict verdict;
  proof::Solver solver(options.solver);
  const proof::ProofSearch proof = proof::search_proof(rule, options.limits, solver);
  verdict.queries = solver.queries();
  verdict.explanation = proof.open_question;
  for (const Condition& c : proof.missing) verdict.missing.push_back(c.to_string());
  verdict.ranks = proof.ranks, verdict.all_ranks = proof.all_ranks, verdict.cases = proof.cases;
  if (proof.found) {
    verdict.outcome = Outcome::kProved;
    return verdict;
  }
  try {
    if (const RuleTest test = test_rule(rule, options.instances, options.seed); test.outcome == TestOutcome::kRefuted) {
      verdict.outcome = Outcome::kRefuted;
      verdict.explanation = test.counterexample;
    }
  } catch (const Error&) {  // no instance could be evaluated: undecided
  }
  return verdict;
}

}  // namespace rewright
