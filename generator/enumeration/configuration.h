// The search space of a run of the generator: the tensors it starts from, and the operators with the attributes they may have.
// What the operators mean is said nowhere here: an application that is ill-typed by its definition is left out.
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

// An operator that may be applied, with its attributes for operands of given types.
struct Choice {
  static constexpr int kMostOperands = 3;  // without parameters
  std::string name;                        // with its arguments, for people
  const Operator* op = nullptr;
  std::size_t arity = 1;
  // The attributes to try, none where it does not apply. Which of them it is, by its position, is the same choice for all
  // types.
  std::function<std::vector<Attributes>(std::span<const TensorType>)> attributes;
  const Operator* activation = nullptr;     // applied to the result, as one operator
  bool data_first = false;                  // the first operand is not a weight
  bool distinct = false;                    // the operands are not the same
  bool no_arrays = false;                   // no operand is a constant of more than one element: they are kernels and matrices
  bool weights_only = false;                // applied only to what is computed from weights
  std::vector<std::uint32_t> parameters{};  // leaves that are its operands after the others, the same in every application
};

struct Configuration {
  std::string operators;  // as asked for
  std::vector<Leaf> leaves;
  std::vector<Choice> choices;
  // What is computed from weights alone is computed once, before a graph is run: graphs of at most so many operators on weights
  // count as leaves. 0: they count as others do.
  std::size_t weight_operators = 0;
  // The values of the symbols in each assignment of sizes: different in each, so that what holds is no coincidence of one.
  struct Symbol {
    std::string name;
    std::vector<std::int64_t> sizes;
  };
  std::vector<Symbol> symbols;
  std::size_t assignments() const { return symbols.empty() ? 1 : symbols[0].sizes.size(); }
};

// From a list such as "taso", "MatMul,Add,Transpose" or "conv2d(kernel=1|3,stride=1|2,activation=none|relu),ew_add": named sets
// (operator_list.h), operators by their names or by those that TASO gives them. Arguments are the operator's fields, with
// alternatives between bars. Throws Error(kUsage) for what is not known.
Configuration configure(std::string_view operators);

}  // namespace rewright::generator
