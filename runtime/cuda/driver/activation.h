// The activations that libraries know, as the operators define them.
#pragma once

#include <optional>

#include "operators/operator.h"
#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

struct ActivationNode {
  const Operator* op = nullptr;
  Attributes attributes;
  std::vector<double> bounds;  // inputs behind the first one, of one element each
};
// Of anything but kNone.
ActivationNode activation_node(Activation activation, double low, double high);

// activation(x).
Element activated(Activation activation, double low, double high, const Element& x);

struct FoundActivation {
  Activation activation = Activation::kNone;
  double low = 0, high = 0;
};
// Which one an element is of operand 0; nothing if it is none.
std::optional<FoundActivation> find_activation(const Element& element);

}  // namespace rewright::cuda
