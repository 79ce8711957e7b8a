// Update rules: how parameters follow their gradients.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace rewright::training {

enum class UpdateMethod {
  kSgd,
  kMomentum,  // Polyak 1964: v = mu v + g, w -= r v
  kNesterov,  // Sutskever et al., ICML 2013, in the form w -= r (g + mu v)
  kAdagrad,   // Duchi, Hazan and Singer, JMLR 2011: s += g g, w -= r g / (sqrt(s) + epsilon)
  kAdam,      // Kingma and Ba, arXiv:1412.6980; decay as a part of the gradient
  kAdamW,     // Loshchilov and Hutter, arXiv:1711.05101; decay of the parameter itself
  kLars,      // You, Gitman and Ginsburg, arXiv:1708.03888
  kLamb,      // You et al., arXiv:1904.00962
};
// "sgd", "momentum", "nesterov", "adagrad", "adam", "adamw", "lars", "lamb". Throws Error(kUsage).
UpdateMethod update_method_from_name(std::string_view name);

struct Update {
  UpdateMethod method = UpdateMethod::kSgd;
  double momentum = 0.9;              // momentum, nesterov, lars
  double beta1 = 0.9, beta2 = 0.999;  // adam, adamw, lamb
  double epsilon = 1e-8;              // the same, and adagrad
  double weight_decay = 0;            // for all; not for parameters of rank 1 or less (biases, scales)
  double trust = 0.001;               // lars: the share of its own norm that a parameter moves by
};

// Is the update elementwise? LARS and LAMB also need the norm of the whole parameter.
bool updates_by_elements(UpdateMethod method);

// The names of tensors that the method keeps for each parameter, with its shape and initially 0.
std::vector<std::string> states_of(UpdateMethod method);

// Adds one step; returns the new parameter and the new states. `rate` and `step` (the number of this step, from 1) are scalars
// of the parameter's type. `allowed`: a truth value; nothing changes if it is false.
struct Updated {
  ValueId parameter;
  std::vector<ValueId> states;
};
Updated add_update(Graph& graph, const Update& update, ValueId parameter, ValueId gradient, const std::vector<ValueId>& states,
                   ValueId rate, ValueId step, ValueId allowed = kNoValue);

}  // namespace rewright::training
