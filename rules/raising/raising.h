// Rules that raise parts of a graph to calls of ONNX Runtime's own operators.
//
// Each is a rule in algebra (docs/rules.md) whose target is the operator's body, and a line that says which call that is:
//
//   rule bias_gelu: "a bias before a Gelu"
//     x[..., C], b[C]
//     Gelu(x + b) => Gelu(x + b)
//     exact
//     as BiasGelu(x, b)
//
// `_` is an input that the call does not have. An input that the target expands (Expand) is given to the call expanded. A rule
// with several outputs says which of the call's they are: `-> 0, 3`.
//
// `as is`: no call; the rule is applied before the others, since exporters leave such nodes between the parts of an operator.
//
// The rule is proved like any other. That its target is the operator's body is compared wherever it is applied.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rules/rule.h"

namespace rewright::rules {

struct Raising {
  Rule rule;
  std::string type;  // of the operator, in the domain com.microsoft; empty: no call
  // The call's inputs by the names of the rule's inputs, "" where it has none. Where the target expands an input (Expand), the
  // expanded one.
  std::vector<std::string> inputs;
  // Name, and a number, one of the rule's variables, or a product of two: "s*t".
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<std::size_t> outputs;  // of the call, for each output of the rule
};

// Throws Error(kBadInput) with the place.
std::vector<Raising> parse_raisings(std::string_view text, const std::string& name);

// The rules of rules/raising/onnxruntime.rules, in the order in which they are tried.
std::span<const Raising> raisings();

}  // namespace rewright::rules
