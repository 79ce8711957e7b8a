// Finds conditions under which a false rule holds.
#pragma once

#include <cstdint>
#include <vector>

#include "rules/instance.h"
#include "verifier/conditions.h"

namespace rewright::proof {

// One or two conditions with which the rule is proved. Candidates exclude all sampled counterexamples but not all instances;
// those that leave the most instances are tried first. Empty if none was found. `counterexample` may give a known one.
std::vector<RuleCondition> suggest_conditions(const Rule& rule, const RuleInstance* counterexample, const ProofLimits& limits,
                                              Solver& solver, std::uint64_t seed);

}  // namespace rewright::proof
