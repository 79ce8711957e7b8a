// Compares rules written by people with rules found by machine, and tells which found ones follow from the others.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "generator/pruning/rule_theory.h"
#include "rules/rule.h"

namespace rewright::generator {

// How a rule stands to others.
struct Standing {
  enum class Kind {
    kSame,     // one of them says the same
    kFollows,  // follows from them on all sampled instances
    kInPart,   // on some
    kNot,
  };
  Kind kind = Kind::kNot;
  std::string same;                // kSame: the other's name
  int instances = 0, derived = 0;  // else: sampled, and on how many of them it follows
};
std::string_view name(Standing::Kind kind);  // "same", "follows", "in part", "no"

// Of each rule to the given ones, on so many instances.
std::vector<Standing> standings(std::span<const Rule> rules, std::span<const Rule> given, int instances,
                                const RuleDerivationLimits& limits = {});

struct ReducedRules {
  std::vector<Rule> rules;
  std::vector<std::string> dropped;  // names of those that follow from the rest
};

// Leaves out what follows from the rest, the largest rules first; a rule and its reverse stay or go together. A rule does not
// count as following from rules that do more to rounding.
ReducedRules reduced(std::vector<Rule> rules, const RuleDerivationLimits& limits = {});

}  // namespace rewright::generator
