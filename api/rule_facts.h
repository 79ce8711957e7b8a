// What is known of rules, and what proving them says, as JSON: for `rewright rules` and `rewright verify` as well as for
// others.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
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

// {"name", "verdict", "conditions", "ranks", "seconds"}, and what belongs to the verdict: "counterexample", "question" or
// "error"; "suggested_conditions" where there are any.
nlohmann::json facts_of(const Rule& rule, const VerifiedRule& result);

// A rule that was proved, as databases hold it: with the conditions that were added, and the proof.
Rule proved_rule(const proof::Verdict& verdict);

// Rules that may lack a proof, with one. Throws Error(kBadInput) for the first that is not proved, with the counterexample or
// the question that stays open.
std::vector<Rule> with_proofs(std::vector<Rule> rules);

// Verifies rules on several threads; results are in the order of the rules. `progress` (may be empty) is called after each, by
// one thread at a time: how many are done, and which was the last. Throws Error(kCancelled) if `cancel` asked for it before all
// were begun.
std::vector<VerifiedRule> verify_rules(const std::vector<Rule>& rules, const proof::VerifyOptions& options, int threads,
                                       const std::function<void(std::size_t done, const Rule& last)>& progress,
                                       std::stop_token cancel = {});

}  // namespace rewright::api
