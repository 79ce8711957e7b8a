// The types that a rule gives to an equation's tensors and attributes: from the symbols that the enumeration began with to
// lists of any length.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generator/enumeration/expressions.h"
#include "rules/rule.h"

namespace rewright::generator {

// One alternative to state an equation.
struct Typing {
  std::vector<ShapePattern> inputs;                        // of each variable
  std::vector<std::vector<rules::Expression>> attributes;  // of each expression, one a field of its operator
  std::map<std::uint32_t, ShapePattern> parameters;        // of each variable that is a parameter, by its leaf
  std::map<std::uint32_t, std::vector<rules::Expression>> constant_parameters;  // attributes of the others
  std::vector<Quantity> quantities;
  std::vector<Condition> conditions;
  std::vector<Predicate> predicates;
  bool any_type = false;  // elements may be of any type
};

std::string input_name(std::uint32_t variable);
// The application that an expression stands for; null if there is none.
const Form* form_of(const Equation& equation, const Expression& e, Forms& forms);
// The operator of an expression; null for a variable.
const Operator* operator_of(const Expression& e, const Configuration& configuration);

// The leaves that are parameters in these sides, in order.
std::set<std::uint32_t> parameters_of(const Equation& equation, const std::vector<std::uint32_t>& roots,
                                      const Configuration& configuration);

// The sizes and attributes that were found.
Typing concrete_typing(const Equation& equation, Forms& forms);

// Which sizes and attributes get a symbol of their own, equal only where the typing of both sides asks for it.
struct SizeOptions {
  bool numbers = true;  // sizes that were numbers (of kernels)
  bool groups = false;  // of convolutions
  // Kernels and pads of windows, axis by axis; also what kernels are enlarged by, or as it was found.
  enum class Windows { kNone, kFound, kFree } windows = Windows::kNone;
};
// Nothing if the typing cannot be solved.
std::optional<Typing> sized_typing(const Equation& equation, Forms& forms, const SizeOptions& options);

}  // namespace rewright::generator
