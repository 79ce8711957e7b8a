// Searches rewrites that prove an equation, in an e-graph of both sides, and terms over constants of the first model that a
// constant of the second one is a rounding of.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "equivalence/checker/equation.h"
#include "equivalence/checker/proof.h"
#include "optimizer/limits/limits.h"
#include "optimizer/matching/match.h"

namespace rewright::equivalence {

inline constexpr std::size_t kMostInGraph = 60;  // nodes of a statement that an e-graph is asked

struct RewritingEffort {
  std::size_t nodes = 500;  // live e-nodes
  std::size_t iterations = 6;
  double seconds = 3;
};

// The rewrites from one side to the other; nullopt if none were found. They were followed once.
std::optional<std::vector<Application>> search_rewrites(const Statement& statement, const RuleIndex& rules,
                                                        const RewritingEffort& effort);

// The rule with a name among those of the index; null if there is none.
const Rule* rule_named(const RuleIndex& rules, const std::string& name);
// Do the applications prove the statement?
bool proves(const Statement& statement, const RuleIndex& rules, const std::vector<Application>& applications);

struct TermSearch {
  std::vector<Step> explained;  // kTerm: for constants of the second model in the statement
  std::vector<Step> parts;      // kValue: terms over constants, which constants may be made of
};

// Terms over constants of the first model that rules suggest: what folding a rewritten graph gives.
TermSearch search_terms(const Joint& joint, const Statement& statement, const RuleIndex& rules, double tolerance,
                        const RewritingEffort& effort);

// A term that is equal to the first value of a statement, over its leaves and over constants.
struct Form {
  Step value;                             // kValue
  std::vector<Application> applications;  // lead from the value to the term, in a statement about that value alone
  std::size_t leaves = 0, nodes = 0;      // of that statement: numbers of terms count from there
};

// Forms by operators that compute the second value: on the way from one to the other. Smaller ones first. With the effort of
// search_terms their constants are the same terms.
std::vector<Form> search_forms(const Joint& joint, const Statement& statement, const RuleIndex& rules,
                               const RewritingEffort& effort);
// The applications for a statement about the first value and the form; nullopt if they do not prove it.
std::optional<std::vector<Application>> follow_form(const Form& form, const Statement& statement, const RuleIndex& rules);

}  // namespace rewright::equivalence
