// The parts of a tile program.
#pragma once

#include <cstdint>
#include <vector>

#include "expressions/element.h"
#include "runtime/cpu/tile/loops.h"
#include "runtime/cpu/tile/program.h"
#include "runtime/planning/affine.h"

namespace rewright::cpu {

// A register holds one tile: reals (float or double, the same for the whole program), integers of 64 bits, or narrower ones.
struct Instruction {
  enum class Kind {
    kLoad,        // operand at an affine address
    kGather,      // operand at the addresses in arguments[0]
    kGatherAxis,  // operand at an affine address, plus `apart` times the position of the index arguments[0] as of kPosition
    // Read register `other` of the block `child`, as kSelectSpan may:
    kGatherRows,  // operand at the row's address, plus arguments[0], or an affine address if that is absent
    kSpread,      // the row's value, for all elements of the row; it is the same in all rows if `number` is 1
    kRepeat,      // the value for an element of a row, for all rows
    kIndices,     // the affine expression itself as integers
    kConstant,
    kOuter,  // register arguments[0] of the enclosing block
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kMaximum,
    kMinimum,
    kMultiplyAdd,
    kFloorDivide,
    kFloorModulo,
    kPosition,  // of the index arguments[0] on an axis of `number` elements; throws if it has none
    kUnary,     // function with a vector loop
    kFunction,  // function, element by element
    kEqual,
    kLess,
    kLessEqual,  // for arguments of either kind; the result is an integer
    kSelect,
    // arguments[0] where the affine expression, plus the row's number if there is a child, is below 0, or is 0 if `number` is
    // 1; else arguments[1]
    kSelectSpan,
    kSelectEqual,  // of reals: arguments[2] where the first two are equal, else arguments[3]
    kSelectLess,
    kSelectLessEqual,
    kToInteger,
    kToReal,
    kReduce,  // the block `child`
  };
  explicit Instruction(Kind k) : kind(k) {}
  Kind kind;
  bool integer = false;            // the kind of the destination
  bool narrow = false;             // an integer of BoxPlan::narrow's width
  bool bits = false;               // narrow: the bits of a half that is only moved
  bool tolerant = false;           // kPosition, kGatherAxis: any position will do if the index has none
  bool integer_arguments = false;  // kEqual, kLess, kLessEqual, kFunction: the kind of the arguments
  int arguments[4] = {-1, -1, -1, -1};
  int operand = -1;
  Affine affine;  // kLoad, kGatherAxis, kGatherRows: the element's position in the operand; kIndices, kSelectSpan: the value
  double real = 0;
  std::int64_t number = 0, apart = 0;
  const Function* function = nullptr;
  int child = -1, other = -1;

  bool has_address() const {
    return kind == Kind::kLoad || kind == Kind::kGatherAxis || kind == Kind::kGatherRows || kind == Kind::kIndices ||
           kind == Kind::kSelectSpan;
  }
};

struct Block {
  int parent = -1;
  std::vector<Instruction> instructions;  // each defines the register of its own number
  int result = -1;
  // For reductions: its kind, its variables (outermost first), and whether it runs along them or around whole tiles.
  Reduction reduction = Reduction::kSum;
  std::vector<int> variables;
  bool along = false;
  // The first part of a reduction in two, whose result is the other one: that over rows, or over the other axes.
  enum class Split { kNone, kRows, kOthers };
  Split split = Split::kNone;
  // How often the block is computed for each tile of its parent, whose rows run along the innermost variable: for all elements,
  // once for each row, or once for each element of a row.
  enum class Part { kElements, kRows, kRow };
  Part part = Part::kElements;
};

// A box of output positions with the program that computes it. Variables [0, output_rank) are the output's axes in memory order
// (a blocked channel axis counts twice), relative to the box's corner; others belong to reductions.
struct BoxProgram {
  std::vector<Block> blocks;  // blocks[0] computes the output
  std::size_t output_rank = 0;
  std::vector<std::int64_t> extents;  // by variable
  Affine output;                      // the element's position in the output
};

std::unique_ptr<TileProgram> make_executor(std::vector<BoxProgram> boxes, TileOperand output,
                                           std::vector<DataType> operand_types, const TileOptions& options, bool in_double);

// Merges variables that are always traversed together, but none of the output's first `kept` ones.
void coalesce(BoxProgram& box, int kept);

}  // namespace rewright::cpu
