#include "api/rule_facts.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "rules/io.h"

namespace rewright::api {

namespace {

std::string hexadecimal(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

}  // namespace

nlohmann::json facts_of(const Rule& rule) {
  return {{"name", rule.name},
          {"description", rule.description},
          {"math", name(rule.math)},
          {"for_training", rule.for_training},
          {"origin", name(rule.origin)},
          {"hash", hexadecimal(hash(rule))},
          {"status", name(rule.proof.status)},
          {"ranks", rule.proof.ranks},
          {"digest", rule.proof.digest},
          {"certificate", rule.proof.certificate},
          {"note", rule.proof.note},
          {"algebra", to_algebra(rule)}};
}

nlohmann::json facts_of(const Rule& rule, const VerifiedRule& result) {
  const proof::Verdict& v = result.verdict;
  nlohmann::json facts = {{"name", rule.name}, {"verdict", name(v.outcome)}, {"conditions", v.conditions},
                          {"ranks", v.ranks},  {"any_rank", v.any_rank},     {"seconds", result.seconds}};
  if (v.outcome == proof::Outcome::kProved && !v.any_rank) facts["bounded_by"] = v.bounded_by;
  if (v.outcome == proof::Outcome::kRefuted) facts["counterexample"] = v.explanation;
  if (v.outcome == proof::Outcome::kUndecided) facts["question"] = v.explanation;
  if (v.outcome == proof::Outcome::kInvalid) facts["error"] = v.explanation;
  if (!v.suggested_conditions.empty()) facts["suggested_conditions"] = v.suggested_conditions;
  return facts;
}

Rule proved_rule(const proof::Verdict& verdict) {
  Rule rule = verdict.rule;
  rule.proof = {};
  rule.proof.status = RuleStatus::kProved;
  rule.proof.method = "normal forms, Z3";
  rule.proof.certificate = verdict.certificate, rule.proof.digest = verdict.digest;
  rule.proof.ranks = verdict.any_rank ? 0 : static_cast<std::uint32_t>(std::max<std::size_t>(1, verdict.ranks));
  return rule;
}

std::vector<Rule> with_proofs(std::vector<Rule> rules) {
  for (Rule& rule : rules) {
    if (rule.proof.status == RuleStatus::kProved) continue;
    const proof::Verdict verdict = proof::verify(rule);
    if (verdict.outcome != proof::Outcome::kProved)
      throw Error(ErrorCode::kBadInput, std::string(name(verdict.outcome)) + ": " + verdict.explanation, "rule " + rule.name,
                  "rewright verify says more");
    rule = proved_rule(verdict);
  }
  return rules;
}

std::vector<VerifiedRule> verify_rules(const std::vector<Rule>& rules, const proof::VerifyOptions& options, int threads,
                                       const std::function<void(std::size_t done, const Rule& last)>& progress,
                                       std::stop_token cancel) {
  std::vector<VerifiedRule> results(rules.size());
  std::mutex mutex;
  std::atomic<std::size_t> next = 0;
  std::size_t done = 0;
  const auto work = [&] {
    while (!cancel.stop_requested()) {
      const std::size_t i = next++;
      if (i >= rules.size()) return;
      const auto start = std::chrono::steady_clock::now();
      results[i].verdict = proof::verify(rules[i], options);
      results[i].seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      const std::lock_guard lock(mutex);
      ++done;
      if (progress) progress(done, rules[i]);
    }
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  others.clear();
  if (done < rules.size()) throw Error(ErrorCode::kCancelled, "the rules were not all verified");
  return results;
}

}  // namespace rewright::api
