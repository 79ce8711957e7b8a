// Binding a rule's variables to what a source was found on: shared by matching in graphs and in e-graphs.
#pragma once

#include <memory>
#include <span>

#include "rules/bindings.h"
#include "rules/rule.h"

namespace rewright::optimizer {

// The bindings where the rule's inputs have these types and its source's nodes these attributes; null if the rule does not fit.
// Rules are proved for tensors that have elements (docs/soundness.md): where one is known to have none, no rule fits.
std::shared_ptr<const Bindings> bind_rule(const Rule& rule, std::span<const TensorType* const> inputs,
                                          std::span<const Attributes* const> attributes);

// Is it known to have no elements?
bool is_empty(const TensorType& type);

// A Fill of a source stands for a constant whose elements are all equal, too: are they, and the attributes of a Fill that would
// make it.
bool all_equal(const Tensor& tensor);
Attributes fill_attributes(const Operator& fill, const Tensor& tensor);

}  // namespace rewright::optimizer
