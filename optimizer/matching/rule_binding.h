// Binds a rule's variables to a match of its source: shared by matching in graphs and in e-graphs.
#pragma once

#include <memory>
#include <span>

#include "rules/bindings.h"
#include "rules/rule.h"

namespace rewright::optimizer {

// The bindings for these types of the rule's inputs and these attributes of its source's nodes; null if the rule does not
// match. Rules are proved for nonempty tensors (docs/soundness.md), so no rule matches a tensor known to be empty.
std::shared_ptr<const Bindings> bind_rule(const Rule& rule, std::span<const TensorType* const> inputs,
                                          std::span<const Attributes* const> attributes);

// Is the tensor known to be empty?
bool is_empty(const TensorType& type);

// A source's Fill also matches a constant whose elements are all equal: tests this, and gives the attributes of a Fill that
// would create it.
bool all_equal(const Tensor& tensor);
Attributes fill_attributes(const Operator& fill, const Tensor& tensor);

}  // namespace rewright::optimizer
