// From equations to the rules that are written: each as general as it can be shown, without those that follow from others.
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
  bool derivable = true;  // leave out what follows from more general rules
  RuleDerivationLimits limits{.rounds = 3, .applications = 150, .instances = 3};
  std::size_t memory = ~std::size_t{0};  // of this process
  std::function<void(double fraction, std::size_t rules)> progress{};
};

struct RuleSelection {
  std::vector<Rule> rules;
  std::map<std::string, std::size_t> pruned;  // equations by reason: "instance of a rule", "not general"
};

// The equations in the order in which the selection kept them. All processes call it and get the same. Where the journal was
// stopped, rules are written as they were found.
RuleSelection select_rules(const std::vector<Equation>& equations, const RuleSelectionOptions& options, Workers& workers,
                           Journal& journal);

}  // namespace rewright::generator
