// Functions of one integer of 8 bits, computed ahead for all 256 of them: what stands between a dequantization and a
// quantization, however many operators that is.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

struct ByteTable {
  std::unique_ptr<Kernel> kernel;
  ValueId operand;
  Layout layout;  // of the operand and the result
};

// The expression as a table, where it reads nothing but one tensor of 8-bit integers, once for an element and mostly side by
// side or else in that tensor's order, and numbers that are known, and is worth it.
std::optional<ByteTable> make_byte_table(const Planner& planner, const Element& element, const Indices& position,
                                         ValueId result, const std::vector<ValueId>& operands);

}  // namespace rewright::cpu
