// The analysis behind proposed cuts: the positions at which an operator reads its operands, and how they move when its work is
// divided.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "operators/operator.h"
#include "plans/cuts/cut.h"

namespace rewright::plans {

// A variable of a denotation and its range: an axis of an output, or what a reduction runs over.
struct Variable {
  Index name;
  Index size;
  // The reduction that binds it; null for an axis of an output.
  const ElementNode* reduction = nullptr;
};

// One read of an operand, the positions that contents are read at among them.
struct Read {
  std::size_t operand = 0;
  Indices position;
  std::vector<Variable> variables;  // reductions around it, outermost first
  bool zero_outside = false;
};

// All reads of an output's element.
std::vector<Read> reads_of(const Output& output);

// The reductions of an output's element that add up (or take the maximum of, ...) the whole of it but for operands that are
// added outside: their variables can be divided.
std::vector<Variable> divisible_reductions(const Output& output);

// Is the element a sum of a few products of one read of these operands each with what does not depend on them? Sums over a
// range are left out: they are work, which partial sums do not divide.
bool is_linear(const Element& element, const std::function<bool(std::size_t operand)>& in);

// How the operands are shared if the variable is divided into units of `unit` of its values; nothing if one cannot be. What no
// read of this output mentions stays kWhole.
std::optional<std::vector<Share>> shares_of(const Output& output, const std::vector<Read>& reads, const Variable& variable,
                                            const Index& unit, OperandTypes types);

// Units worth a try: 1, and what the variable is divided by in positions.
std::vector<Index> candidate_units(const std::vector<Read>& reads, const Variable& variable);

}  // namespace rewright::plans
