// The libraries' activations, and the operators that define them.
#pragma once

#include <optional>

#include "operators/operator.h"
#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

struct ActivationNode {
  const Operator* op = nullptr;
  Attributes attributes;
  std::vector<double> bounds;  // further inputs, of one element each
};
// The operator of an activation other than kNone.
ActivationNode activation_node(Activation activation, double low, double high);

// The expression activation(x).
Element activated(Activation activation, double low, double high, const Element& x);

struct FoundActivation {
  Activation activation = Activation::kNone;
  double low = 0, high = 0;
};
// The activation that an expression over operand 0 computes; nullopt if it is none.
std::optional<FoundActivation> find_activation(const Element& element);

}  // namespace rewright::cuda
