// A side of a rule for symbolic values of its variables: the definitions of its nodes.
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
  std::vector<std::vector<Output>> nodes;  // outputs by node
};
const TensorType& type_of(const DefinedSide& side, const PatternValue& value);

// The conditions under which a node's attributes as written equal the normalized ones for symbolic sizes; nullopt if they
// cannot be equal.
std::optional<std::vector<Condition>> agreement(const Attributes& written, const Attributes& normalized);

// Defines the nodes of a side, all or the first ones. Throws Error as definitions do; `attributes` then has those of the nodes
// before.
struct SideConditions {
  std::vector<Condition> typing;       // from definitions and attributes (see agreement)
  std::vector<Attributes> attributes;  // of each node, normalized
  bool reachable = true;               // false: no graph has these attributes after normalization
};
DefinedSide define_side(const Rule& rule, const Pattern& side, const std::vector<TensorType>& inputs, const Bindings& bindings,
                        bool with_elements, SideConditions& conditions, std::size_t count = SIZE_MAX);

}  // namespace rewright::proof
