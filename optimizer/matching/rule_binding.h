// Binds a rule's variables to a match of its source: shared by matching in graphs and in e-graphs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "rules/bindings.h"
#include "rules/rule.h"

namespace rewright::optimizer {

// The bindings for these types of the rule's inputs and these attributes of its source's nodes; null if the rule does not
// match. Rules are proved for nonempty tensors (docs/soundness.md), so no rule matches a tensor known to be empty.
std::shared_ptr<const Bindings> bind_rule(const Rule& rule, std::span<const TensorType* const> inputs,
                                          std::span<const Attributes* const> attributes);

// Is the tensor known to be empty?
bool is_empty(const TensorType& type);

// Operators without inputs in a rule's source, such as Fill and Eye, also match a constant that they would create.
class Creations {
 public:
  // The attributes with which the operator creates the tensor; null if it has inputs or creates no such tensor. The answer is
  // kept, and so is the tensor.
  const Attributes* attributes(const Operator& op, const Tensor& tensor);

 private:
  struct Answer {
    Tensor tensor;
    std::optional<Attributes> attributes;
  };
  std::map<std::pair<const Operator*, const std::byte*>, Answer> answers_;
};

}  // namespace rewright::optimizer
