#include "tests/mutants/examine.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "rules/tester.h"

namespace rewright::testing {

namespace {

constexpr std::uint64_t kSeed = 0x5eed;  // the verifier samples with seed 1

Examined examine(const Mutant& mutant, int instances) {
  using Finding = Examined::Finding;
  const proof::Verdict verdict = proof::verify(mutant.rule);
  if (verdict.outcome == proof::Outcome::kRefuted) return {Finding::kRefuted, verdict.explanation};
  if (verdict.outcome == proof::Outcome::kInvalid) return {Finding::kVoid, verdict.explanation};
  RuleTest test;
  std::string note;
  try {
    test = test_rule(verdict.rule, instances, kSeed);
  } catch (const Error& e) {  // no instance can be evaluated
    note = std::string("; ") + e.what();
  }
  if (verdict.outcome == proof::Outcome::kProved) {
    if (test.outcome == TestOutcome::kRefuted) return {Finding::kUnsound, to_string(verdict.rule, *test.counterexample)};
    std::string conditions;
    for (const std::string& c : verdict.conditions) conditions += (conditions.empty() ? "where " : ", ") + c;
    return {Finding::kProved,
            conditions + (conditions.empty() ? "" : ": ") + std::to_string(test.instances) + " instances agree"};
  }
  if (test.outcome == TestOutcome::kTooFew && test.instances == 0) return {Finding::kVoid, verdict.explanation};
  return {Finding::kUndecided, verdict.explanation + note};
}

}  // namespace

std::string_view name(Examined::Finding finding) {
  switch (finding) {
    case Examined::Finding::kRefuted:
      return "refuted";
    case Examined::Finding::kProved:
      return "proved";
    case Examined::Finding::kVoid:
      return "void";
    case Examined::Finding::kUndecided:
      return "undecided";
    case Examined::Finding::kUnsound:
      return "unsound";
  }
  return "";
}

std::vector<Examined> examine(const std::vector<Mutant>& mutants, int instances, int threads) {
  std::vector<Examined> results(mutants.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < mutants.size(); i = next++) {
      const auto start = std::chrono::steady_clock::now();
      results[i] = examine(mutants[i], instances);
      results[i].seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int t = 1; t < threads; ++t) helpers.emplace_back(work);
    work();
  }
  return results;
}

}  // namespace rewright::testing
