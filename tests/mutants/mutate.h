// Mutants of rules: one thing is changed, as a mistake would. Most are false, and the prover must not prove those.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rules/rule.h"

namespace rewright::testing {

struct Mutant {
  Rule rule;         // named after the original; its description tells the change
  std::string kind;  // attribute, axis, edge, constant, condition
};

// All mutants of a rule that are well-formed and different rules; adds the number of ill-formed ones to `ill_formed`. Texts
// such as padding modes come from `rules`.
std::vector<Mutant> mutants_of(const Rule& rule, std::span<const Rule> rules, int& ill_formed);

// `count` mutants of random rules, with kinds equally frequent where possible. Deterministic for a seed. Their names are
// unique.
std::vector<Mutant> sample_mutants(std::span<const Rule> rules, int count, std::uint64_t seed, int& ill_formed);

}  // namespace rewright::testing
