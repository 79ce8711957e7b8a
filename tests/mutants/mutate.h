// Mutants of rules: one thing changed, as a slip would change it. Most are false; the prover must not believe those.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rules/rule.h"

namespace rewright::testing {

struct Mutant {
  Rule rule;         // named after the original; its description says what was changed
  std::string kind;  // attribute, axis, edge, constant, condition
};

// All mutants of a rule that are well-formed and no other form of the same rule; the number of those left out because they are
// ill-formed is added to `ill_formed`. `rules` is where texts such as padding modes are taken from.
std::vector<Mutant> mutants_of(const Rule& rule, std::span<const Rule> rules, int& ill_formed);

// `count` mutants of random rules, kinds equally often where there are any; the same for the same seed. Their names are unique.
std::vector<Mutant> sample_mutants(std::span<const Rule> rules, int count, std::uint64_t seed, int& ill_formed);

}  // namespace rewright::testing
