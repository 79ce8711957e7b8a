// Compares handwritten with generated rules: which of them follow from the others?
#pragma once

#include <span>
#include <string>
#include <vector>

#include "generator/pruning/rule_theory.h"
#include "rules/rule.h"

namespace rewright::generator {

// The relation of a rule to a set of others.
struct Standing {
  enum class Kind {
    kSame,     // one of them is the same rule
    kFollows,  // follows from them on all sampled instances
    kInPart,   // follows on some of them
    kNot,
  };
  Kind kind = Kind::kNot;
  std::string same;                // kSame: the name of that rule
  int instances = 0, derived = 0;  // otherwise: sampled instances, and those on which it follows
};
std::string_view name(Standing::Kind kind);  // "same", "follows", "in part", "no"

// The standing of each rule towards the given ones, on this many instances.
std::vector<Standing> standings(std::span<const Rule> rules, std::span<const Rule> given, int instances,
                                const RuleDerivationLimits& limits = {});

struct ReducedRules {
  std::vector<Rule> rules;
  std::vector<std::string> dropped;  // names of rules that follow from the rest
};

// Drops rules that follow from the rest, the largest first. A rule and its reverse stay or go together. Rules that change
// rounding more do not imply those that change it less.
ReducedRules reduced(std::vector<Rule> rules, const RuleDerivationLimits& limits = {});

}  // namespace rewright::generator
