// Conditions that a rule needs but does not state.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rules/rule.h"
#include "verifier/proof.h"
#include "verifier/solver.h"

namespace rewright::proof {

// A condition that a rule can state. An input's rank is added to the rule as a quantity.
struct RuleCondition {
  std::variant<Condition, Predicate> statement;
  std::optional<Quantity> quantity;

  std::string to_string() const;  // in algebra, without the names of quantities
  void add_to(Rule& rule) const;
  // The condition for these values of the variables; nullopt if it is not known.
  std::optional<Guards> guards(const Bindings& bindings) const;
};

// The conditions under which the target is well-typed with the source's types and shapes, beyond those that the source and the
// rule imply. Cases that differ in ranks and broadcasting are examined one by one.
struct TargetNeeds {
  bool found = false;                     // `conditions` suffice, and none follows from the others
  std::vector<RuleCondition> conditions;  // over the rule's variables
  std::string obstacle;                   // why none were found
  bool any_case = false;                  // the source can be well-typed under the rule's conditions
  bool ever_typed = false;                // and the target too, ignoring sizes
};
TargetNeeds find_needs(const Rule& rule, const ProofLimits& limits, Solver& solver);

// Why a rule has no cases: its source is ill-typed, or its conditions contradict each other.
std::string why_empty(const Rule& rule, const ProofLimits& limits, Solver& solver);

}  // namespace rewright::proof
