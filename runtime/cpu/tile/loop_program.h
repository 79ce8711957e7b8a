// The loops of a group of expressions as a value: which sub-expressions are stored, where each is computed, and in what tiles.
//
// A group is a list of values, each an expression over the group's operands and earlier values. Its loop program is a list of
// passes. A pass computes one tensor whole, or several tensors band by band: a band is some consecutive positions of one axis,
// at one position of each axis before it. What is stored and read within a pass alone needs memory for a band, not for the
// tensor.
//
//   v0.e3; for 16 of axis 1 { v0.e9 (along); v1 (tile 2048); v2 }
//
// v1 is the second value, v0.e3 the third sub-expression of the first value (arguments before their users, from 0), as a tensor
// over the axes that it depends on. A value that is not named is computed where it is read.
//
// Any program that compile_stages accepts computes the group's expressions: to store a sub-expression, to inline a value, and
// to reorder independent elements changes no element but for the order of sums and roundings of products that are added at
// once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rewright::cpu {

// The loops of one tensor; by default an estimate chooses.
struct TileLoops {
  enum class Rows { kEstimated, kLast, kBefore };     // which axis vectors run along: the last one, or the one before
  enum class Reduce { kEstimated, kAlong, kAround };  // reductions by element, or for all elements of a tile at once
  std::int64_t tile = 0;                              // elements; 0: estimated
  Rows rows = Rows::kEstimated;
  Reduce reduce = Reduce::kEstimated;
  friend bool operator==(const TileLoops&, const TileLoops&) = default;
};

struct LoopProgram {
  static constexpr int kWhole = -1;
  struct Stored {
    int value = 0;
    int expression = kWhole;  // a sub-expression's number; kWhole: the value itself
    TileLoops loops = {};
    friend bool operator==(const Stored&, const Stored&) = default;
  };
  struct Pass {
    int axis = -1;          // that is cut into bands; -1: the pass computes one whole tensor
    std::int64_t band = 0;  // positions of the axis
    std::vector<Stored> stored;
    friend bool operator==(const Pass&, const Pass&) = default;
  };
  std::vector<Pass> passes;
  friend bool operator==(const LoopProgram&, const LoopProgram&) = default;
};

std::string to_string(const LoopProgram& program);
// nullopt for a text that to_string does not write.
std::optional<LoopProgram> parse_loops(std::string_view text);

}  // namespace rewright::cpu
