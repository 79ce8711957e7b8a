// Turns equations into rules: each as general as can be shown, without those that follow from others.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "generator/enumeration/journal.h"
#include "generator/enumeration/workers.h"
#include "generator/pruning/rule_theory.h"
#include "generator/writing/rule_writer.h"

namespace rewright::generator {

struct RuleSelectionOptions {
  WriterOptions writer{};
  bool derivable = true;  // drop what follows from more general rules
  RuleDerivationLimits limits{.rounds = 3, .applications = 150, .instances = 3};
  std::size_t memory = ~std::size_t{0};  // of this process
  std::function<void(double fraction, std::size_t rules)> progress{};
};

struct RuleSelection {
  std::vector<Rule> rules;
  std::map<std::string, std::size_t> pruned;  // equations by reason: "instance of a rule", "not general"
};

// The equations are in the order in which they were selected. All processes call it and get the same result. When the journal
// was stopped, rules are written without generalizing them.
RuleSelection select_rules(const std::vector<Equation>& equations, const RuleSelectionOptions& options, Workers& workers,
                           Journal& journal);

}  // namespace rewright::generator
