// Equations as rewrite rules, as general as random instances of them bear out: for inputs of any rank, else of the ranks that
// were found with a symbol for each size, else with the symbols that the enumeration began with.
#pragma once

#include <string>
#include <vector>

#include "generator/expressions.h"
#include "rules/rule.h"

namespace rewright::generator {

struct WriterOptions {
  int instances = 20;  // that a generalization has to hold on
  std::uint64_t seed = 1;
};

// Towards the cheaper side; both ways where the sides have equally many operators, or the cheaper one has more. Empty if no
// form of the rule holds for sizes other than those enumerated, or none can be said as a rule. Named `name`, `name_reversed`.
std::vector<Rule> rules_of(const Equation& equation, Forms& forms, const std::string& name, const WriterOptions& options);

}  // namespace rewright::generator
