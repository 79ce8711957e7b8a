// Partial equivalences (PET: Wang et al., OSDI 2021): graphs that agree with an operator on a part of the positions only,
// corrected into rules.
//
//   Enumeration enumeration(forms, {.operators = 4});   // of a configuration with `corrections`
//   enumeration.run();
//   for (const PartialEquivalence& found : partial_equivalences(enumeration)) ...
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "generator/enumeration/enumeration.h"
#include "generator/partial/statement.h"
#include "generator/writing/rule_writer.h"

namespace rewright::generator {

// For each operator on leaves, graphs that compute it, somewhere or everywhere, by one operator on rearranged operands. Of
// those whose operator has operands of the same types, the one with the fewest wrong elements, then the cheapest one.
std::vector<PartialEquivalence> partial_equivalences(const Enumeration& enumeration);

struct PartialOptions {
  WriterOptions writer{};
  int threads = 1;
  std::stop_token stop{};
  std::function<void(double fraction, std::size_t rules)> progress{};
};

struct PartialRules {
  std::vector<Rule> rules;
  std::map<std::string, std::size_t> pruned;  // by reason: "no correction", "not general", "renaming"
};

// The corrected equivalences, each as general as it is proved, with optional operands and without. In the order given.
PartialRules partial_rules(const Enumeration& enumeration, const std::vector<PartialEquivalence>& found,
                           const PartialOptions& options);

}  // namespace rewright::generator
