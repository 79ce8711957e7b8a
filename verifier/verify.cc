#include "verifier/verify.h"

#include <memory>
#include <optional>
#include <random>

#include "base/error.h"
#include "graph/file.h"
#include "rules/tester.h"
#include "verifier/conditions.h"
#include "verifier/suggestions.h"

namespace rewright::proof {

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kProved:
      return "proved";
    case Outcome::kRefuted:
      return "refuted";
    case Outcome::kInvalid:
      return "invalid";
    case Outcome::kUndecided:
      break;
  }
  return "undecided";
}

namespace {

constexpr unsigned kQuick = 10;                            // the share of the budget spent at first: 1 / kQuick
constexpr int kQuickInstances = 20, kQuickAttempts = 300;  // instances sampled at first, and attempts for each
constexpr int kWide = 5;                                   // times as many are sampled before a rule is left undecided

class Verifier {
 public:
  Verifier(const Rule& rule, const VerifyOptions& options) : options_(options) { verdict_.rule = rule; }

  Verdict run() {
    proof::ProofSearch proof = prove();
    proof::Solver solver(options_.solver, engine());
    if (ended() && !proof.found) return std::move(verdict_);
    if (proof.empty) {
      verdict_.outcome = Outcome::kInvalid;
      verdict_.explanation = proof::why_empty(verdict_.rule, options_.limits, solver);
      return std::move(verdict_);
    }
    bool never_typed = false;
    if (!proof.found && proof.ill_typed) {
      const proof::TargetNeeds needs = proof::find_needs(verdict_.rule, options_.limits, solver);
      never_typed = needs.any_case && !needs.ever_typed;
      if (needs.found && !needs.conditions.empty()) {
        const Rule as_written = verdict_.rule;
        add(needs.conditions);
        proof = prove();
        if (!proof.found) {
          refute(never_typed);
          if (verdict_.outcome != Outcome::kUndecided) return finish();
          // Conditions do not help: the target is ill-typed somewhere.
          verdict_.rule = as_written;
          verdict_.conditions.clear();
        }
      }
    }
    if (!proof.found && !ended()) refute(never_typed);
    return finish();
  }

 private:
  bool ended() const { return options_.solver.ended && options_.solver.ended(); }

  Verdict finish() {
    if (ended()) return std::move(verdict_);
    if (verdict_.outcome == Outcome::kRefuted || verdict_.outcome == Outcome::kUndecided) suggest();
    return std::move(verdict_);
  }

  // An unanswered question gets its whole budget only if sampling finds no counterexample: most false rules leave such
  // questions, and few true ones do.
  proof::Engine engine() {
    const proof::Engine& given = options_.solver.engine;
    return [this, z3 = given ? given : proof::linked_z3(options_.solver.seed)](const proof::Query& query) {
      proof::Query quick = query;
      quick.steps = quick.steps / kQuick + 1;  // 0 would be no limit
      const proof::Answer answer = z3(quick);
      return answer != proof::Answer::kUnknown || surely_wrong() ? answer : z3(query);
    };
  }

  bool surely_wrong() {
    if (!surely_wrong_) {
      surely_wrong_ = false;
      try {
        InstanceSampler sampler(verdict_.rule, options_.seed);
        std::mt19937_64 random(options_.seed);
        for (int n = 0; n < kQuickInstances && !*surely_wrong_; ++n)
          if (const auto instance = sampler.sample(kQuickAttempts)) {
            const auto difference = compare_sides(verdict_.rule, *instance, n, random);
            surely_wrong_ = difference && difference->kind == SideDifference::Kind::kValue;
          }
      } catch (const Error&) {  // it cannot be evaluated
      }
    }
    return *surely_wrong_;
  }

  // For the current form of the rule.
  proof::ProofSearch prove() {
    proof::Solver solver(options_.solver, engine());
    std::unique_ptr<proof::Recording> recording;
    if (const auto& folder = options_.certificates; !folder.empty())
      recording =
          std::make_unique<proof::Recording>(verdict_.rule, options_.solver, folder / (verdict_.rule.name + ".questions.smt2"));
    proof::ProofSearch proof = proof::search_proof(verdict_.rule, options_.limits, solver, recording.get());
    if (proof.found && proof.has_contents && !options_.limits.positions_are_inside && has_counterexample()) {
      proof.found = false;
      proof.open_question = "are the target's positions within the tensor wherever the source's are";
    }
    // An answer that is missing for want of time may be missing in the proof.
    if (ended()) proof.found = false;
    if (recording && proof.found) write(recording->finish(proof));
    verdict_.outcome = proof.found ? Outcome::kProved : Outcome::kUndecided;
    verdict_.explanation = proof.open_question;
    verdict_.ranks = proof.ranks, verdict_.all_ranks = proof.all_ranks, verdict_.cases = proof.cases;
    verdict_.any_rank = proof.any_rank, verdict_.bounded_by = proof.bounded_by;
    verdict_.queries = solver.queries();
    return proof;
  }

  void write(const proof::Certificate& certificate) {
    const std::string bytes = proof::write_certificate(certificate);
    verdict_.certificate = verdict_.rule.name + ".certificate";
    verdict_.digest = proof::hexadecimal(proof::sha256(bytes));
    write_file(options_.certificates / verdict_.certificate, bytes);
  }

  void add(const std::vector<proof::RuleCondition>& conditions) {
    for (const proof::RuleCondition& c : conditions) {
      c.add_to(verdict_.rule);
      verdict_.conditions.push_back(c.to_string());
    }
  }

  // Searches missing conditions, and adds them if requested.
  void suggest() {
    if (!options_.suggest_conditions && !options_.infer_conditions) return;
    const RuleInstance* instance = counterexample_ ? &counterexample_->instance : nullptr;
    proof::SolverOptions quick = options_.solver;
    quick.linear_steps = quick.linear_steps / kQuick + 1;
    quick.nonlinear_steps = quick.nonlinear_steps / kQuick + 1;
    proof::Solver solver(quick);
    const auto conditions = proof::suggest_conditions(verdict_.rule, instance, options_.limits, solver, options_.seed);
    if (conditions.empty()) return;
    if (options_.infer_conditions) {
      add(conditions);
      prove();
    } else {
      for (const proof::RuleCondition& c : conditions) verdict_.suggested_conditions.push_back(c.to_string());
    }
  }

  bool has_counterexample() const {
    if (options_.instances == 0) return false;
    try {
      return test_rule(verdict_.rule, options_.instances, options_.seed).counterexample ||
             test_rule_widely(verdict_.rule, kWide * options_.instances, options_.seed).counterexample;
    } catch (const Error&) {  // instances cannot be evaluated
      return false;
    }
  }

  void refute(bool never_typed) {
    if (options_.instances == 0) return;
    try {
      counterexample_ = test_rule(verdict_.rule, options_.instances, options_.seed).counterexample;
      if (!counterexample_)
        counterexample_ = test_rule_widely(verdict_.rule, kWide * options_.instances, options_.seed).counterexample;
      if (!counterexample_) return;
      const bool ill_typed = counterexample_->difference.kind == SideDifference::Kind::kIllTyped;
      verdict_.outcome = never_typed && ill_typed ? Outcome::kInvalid : Outcome::kRefuted;
      verdict_.explanation = to_string(verdict_.rule, *counterexample_);
    } catch (const Error&) {  // instances cannot be evaluated: undecided
    }
  }

  const VerifyOptions& options_;
  Verdict verdict_;
  std::optional<Counterexample> counterexample_;
  std::optional<bool> surely_wrong_;
};

}  // namespace

Verdict verify(const Rule& rule, const VerifyOptions& options) { return Verifier(rule, options).run(); }

}  // namespace rewright::proof
