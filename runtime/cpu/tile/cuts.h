// Guards on output positions: where to cut the output so that they are decided on both sides. Quotients: how to split its axes.
#pragma once

#include <optional>
#include <vector>

#include "expressions/element.h"
#include "runtime/cpu/tile/program.h"
#include "runtime/planning/affine.h"

namespace rewright::cpu {

// An output axis, and the position where its second part begins.
struct Cut {
  std::size_t axis;
  std::int64_t at;
};

// A cut that decides a guard which is undecided within the variables' ranges; the first `axes` variables are the output's.
// `around`: also beyond which a guard within a reduction holds in most of its steps, which leaves it undecided on the other
// side.
std::optional<Cut> find_cut(const Element& element, const Variables& variables, std::size_t axes,
                            const std::vector<TileOperand>& operands, bool around);

// An expression over the axes of an output.
struct Computed {
  Element element;
  Indices position;  // the axes' atoms
  Sizes sizes;

  Variables variables() const;
};

// The output with some axes i split into two, i = n * o + r with r < n, where positions are quotients i div n and
// remainders i mod n: they are affine in o and r. Nothing is split if the layout of the output or of an operand depends on the
// axes.
Computed with_split_axes(Computed computed, const TileOperand& output, const std::vector<TileOperand>& operands);

// Would with_split_axes split an axis of a row-major output of row-major operands?
bool splits_axes(const Computed& computed);

// The conditions for a read to be inside an operand of these sizes.
std::vector<Condition> inside_conditions(const ElementNode& read, const Sizes& sizes);

}  // namespace rewright::cpu
