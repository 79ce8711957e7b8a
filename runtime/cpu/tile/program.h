// Tile programs: element expressions compiled for known sizes.
//
// The elements of an output are computed in tiles of some thousand that lie in the first-level cache: every instruction of the
// program is one vector loop over a tile. Reads at affine positions are strided loads; all others gather. Guards on output
// positions (padding, concatenation) split the output into boxes, each with its own program. A reduction runs either as a loop
// around whole tiles, or along its own variables, element by element of the output.
#pragma once

#include <memory>
#include <vector>

#include "expressions/element.h"
#include "operators/operator.h"
#include "runtime/cpu/base/layout.h"
#include "runtime/cpu/base/workers.h"
#include "runtime/session.h"

namespace rewright::cpu {

struct TileOperand {
  DataType type = DataType::kUndefined;
  Sizes sizes;
  Layout layout;
};

struct TileOptions {
  Isa isa = Isa::kBaseline;
  bool precision_double = false;  // reals in double even if all tensors are narrower
};

class TileProgram {
 public:
  virtual ~TileProgram() = default;
  // One pointer for each operand of the expression; the output in the layout it was compiled for.
  virtual void run(const std::byte* const* operands, std::byte* output, const Workers& workers) const = 0;
};

// Compiles the expression for an output of known type and sizes: `position` are the atoms that stand for its axes. Null if the
// expression holds something that cannot be compiled: an unknown size, a layout that a read does not fit.
std::unique_ptr<TileProgram> compile_tiles(const Element& element, const Indices& position, const TileOperand& output,
                                           std::vector<TileOperand> operands, const TileOptions& options);

// The values at some points of the function of one number that an expression is, which reads nothing but operand `operand`, at
// any position. Empty if it cannot be compiled.
std::vector<double> sample_function(const Element& element, int operand, std::span<const double> points);

}  // namespace rewright::cpu
