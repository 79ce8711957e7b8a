// Conditions that a rule does not state but needs.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rules/rule.h"
#include "verifier/proof.h"
#include "verifier/solver.h"

namespace rewright::proof {

// One that a rule can carry. What it mentions of an input's rank is a quantity that is added to the rule, too.
struct RuleCondition {
  std::variant<Condition, Predicate> statement;
  std::optional<Quantity> quantity;

  std::string to_string() const;  // in algebra, without the names of quantities
  void add_to(Rule& rule) const;
  // Its value where the variables have these values. nullopt if it is not known.
  std::optional<Guards> guards(const Bindings& bindings) const;
};

// The conditions for the target to be well-typed, with the types and shapes of the source, beyond what the source and the
// rule's conditions give. Cases that differ in ranks and in what broadcasts are looked at one by one.
struct TargetNeeds {
  bool found = false;                     // `conditions` are enough; none of them follows from the others
  std::vector<RuleCondition> conditions;  // over the rule's variables
  std::string obstacle;                   // where they were not found
  bool any_case = false;                  // the source can be well-typed while the rule's conditions hold
  bool ever_typed = false;                // and the target with it, were sizes no matter
};
TargetNeeds find_needs(const Rule& rule, const ProofLimits& limits, Solver& solver);

// Why a rule of which no case is left says nothing: its source is ill-typed, or its conditions contradict each other.
std::string why_empty(const Rule& rule, const ProofLimits& limits, Solver& solver);

}  // namespace rewright::proof
