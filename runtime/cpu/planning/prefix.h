// Reductions over all positions up to each one, or from each one on: running sums.
#pragma once

#include <memory>
#include <optional>

#include "runtime/cpu/planning/kernel.h"
#include "runtime/cpu/tile/stages.h"

namespace rewright::cpu {

struct Prefix {
  Element body;  // at the output's own position
  std::size_t axis;
  Reduction reduction;
  bool exclusive, reverse;
};

// Nothing if the expression is no such reduction along an axis of the output.
std::optional<Prefix> match_prefix(const Element& element, const Indices& position, const Sizes& sizes);

// A step that computes the body by `program` and reduces its elements where they are. Null for types that it does not have.
std::unique_ptr<Kernel> make_prefix(const Prefix& prefix, StagedProgram program, DataType type, const Sizes& sizes);

}  // namespace rewright::cpu
