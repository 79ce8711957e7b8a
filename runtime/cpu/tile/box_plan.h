// The execution of a box of a tile program: its tiles, buffers of registers, and direction of reductions.
#pragma once

#include <vector>

#include "runtime/cpu/tile/block.h"

namespace rewright::cpu {

// A part of the space of some variables; elements are in row-major order over them.
struct Tile {
  std::vector<int> variables;  // outermost first
  std::vector<Count> extents;
  Count size = 1;
};

// A division of a space into tiles.
struct Tiling {
  std::vector<int> variables;
  std::vector<Count> extents, tile;
  Count count = 1;  // of tiles
  Count tile_size = 1;

  // Sets the variables' starts and the tile's shape for tile `number`.
  void select(Count number, Tile& t, std::vector<Count>& current) const {
    t.size = 1;
    for (std::size_t k = variables.size(); k-- > 0;) {
      const Count steps = (extents[k] + tile[k] - 1) / tile[k];
      const Count start = number % steps * tile[k];
      number /= steps;
      current[variables[k]] = start;
      t.extents[k] = std::min(tile[k], extents[k] - start);
      t.size *= t.extents[k];
    }
  }
};

struct BlockPlan {
  std::vector<bool> live;
  std::vector<bool> kept;   // repeated loads: their registers have memory of their own
  std::vector<int> buffer;  // by register; -1: none needed
  int buffers = 0;
  Tiling tiling;       // of the output, or of the reduction's variables
  Count together = 1;  // for a reduction along its variables that is one tile: elements of the output that share an evaluation
  std::vector<int> loop_variables;  // for a reduction around tiles: its variables with more than one step
};

// The tiles of each band (TileOptions::band): its variables are the outermost ones of the tiling.
struct BandTiles {
  Count bands = 0;        // of the box
  Count along = 1;        // bands along the cut axis
  Count tiles = 0;        // of a band ...
  Count tiles_along = 0;  // ... and of the cut axis: the last band may have fewer
};

struct BoxPlan {
  BoxProgram program;
  std::vector<BlockPlan> blocks;
  std::vector<Count> block_elements;       // by block: elements of its tiles
  DataType narrow = DataType::kUndefined;  // the type of narrow registers; undefined: there are none
  bool stores_as_held = false;             // does the result's narrow register hold elements as the output does?
  bool moves_rows = false;                 // only copies rows of an operand, so that no register has memory
  BandTiles bands;
};

// The element types of a box's tensors and real registers.
struct BoxTypes {
  DataType output;
  const std::vector<DataType>& operands;
  bool in_double;
};
// In order each tile is a run of the output's elements; throws NotCompilable if squares would be faster.
BoxPlan plan_box(BoxProgram program, const BoxTypes& types, const TileOptions& options);

}  // namespace rewright::cpu
