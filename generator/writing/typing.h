// The types that a rule gives to an equation's tensors and attributes: from symbols for the enumerated sizes to lists of any
// length.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generator/enumeration/expressions.h"
#include "rules/rule.h"

namespace rewright::generator {

// One way to state an equation.
struct Typing {
  std::vector<ShapePattern> inputs;                        // by variable
  std::vector<std::vector<rules::Expression>> attributes;  // by expression, one for each field of its operator
  std::map<std::uint32_t, ShapePattern> parameters;        // types of parameters that are variables, by leaf
  std::map<std::uint32_t, std::vector<rules::Expression>> constant_parameters;  // the same for constants
  std::vector<Quantity> quantities;
  std::vector<Condition> conditions;
  std::vector<Predicate> predicates;
  bool any_type = false;  // elements of any type
};

std::string input_name(std::uint32_t variable);
// The typed application of an expression; null for variables and constants.
const Form* form_of(const Equation& equation, const Expression& e, Forms& forms);
// The operator of an expression; null for a variable.
const Operator* operator_of(const Expression& e, const Configuration& configuration);

// The leaves that are parameters in these sides, ascending.
std::set<std::uint32_t> parameters_of(const Equation& equation, const std::vector<std::uint32_t>& roots,
                                      const Configuration& configuration);

// The typing with exactly the sizes and attributes found.
Typing concrete_typing(const Equation& equation, Forms& forms);

// Which numbers get symbols of their own. Symbols are equal only where the typing of both sides requires it.
struct SizeOptions {
  bool numbers = true;  // sizes that were numbers (kernels)
  bool groups = false;  // groups of convolutions
  // Kernels and pads of windows, one symbol for each axis. kFound: kernels are enlarged as found; kFree: by symbols, too.
  enum class Windows { kNone, kFound, kFree } windows = Windows::kNone;
};
// nullopt if the typing cannot be solved.
std::optional<Typing> sized_typing(const Equation& equation, Forms& forms, const SizeOptions& options);

}  // namespace rewright::generator
