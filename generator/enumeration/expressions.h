// Equations between small graphs, without the types of their variables: what is found, compared and pruned before it becomes a
// rule.
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
  std::uint32_t number = 0;                                     // kVariable: which; kConstant: the leaf; kOperator: the choice
  std::uint32_t variant = 0;                                    // kOperator: which of the choice's attributes; kVariable: is
                                                                // it a weight, and graphs of weights count as leaves?
  std::uint32_t output = 0;                                     // kOperator
  std::array<std::uint32_t, 3> arguments{kNone, kNone, kNone};  // earlier expressions
  TypeId type = 0;                                              // of the instance that was found
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  friend bool operator==(const Expression&, const Expression&) = default;
};

// left[i] = right[i]; both sides share their expressions, each of which stands there once and after its arguments.
struct Equation {
  std::vector<Expression> expressions;
  std::vector<std::uint32_t> left, right;  // a number an output
  std::uint32_t variables = 0;

  std::uint32_t add(const Expression& e);  // or where it stands already
  std::vector<bool> reachable(const std::vector<std::uint32_t>& roots) const;
  // Which expressions are computed from constants, and weights where those count as leaves, alone.
  std::vector<bool> of_weights() const;
  // Operators in a side, without those on weights that count as leaves; those with several outputs count once.
  std::size_t operators(const std::vector<std::uint32_t>& side) const;
  // Without what is not used, variables numbered in order of use.
  Equation tidied() const;
};

// "Add(a, b) = Add(b, a)", for messages and tests.
std::string to_string(const Equation& equation, const Configuration& configuration);

double cost(const Equation& equation, const std::vector<std::uint32_t>& side, Forms& forms);

// Of rank 1. A vector stands where it is broadcast, as a bias: what holds for it is said beside what holds for tensors of one
// shape, which otherwise count as one, whatever their rank.
bool is_vector(TypeId type, const Forms& forms);

// The same number for equations that differ in the names of variables, in the order of the operands of commutative operators,
// or in which side is which.
std::uint64_t canonical_hash(const Equation& equation, const Forms& forms);

// Do both sides have equal elements for these random variables? Throws nothing; false where a side is ill-typed.
bool holds(const Equation& equation, Forms& forms, std::uint64_t key);

}  // namespace rewright::generator
