// Guards on output positions: where to cut the output so that they are decided on both sides.
#pragma once

#include <optional>
#include <vector>

#include "expressions/element.h"
#include "runtime/cpu/tile/program.h"
#include "runtime/planning/affine.h"

namespace rewright::cpu {

// An output axis, and the position at which its second part begins.
struct Cut {
  std::size_t axis;
  std::int64_t at;
};

// A cut that decides a guard which is open within the variables' ranges; the first `axes` variables are the output's.
std::optional<Cut> find_cut(const Element& element, const Variables& variables, std::size_t axes,
                            const std::vector<TileOperand>& operands);

// That a read lies inside of an operand of these sizes.
std::vector<Condition> inside_conditions(const ElementNode& read, const Sizes& sizes);

}  // namespace rewright::cpu
