// Compares and merges sets of rules.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rules/rule.h"

namespace rewright::rules {

// The differences between two sets of rules, compared by name and by same_rule().
struct RuleDifference {
  std::vector<std::string> only_first, only_second, changed;
  std::vector<std::pair<std::string, std::string>> renamed;  // the same rule under another name; no difference
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
    std::string name, file, kept;  // `kept`: the name of the equal rule
  };
  std::vector<Duplicate> dropped;
};

// The union, in order. Of equal rules the first proved one is kept, else the first. Throws Error(kBadInput) with both files if
// different rules have one name.
MergedRules merge(std::span<const NamedRules> sets);

}  // namespace rewright::rules
