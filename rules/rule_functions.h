// The functions in attributes of rules (RuleFunction of rule.h).
#pragma once

#include <optional>
#include <vector>

#include "rules/rule.h"

namespace rewright::rules {

// The arguments of a function, in order, separately for each kind.
struct RuleArguments {
  std::vector<const Indices*> lists;
  std::vector<Index> indices;
  std::vector<Real> reals;
  const TensorType* input = nullptr;
};
// `function` is one of rule_functions(), with arguments of its kinds. nullopt where it has no value: a position outside of a
// list, lists of different lengths, unknown sizes.
std::optional<AttributeValue> value_of(const RuleFunction& function, const RuleArguments& arguments);

// The inverse permutation; nullopt if p is not a permutation.
std::optional<Indices> inverse(const Indices& p);

}  // namespace rewright::rules
