// Comparing and uniting sets of rules.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rules/rule.h"

namespace rewright::rules {

// How two sets of rules differ. Rules are compared by name, up to what same_rule() leaves open.
struct RuleDifference {
  std::vector<std::string> only_first, only_second, changed;
  std::vector<std::pair<std::string, std::string>> renamed;  // the same rule under another name: no difference
  bool empty() const { return only_first.empty() && only_second.empty() && changed.empty(); }
};
RuleDifference difference(const std::vector<Rule>& first, const std::vector<Rule>& second);

struct NamedRules {
  std::string file;
  std::vector<Rule> rules;
};

struct MergedRules {
  std::vector<Rule> rules;
  struct Duplicate {
    std::string name, file, kept;  // `kept` is the name of the rule that says the same
  };
  std::vector<Duplicate> dropped;
};

// The union, in order. Of rules that are the same, the first that is proved is kept, else the first. Throws Error(kBadInput)
// that names both files if different rules have one name.
MergedRules merge(std::span<const NamedRules> sets);

}  // namespace rewright::rules
