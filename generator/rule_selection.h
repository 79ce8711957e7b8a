// From equations to the rules that are written: each as general as it can be shown, without those that follow from others.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "generator/rule_theory.h"
#include "generator/rule_writer.h"

namespace rewright::generator {

struct RuleSelectionOptions {
  WriterOptions writer{};
  bool derivable = true;  // leave out what follows from more general rules
  RuleDerivationLimits limits{.rounds = 3, .applications = 150, .instances = 3};
  std::stop_token stop{};
  std::function<void(double fraction, std::size_t rules)> progress{};
};

struct RuleSelection {
  std::vector<Rule> rules;
  std::map<std::string, std::size_t> pruned;  // equations by reason: "instance of a rule", "not general"
};

// The equations in the order in which the selection kept them.
RuleSelection select_rules(const std::vector<Equation>& equations, Forms& forms, const RuleSelectionOptions& options);

}  // namespace rewright::generator
