#include "equivalence/statement_prover.h"

#include "equivalence/rewriting_search.h"
#include "graph/file.h"
#include "rules/io.h"
#include "verifier/checker/check.h"
#include "verifier/verify.h"

namespace rewright::equivalence {

namespace {

// A statement that is wrong may take any time, and others would have none.
constexpr double kPartOfTime = 0.15, kLeastSeconds = 1;

proof::VerifyOptions quick_verification(const std::filesystem::path& certificates, const std::function<bool()>& ended) {
  proof::VerifyOptions options;
  options.instances = 0;
  options.suggest_conditions = false;
  options.solver.linear_steps = 400000, options.solver.nonlinear_steps = 600000;
  options.solver.ended = ended;
  options.certificates = certificates;
  return options;
}

}  // namespace

std::string key_of(const Statement& statement) {
  try {
    return to_algebra(rule_of(statement, SizesInRule::kAsGiven));
  } catch (const Error&) {  // no rule can say it
    return {};
  }
}

bool StatementProver::prove(const Statement& statement, Step& step, std::string& reason, bool thorough) {
  const std::string key = key_of(statement);
  thorough = thorough && statement.graph.nodes().size() > kMostInRule;
  if (const auto known = refused_.find(key); !key.empty() && known != refused_.end() && (known->second || !thorough)) {
    ++cached_;
    return false;
  }
  if (rewrites(statement, key, step, thorough)) {
    ++by_rewriting_;
  } else if (!key.empty() && follows_from_rule(statement, step, reason)) {
    ++by_rule_;
  } else {
    if (!key.empty()) refused_[key] = thorough;
    return false;
  }
  return true;
}

bool StatementProver::prove_by(const Form& form, const Statement& statement, Step& step) {
  if (may_be_less_defined(statement)) return false;
  std::optional<std::vector<Application>> followed = follow_form(form, statement, rules_);
  if (!followed) return false;
  step.kind = Step::Kind::kRewriting;
  step.applications = std::move(*followed);
  if (const std::string key = key_of(statement); !key.empty()) rewrites_[key] = step.applications;
  ++by_rewriting_;
  return true;
}

bool StatementProver::rewrites(const Statement& statement, const std::string& key, Step& step, bool thorough) {
  if (statement.graph.nodes().size() > kMostInGraph || may_be_less_defined(statement)) return false;
  step.kind = Step::Kind::kRewriting;
  if (const auto known = rewrites_.find(key); !key.empty() && known != rewrites_.end()) {
    if (proves(statement, rules_, known->second)) {
      ++cached_;
      step.applications = known->second;
      return true;
    }
  }
  std::optional<std::vector<Application>> found = search_rewrites(statement, rules_, {});
  if (!found && thorough && !ended()) found = search_rewrites(statement, rules_, kLongEffort);
  if (!found) return false;
  step.applications = std::move(*found);
  if (!key.empty()) rewrites_[key] = step.applications;
  return true;
}

bool StatementProver::follows_from_rule(const Statement& statement, Step& step, std::string& reason) {
  if (statement.graph.nodes().size() > kMostInRule) {
    reason = "the equation has " + std::to_string(statement.graph.nodes().size()) + " nodes";
    return false;
  }
  if (may_be_less_defined(statement) && !may_read_outside(statement)) {
    reason = "it is open whether the second model is defined where the first one is";
    return false;
  }
  if (may_read_outside(statement)) {
    reason = "it is open whether positions that are elements are within the tensor";
    return false;
  }
  for (const SizesInRule sizes : {SizesInRule::kAny, SizesInRule::kAsGiven}) {
    if (ended()) return false;
    const std::optional<std::string> certificate = proved_rule(statement, sizes, reason);
    if (!certificate) continue;
    step.kind = Step::Kind::kRule;
    step.applications.clear();
    step.certificate = *certificate, step.sizes = sizes;
    return true;
  }
  return false;
}

// The name of the certificate, of each rule once.
std::optional<std::string> StatementProver::proved_rule(const Statement& statement, SizesInRule sizes, std::string& reason) {
  Rule rule;
  try {
    rule = rule_of(statement, sizes);
  } catch (const Error& error) {
    reason = error.what();
    return std::nullopt;
  }
  const std::string text = to_algebra(rule);
  auto known = proved_.find(text);
  if (known == proved_.end()) {
    rule.name = names_ + "equation_" + std::to_string(proved_.size());
    const std::filesystem::path folder = certificate_.empty() ? "" : certificate_ / "equations";
    if (!folder.empty()) std::filesystem::create_directories(folder);
    const double left = seconds_left_();
    const auto is_over = [&] {
      const double now = seconds_left_();
      return now <= 0 || left - now > left * kPartOfTime + kLeastSeconds;
    };
    proof::VerifyOptions verification = quick_verification(folder, is_over);
    proof::Verdict verdict = proof::verify(rule, verification);
    // Whether positions that are elements are within the tensor was asked before (may_read_outside).
    if (verdict.outcome != proof::Outcome::kProved && !is_over()) {
      verification.limits.positions_are_inside = true;
      verdict = proof::verify(rule, verification);
    }
    bool proved = verdict.outcome == proof::Outcome::kProved && verdict.conditions.empty() && verdict.all_ranks;
    if (proved && !folder.empty()) {
      const FileBytes bytes = map_file(folder / verdict.certificate);
      const proof::CertificateCheck check = proof::check_certificate(bytes.text(), rule.name);
      if (!check.accepted) proved = false, verdict.explanation = "its certificate is refused: " + check.reason;
    }
    known = proved_.emplace(text, std::pair(proved, proved ? rule.name : verdict.explanation)).first;
  } else {
    ++cached_;
  }
  if (known->second.first) return known->second.second;
  reason = known->second.second;
  return std::nullopt;
}

}  // namespace rewright::equivalence
