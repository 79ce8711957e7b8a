// Tile programs: element expressions compiled for known sizes.
//
// An output is computed in tiles of some thousand elements that fit into the first-level cache: every instruction is one vector
// loop over a tile. Reads at affine positions are strided loads; all others gather. Guards on output positions (padding,
// concatenation) split the output into boxes, each with its own program. A reduction runs either as a loop around whole tiles,
// or along its own variables, for one output element at a time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "expressions/element.h"
#include "operators/operator.h"
#include "runtime/cpu/base/layout.h"
#include "runtime/cpu/base/workers.h"
#include "runtime/cpu/tile/loop_program.h"
#include "runtime/session.h"

namespace rewright::cpu {

struct TileOperand {
  DataType type = DataType::kUndefined;
  Sizes sizes;
  Layout layout;
};

struct TileOptions {
  Isa isa = Isa::kBaseline;
  bool precision_double = false;  // compute reals in double even if all tensors are narrower
  bool in_order = false;          // for TileProgram::run_in_order
  int threads = 1;                // of a staged program: how many may run its bands at once
  TileLoops loops = {};
  // For TileProgram::run_band: the output's axes from the first on, so many, of which the last one is cut into bands of `band`
  // positions; a band has one position of each of the others.
  int band_axes = 0;
  std::int64_t band = 0;
};

class TileProgram {
 public:
  virtual ~TileProgram() = default;
  // One pointer for each operand of the expression; the output has the layout it was compiled for.
  virtual void run(const std::byte* const* operands, std::byte* output, const Workers& workers) const = 0;

  // Gets `count` elements of the output from number `first` on, in row-major order. They are valid until the call returns.
  using Use = std::function<void(std::int64_t first, std::int64_t count, const std::byte* elements)>;
  // Computes the output on one thread and passes it to `use` piece by piece, some hundred to some thousand elements at a time.
  // For programs compiled with TileOptions::in_order.
  virtual void run_in_order(const std::byte* const* operands, const Use& use) const = 0;

  // For programs compiled with TileOptions::band: computes a part of the output on the calling thread. Bands are numbered in
  // the order of their elements.
  virtual void run_band(const std::byte* const* operands, std::byte* output, std::int64_t band) const = 0;
  virtual std::int64_t bands() const = 0;

  // An estimate of the time on one thread, by which work is divided.
  virtual double nanoseconds() const = 0;
};

// Compiles the expression for an output of known type and sizes. `position`: the atoms of its axes. Null if something cannot be
// compiled: an unknown size, or a layout that does not fit a read. In order: also if the output is not row-major, if registers
// do not hold its type, or if reads across memory make tiles squares. In bands: also if the output is not row-major, if guards
// cut it into boxes, or if rows run along an axis of the bands.
std::unique_ptr<TileProgram> compile_tiles(const Element& element, const Indices& position, const TileOperand& output,
                                           std::vector<TileOperand> operands, const TileOptions& options);

// Values of a function of one number at some points. The expression reads only operand `operand`, at any position. Empty if it
// cannot be compiled.
std::vector<double> sample_function(const Element& element, int operand, std::span<const double> points);

}  // namespace rewright::cpu
