// Proofs of single statements, each once up to names: by the shipped rules in an e-graph, then by the prover.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "equivalence/checker/equation.h"
#include "equivalence/checker/proof.h"
#include "equivalence/rewriting_search.h"
#include "optimizer/matching/match.h"

namespace rewright::equivalence {

inline constexpr std::size_t kMostInRule = 20;  // nodes of a statement that the prover is asked
// For statements that the prover is not asked.
inline constexpr RewritingEffort kLongEffort{.nodes = 2500, .iterations = 8, .seconds = 10};

// A key that is equal for statements that differ in names only; empty if no rule can say the statement.
std::string key_of(const Statement& statement);

class StatementProver {
 public:
  // `certificate`: the folder of the proof; empty: none is written. Names of certificates begin with `names`. `seconds_left`:
  // until the time is over; a statement gets a part of it. `rules` must outlive the prover.
  StatementProver(const RuleIndex& rules, std::filesystem::path certificate, std::string names,
                  std::function<double()> seconds_left)
      : rules_(rules), certificate_(std::move(certificate)), names_(std::move(names)), seconds_left_(std::move(seconds_left)) {}

  // Sets how the step proves the statement; false, and why, if no proof was found. A long effort is made for statements that
  // are too long to be rules, if `thorough`.
  bool prove(const Statement& statement, Step& step, std::string& reason, bool thorough);

  // Proves the statement by rewrites that are known.
  bool prove_by(const Form& form, const Statement& statement, Step& step);

  // Counts: statements proved by rewrites, statements proved as rules, and answers that were known already.
  std::size_t by_rewriting() const { return by_rewriting_; }
  std::size_t by_rule() const { return by_rule_; }
  std::size_t cached() const { return cached_; }

 private:
  bool rewrites(const Statement& statement, const std::string& key, Step& step, bool thorough);
  bool follows_from_rule(const Statement& statement, Step& step, std::string& reason);
  std::optional<std::string> proved_rule(const Statement& statement, SizesInRule sizes, std::string& reason);

  const RuleIndex& rules_;
  const std::filesystem::path certificate_;
  const std::string names_;
  bool ended() const { return seconds_left_() <= 0; }
  const std::function<double()> seconds_left_;
  std::map<std::string, std::vector<Application>, std::less<>> rewrites_;    // by what the statement says
  std::map<std::string, std::pair<bool, std::string>, std::less<>> proved_;  // the same; certificate, or the open question
  std::map<std::string, bool, std::less<>> refused_;                         // the same; was it a thorough search?
  std::size_t by_rewriting_ = 0, by_rule_ = 0, cached_ = 0;
};

}  // namespace rewright::equivalence
