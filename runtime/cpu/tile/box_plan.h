// How a box of a tile program is executed: its tiles, the buffers of its registers, the direction of its reductions.
#pragma once

#include <vector>

#include "runtime/cpu/tile/block.h"

namespace rewright::cpu {

// A part of the space of some variables: elements in row-major order over these variables.
struct Tile {
  std::vector<int> variables;  // outermost first
  std::vector<Count> extents;
  Count size = 1;
};

// How far a space is cut into tiles.
struct Tiling {
  std::vector<int> variables;
  std::vector<Count> extents, tile;
  Count count = 1;  // of tiles
  Count tile_size = 1;

  // The start of each variable and the tile's shape, of tile `number`.
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
  std::vector<bool> kept;   // loads that often repeat: their registers have memory of their own
  std::vector<int> buffer;  // of each register; -1: none needed
  int buffers = 0;
  Tiling tiling;                    // of the output, or of the reduction's variables
  std::vector<int> loop_variables;  // of a reduction around tiles: those with more than one step
};

struct BoxPlan {
  BoxProgram program;
  std::vector<BlockPlan> blocks;
  std::vector<Count> block_elements;  // the size of each block's tiles
};

BoxPlan plan_box(BoxProgram program);

}  // namespace rewright::cpu
