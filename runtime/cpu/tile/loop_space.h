// The space of a group's loop programs: the programs that differ from one in a single choice, and what a program costs.
#pragma once

#include <span>
#include <vector>

#include "runtime/cpu/tile/stages.h"

namespace rewright::cpu {

// A group to find loops for.
struct LoopProblem {
  std::vector<GroupValue> values;
  std::vector<TileOperand> operands;
  TileOptions options;

  // A text with the sizes and a hash of all that the loops depend on: equal groups have equal names.
  std::string name() const;
};

// Each value whole, one after the other, with no sub-expressions stored: how groups run if they are not fused.
LoopProgram each_value_whole(const LoopProblem& problem);

// Programs that differ from this one in one choice: another tile or direction of rows and reductions, another band or axis of
// bands, passes joined or divided, a sub-expression or value stored or computed where it is read. Some of them may not fit the
// values, which compile_stages tells.
std::vector<LoopProgram> neighbours(const LoopProblem& problem, const LoopProgram& program);

// Rates of one thread: operations of vectors in registers, and bytes copied within the first two levels of the
// cache and in memory, each a nanosecond.
struct LoopRates {
  double operations = 30, cache_bytes = 40, memory_bytes = 8;
};

struct LoopCost {
  double nanoseconds = 0;  // predicted
  double least = 0;        // no program that computes as many operations takes less: at the rates alone
};
// nullopt: the program does not fit the values.
std::optional<LoopCost> cost_of(const LoopProblem& problem, const LoopProgram& program, const LoopRates& rates);

}  // namespace rewright::cpu
