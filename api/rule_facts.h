// Facts of rules, and results of proving them, as JSON: for `rewright rules`, `rewright verify` and other programs.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <vector>

#include "rules/rule.h"
#include "verifier/verify.h"

namespace rewright::api {

// {"name", "description", "math", "for_training", "origin", "hash", "status", "ranks", "digest", "certificate", "note",
// "algebra"}
nlohmann::json facts_of(const Rule& rule);

struct VerifiedRule {
  proof::Verdict verdict;
  double seconds = 0;
};

// {"name", "verdict", "conditions", "ranks", "any_rank", "seconds"}, and with the verdict "bounded_by" (why it is not known to
// hold for all ranks), "counterexample", "question" or "error"; "suggested_conditions" where there are any.
nlohmann::json facts_of(const Rule& rule, const VerifiedRule& result);

// The proved rule of a verdict, as databases hold it: with the conditions that were added, and the proof.
Rule proved_rule(const proof::Verdict& verdict);

// Proves the rules that have no proof. Throws Error(kBadInput) for the first that is not proved, with the counterexample or
// the open question.
std::vector<Rule> with_proofs(std::vector<Rule> rules);

// Verifies rules on several threads; results are in the order of the rules. `progress` (may be empty) is called after each, by
// one thread at a time, with the number of rules done and the last one. Throws Error(kCancelled) if `cancel` asked for it
// before all were begun.
std::vector<VerifiedRule> verify_rules(const std::vector<Rule>& rules, const proof::VerifyOptions& options, int threads,
                                       const std::function<void(std::size_t done, const Rule& last)>& progress,
                                       std::stop_token cancel = {});

}  // namespace rewright::api
