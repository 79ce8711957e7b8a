// Under which conditions does a rule hold that does not hold as it stands?
#pragma once

#include <cstdint>
#include <vector>

#include "rules/instance.h"
#include "verifier/conditions.h"

namespace rewright::proof {

// One condition, or two, with which the rule is proved: of those that all sampled counterexamples violate and some other
// instance does not, the ones that leave most instances are tried first. Empty if none was found. `counterexample`, if it is
// not null, is one that is known.
std::vector<RuleCondition> suggest_conditions(const Rule& rule, const RuleInstance* counterexample, const ProofLimits& limits,
                                              Solver& solver, std::uint64_t seed);

}  // namespace rewright::proof
