// A side of a rule for symbolic values of its variables: what the definitions of its nodes say.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "operators/operator.h"
#include "rules/bindings.h"
#include "rules/rule.h"

namespace rewright::proof {

struct DefinedSide {
  const Pattern* pattern = nullptr;
  std::vector<TensorType> inputs;          // of the rule
  std::vector<std::vector<Output>> nodes;  // their outputs
};
const TensorType& type_of(const DefinedSide& side, const PatternValue& value);

// The conditions under which a node's attributes as written equal the normalized ones for symbolic sizes; nothing if they
// cannot agree.
std::optional<std::vector<Condition>> agreement(const Attributes& written, const Attributes& normalized);

// Definitions of all nodes of a side, or of the first ones. Throws Error as definitions do; then there are attributes of the
// nodes before the one that refused.
struct SideConditions {
  std::vector<Condition> typing;       // of the definitions, and of attributes (see agreement)
  std::vector<Attributes> attributes;  // of each node, normalized
  bool reachable = true;               // false: no graph has these attributes after normalization
};
DefinedSide define_side(const Rule& rule, const Pattern& side, const std::vector<TensorType>& inputs, const Bindings& bindings,
                        bool with_elements, SideConditions& conditions, std::size_t count = SIZE_MAX);

}  // namespace rewright::proof
