// The functions that rules compute attributes with (RuleFunction of rule.h).
#pragma once

#include <optional>
#include <vector>

#include "rules/rule.h"

namespace rewright::rules {

// The arguments of a function, each kind in its order.
struct RuleArguments {
  std::vector<const Indices*> lists;
  std::vector<Index> indices;
  std::vector<Real> reals;
  const TensorType* input = nullptr;
};
// `function` is one of rule_functions(), the arguments are of its kinds. Nothing where it has no value there: a position
// outside of a list, lists of different lengths, sizes that are not known.
std::optional<AttributeValue> value_of(const RuleFunction& function, const RuleArguments& arguments);

// The permutation that undoes p; nothing if p is none.
std::optional<Indices> inverse(const Indices& p);

}  // namespace rewright::rules
