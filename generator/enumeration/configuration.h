// The search space of a generator run: the tensors that graphs start from, and the operators with their possible attributes.
// Semantics come from the operators' definitions: applications that are ill-typed there are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/enumeration/leaves.h"
#include "operators/operator.h"

namespace rewright::generator {

// An operator applied to all results of another, and to a constant after them if there is one.
struct FurtherStep {
  const Operator* op;
  Attributes attributes;
  const Operator* constant = nullptr;  // makes it
  Attributes constant_attributes{};
};

// An operator that may be applied, with its attributes for operands of given types.
struct Choice {
  static constexpr int kMostOperands = 3;  // without parameters
  std::string name;                        // with its arguments, for people
  const Operator* op = nullptr;
  std::size_t arity = 1;
  // The attributes to try; none where the operator does not apply. A position in this list means the same variant for all
  // types.
  std::function<std::vector<Attributes>(std::span<const TensorType>)> attributes;
  const Operator* activation = nullptr;  // applied to the result, as one operator
  bool data_first = false;               // the first operand is not a weight
  bool distinct = false;                 // the operands are not the same
  bool no_arrays = false;     // operands have at most one element or are no constants: arrays are kernels and matrices
  bool weights_only = false;  // applied only to values computed from weights
  std::vector<std::uint32_t> parameters{};  // leaves that are appended to the operands, the same in every application
  // Steps on the result of the operator on operands of these types; all of them count as one operator. They apply wherever
  // `attributes` has a value.
  std::function<std::vector<FurtherStep>(std::span<const TensorType>)> further{};
};

struct Configuration {
  std::string operators;  // the requested list
  std::vector<Leaf> leaves;
  std::vector<Choice> choices;
  // Values computed from weights alone cost nothing at run time. Graphs of at most this many operators on weights therefore
  // count as leaves. 0: they count like others.
  std::size_t weight_operators = 0;
  // Graphs that agree with an operator on a part of the positions are corrected and become rules (generator/partial/).
  bool corrections = false;
  // The values of each symbol, one for each assignment of sizes. They differ between assignments, so that an equation does not
  // hold by coincidence of sizes.
  struct Symbol {
    std::string name;
    std::vector<std::int64_t> sizes;
  };
  std::vector<Symbol> symbols;
  std::size_t assignments() const { return symbols.empty() ? 1 : symbols[0].sizes.size(); }
};

// Parses a list such as "taso", "MatMul,Add,Transpose" or "conv2d(kernel=1|3,stride=1|2,activation=none|relu),ew_add": named
// sets (operator_list.h), operators by our names or by TASO's. Arguments are the operator's fields, alternatives separated by
// bars. Throws Error(kUsage) for unknown names.
Configuration configure(std::string_view operators);

}  // namespace rewright::generator
