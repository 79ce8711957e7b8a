// Equations between small graphs, without types of their variables: the form in which they are found, compared and pruned
// before they become rules.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "generator/enumeration/enumeration.h"

namespace rewright::generator {

// A value of an equation: a variable, a constant leaf, or an output of an operator.
struct Expression {
  enum class Kind : std::uint8_t { kVariable, kConstant, kOperator };
  Kind kind = Kind::kVariable;
  std::uint32_t number = 0;   // kVariable: its number; kConstant: its leaf; kOperator: its choice
  std::uint32_t variant = 0;  // kOperator: index into the choice's attributes; kVariable: is
                              // it a weight, and graphs of weights count as leaves?
  std::uint32_t output = 0;   // kOperator
  std::array<std::uint32_t, 3> arguments{kNone, kNone, kNone};  // earlier expressions
  TypeId type = 0;                                              // in the instance that was found
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  friend bool operator==(const Expression&, const Expression&) = default;
};

// left[i] = right[i]. Both sides share their expressions; each is listed once, after its arguments.
struct Equation {
  std::vector<Expression> expressions;
  std::vector<std::uint32_t> left, right;  // a number an output
  std::uint32_t variables = 0;

  std::uint32_t add(const Expression& e);  // returns its number, also if it was there already
  std::vector<bool> reachable(const std::vector<std::uint32_t>& roots) const;
  // Marks expressions computed only from constants, and from weights if those count as leaves.
  std::vector<bool> of_weights() const;
  // The operators of a side, without those on weights that count as leaves. An operator with several outputs counts once.
  std::size_t operators(const std::vector<std::uint32_t>& side) const;
  // Drops unused expressions and renumbers variables in order of use.
  Equation tidied() const;
};

// "Add(a, b) = Add(b, a)", for messages and tests.
std::string to_string(const Equation& equation, const Configuration& configuration);

double cost(const Equation& equation, const std::vector<std::uint32_t>& side, Forms& forms);

// Is the type of rank 1? A vector is broadcast, as a bias is, so equations are kept apart for vectors and for tensors of one
// shape. The latter count as one type, whatever their rank.
bool is_vector(TypeId type, const Forms& forms);

// Equal for equations that differ only in the names of variables, the order of operands of commutative operators, or the order
// of the sides.
std::uint64_t canonical_hash(const Equation& equation, const Forms& forms);

// Do both sides have equal elements for the random variables of this key? False if a side is ill-typed. Never throws.
bool holds(const Equation& equation, Forms& forms, std::uint64_t key);

}  // namespace rewright::generator
