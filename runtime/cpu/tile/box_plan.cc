#include "runtime/cpu/tile/box_plan.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/cpu/tile/box_compiler.h"
#include "runtime/cpu/tile/narrow.h"

namespace rewright::cpu {

namespace {

using In = Instruction::Kind;
constexpr Count kTileElements = 1024;
// For tiles with rows, whose starts take time, where little else is done than moving them.
constexpr Count kRowsElements = 8192;
constexpr int kFewBuffers = 2, kSpanBuffers = 2;  // more of them in programs that copy parts of rows
constexpr Count kWholeRow = 128;
constexpr Count kSimpleTiles = 4;                       // times as large, if buffers leave room in the first-level cache
constexpr Count kByteElements = 8, kShortElements = 4;  // times as many, if they are of 8 or 16 bits
constexpr Count kRowsBytes = 32 << 10;                  // for the same tiles, if elements are narrow
constexpr Count kSmallTile = 64, kStepsOfSmallTile = 32;
constexpr Count kMovedBytes = 256 << 10;  // for tiles that are only copied: long copies need not read what they overwrite

class LiveSet {
 public:
  explicit LiveSet(BoxPlan& plan) : plan_(plan) {
    plan.blocks.resize(plan.program.blocks.size());
    for (std::size_t b = 0; b < plan.blocks.size(); ++b)
      plan.blocks[b].live.assign(plan.program.blocks[b].instructions.size(), false);
    mark(0, plan.program.blocks[0].result);
  }

 private:
  void mark(int block, int r) {
    if (r < 0 || plan_.blocks[block].live[r]) return;
    plan_.blocks[block].live[r] = true;
    const Instruction& i = plan_.program.blocks[block].instructions[r];
    if (i.kind == In::kOuter) return mark(plan_.program.blocks[block].parent, i.arguments[0]);
    for (const int a : i.arguments) mark(block, a);
    if (i.child >= 0) mark(i.child, i.other);
    if (i.kind == In::kReduce) mark(i.child, plan_.program.blocks[i.child].result);
  }
  BoxPlan& plan_;
};

// Registers share buffers after their last use. Values that children read through kOuter live to the end, and so do those of
// rows that the parent reads.
void assign_buffers(BoxPlan& plan, int b) {
  const Block& block = plan.program.blocks[b];
  BlockPlan& p = plan.blocks[b];
  const std::size_t n = block.instructions.size();
  std::vector<std::size_t> last(n, 0);
  p.kept.assign(n, false);
  p.buffer.assign(n, -1);
  if (b == 0 && plan.moves_rows) return;
  for (std::size_t r = 0; r < n; ++r) {
    if (!p.live[r]) continue;
    const Instruction& i = block.instructions[r];
    if (i.kind != In::kOuter)
      for (const int a : i.arguments)
        if (a >= 0) last[a] = r;
    if (i.kind == In::kConstant || i.kind == In::kRepeat || (i.kind == In::kSpread && i.number == 1)) p.kept[r] = true;
    // Elements that are only moved go straight to the output.
    if ((i.kind == In::kLoad && (b != 0 || static_cast<int>(r) != block.result)) || i.kind == In::kIndices)
      for (std::size_t v = 0; v < plan.program.extents.size(); ++v)
        p.kept[r] = p.kept[r] || (plan.program.extents[v] > 1 && i.affine.coefficient(v) == 0);
  }
  for (std::size_t c = 0; c < plan.program.blocks.size(); ++c) {
    if (plan.program.blocks[c].parent != b) continue;
    for (std::size_t r = 0; r < plan.program.blocks[c].instructions.size(); ++r)
      if (plan.blocks[c].live[r] && plan.program.blocks[c].instructions[r].kind == In::kOuter)
        last[plan.program.blocks[c].instructions[r].arguments[0]] = n;
  }
  if (block.part != Block::Part::kElements)
    for (std::size_t r = 0; r < plan.program.blocks[block.parent].instructions.size(); ++r) {
      const Instruction& i = plan.program.blocks[block.parent].instructions[r];
      if (i.child == b && i.other >= 0 && plan.blocks[block.parent].live[r]) last[i.other] = n;
    }
  if (block.result >= 0) last[block.result] = n;
  std::vector<int> free;
  for (std::size_t r = 0; r < n; ++r) {
    if (!p.live[r]) continue;
    if (p.kept[r]) {
      p.buffer[r] = p.buffers++;
      continue;
    }
    // The destination may reuse a source of the same width that ends here, but not for a reduction, which is accumulated.
    const bool accumulates = block.instructions[r].kind == In::kReduce;
    std::vector<int> ended;
    for (std::size_t a = 0; a < r; ++a) {
      if (!p.live[a] || last[a] != r || p.kept[a]) continue;
      const bool reusable = !accumulates && block.instructions[a].integer == block.instructions[r].integer &&
                            block.instructions[a].narrow == block.instructions[r].narrow;
      (reusable ? free : ended).push_back(p.buffer[a]);
    }
    if (free.empty()) {
      p.buffer[r] = p.buffers++;
    } else {
      p.buffer[r] = free.back();
      free.pop_back();
    }
    free.insert(free.end(), ended.begin(), ended.end());
  }
}

// The largest divisor of a band that is not above `most`, so that tiles end where bands do.
Count tile_of_band(Count band, Count most) {
  Count tile = std::min(band, most);
  while (band % tile != 0) --tile;
  return tile;
}

// Tiles are runs along the innermost variables; if a load runs along another variable, they are squares over both, so that
// whole cache lines are used.
Tiling make_tiling(const BoxPlan& plan, const std::vector<int>& variables, const std::vector<int>& blocks, Count budget,
                   const TileOptions& options) {
  Tiling t;
  for (const int v : variables) {
    if (plan.program.extents[v] == 1) continue;
    t.variables.push_back(v);
    t.extents.push_back(plan.program.extents[v]);
  }
  const std::size_t rank = t.variables.size();
  t.tile.assign(rank, 1);
  int across = -1;
  if (rank >= 2)
    for (const int b : blocks)
      for (std::size_t r = 0; r < plan.program.blocks[b].instructions.size(); ++r) {
        const Instruction& i = plan.program.blocks[b].instructions[r];
        if (!plan.blocks[b].live[r] || i.kind != In::kLoad || std::abs(i.affine.coefficient(t.variables[rank - 1])) <= 1)
          continue;
        for (std::size_t k = 0; k + 1 < rank; ++k)
          if (std::abs(i.affine.coefficient(t.variables[k])) == 1) across = static_cast<int>(k);
      }
  Count left = budget;
  if (across >= 0 && t.extents[rank - 1] >= 16) {
    if (options.in_order) throw NotCompilable();
    // Whole rows, if they are short, go straight to the output.
    const Count square = std::max<Count>(32, budget / t.extents[across]);
    t.tile[rank - 1] = t.extents[rank - 1] <= kWholeRow ? t.extents[rank - 1] : std::min(t.extents[rank - 1], square);
    left = std::max<Count>(16, budget / t.tile[rank - 1]);
    t.tile[across] = std::min(t.extents[across], left);
  } else {
    for (std::size_t k = rank; k-- > 0 && left > 1;) {
      t.tile[k] = std::min(t.extents[k], left);
      left /= t.tile[k];
      // Tiles of nearly one size, so that registers with repeated elements keep them. Rows stay as long as they may be.
      if (const Count tiles = (t.extents[k] + t.tile[k] - 1) / t.tile[k]; k + 1 < rank)
        t.tile[k] = (t.extents[k] + tiles - 1) / tiles;
      if (t.tile[k] < t.extents[k]) break;
    }
  }
  for (std::size_t k = 0; k < rank; ++k) {  // none across bands
    if (t.variables[k] + 1 < options.band_axes) t.tile[k] = 1;
    if (t.variables[k] + 1 == options.band_axes) t.tile[k] = tile_of_band(options.band, t.tile[k]);
  }
  for (std::size_t k = 0; k < rank; ++k) {
    t.count *= (t.extents[k] + t.tile[k] - 1) / t.tile[k];
    t.tile_size *= t.tile[k];
  }
  return t;
}

// Is the result read from an operand of its type, whole rows at a time? An expression means exact numbers, so that integers
// which it reads as reals are themselves; where a node's result is rounded between, that is another step.
bool only_moves_rows(const BoxPlan& plan, const BoxTypes& types) {
  const Block& root = plan.program.blocks[0];
  const Instruction& load = root.instructions[static_cast<std::size_t>(root.result)];
  if (load.kind != In::kLoad || types.operands[static_cast<std::size_t>(load.operand)] != types.output) return false;
  for (std::size_t v = plan.program.output_rank; v-- > 0;)
    if (plan.program.extents[v] > 1) return load.affine.coefficient(v) == 1 && plan.program.output.coefficient(v) == 1;
  return false;
}

// Does it copy one argument or the other along parts of rows? Then each row of a tile is read once, and by few instructions.
bool has_spans(const BoxPlan& plan, std::size_t b) {
  const std::vector<Instruction>& instructions = plan.program.blocks[b].instructions;
  for (std::size_t r = 0; r < instructions.size(); ++r)
    if (plan.blocks[b].live[r] && instructions[r].kind == In::kSelectSpan) return true;
  return false;
}

bool has_few_buffers(const BoxPlan& plan, std::size_t b) {
  return plan.blocks[b].buffers <= kFewBuffers + (has_spans(plan, b) ? kSpanBuffers : 0);
}

// Does the block need little memory, so that a tile may be larger and still fit into the first-level cache?
bool is_simple(const BoxPlan& plan, std::size_t b) {
  const BlockPlan& p = plan.blocks[b];
  const std::vector<Instruction>& instructions = plan.program.blocks[b].instructions;
  for (std::size_t r = 0; r < instructions.size(); ++r)
    if (p.live[r] && instructions[r].integer) return false;
  return has_few_buffers(plan, b);
}

// Should the reduction run along its variables, or around tiles of the output? Along, if its loads then run through memory.
bool reduces_along(const BoxPlan& plan, const Block& block) {
  Count steps = 1, outputs = 1;
  int inner = -1, inner_output = -1;
  for (const int v : block.variables) {
    steps *= plan.program.extents[v];
    if (plan.program.extents[v] > 1) inner = v;
  }
  for (std::size_t v = 0; v < plan.program.output_rank; ++v) {
    outputs *= plan.program.extents[v];
    if (plan.program.extents[v] > 1) inner_output = static_cast<int>(v);
  }
  if (inner < 0 || steps < 4) return false;
  if (inner_output < 0 || outputs < 4) return true;
  int along = 0, around = 0;
  for (const Instruction& i : block.instructions) {
    if (i.kind != In::kLoad) continue;
    along += std::abs(i.affine.coefficient(inner)) == 1;
    around += std::abs(i.affine.coefficient(inner_output)) == 1;
  }
  return along > around;
}

// A reduction without steps has nothing to run along.
bool can_reduce_along(const BoxPlan& plan, const Block& block, const TileLoops& loops) {
  if (block.variables.empty()) return false;
  Count steps = 1;
  for (const int v : block.variables) steps *= plan.program.extents[v];
  return loops.reduce == TileLoops::Reduce::kAlong && steps > 1;
}

// Are the elements read where they lie, so that no register holds them?
bool reduces_in_place(const BoxPlan& plan, const Block& block) {
  const Instruction& i = block.instructions[static_cast<std::size_t>(block.result)];
  if (i.kind != In::kLoad) return false;
  for (std::size_t v = block.variables.size(); v-- > 0;)
    if (plan.program.extents[static_cast<std::size_t>(block.variables[v])] > 1)
      return i.affine.coefficient(static_cast<std::size_t>(block.variables[v])) == 1;
  return false;
}

// Short reductions are evaluated for several elements of the output at once: instructions take some time however short their
// tiles are.
Count reduced_together(const BoxPlan& plan, int b, Count budget) {
  constexpr std::size_t kMostVariables = 12;
  const Tiling &outer = plan.blocks[0].tiling, &own = plan.blocks[static_cast<std::size_t>(b)].tiling;
  if (own.count != 1 || outer.variables.size() + own.variables.size() > kMostVariables) return 1;
  return std::clamp<Count>(budget / own.tile_size, 1, outer.tile_size);
}

BandTiles band_tiles(const BoxPlan& plan, const TileOptions& options) {
  BandTiles bands;
  if (options.band_axes == 0) return bands;
  const Tiling& tiling = plan.blocks[0].tiling;
  bands.tiles_along = bands.bands = 1;
  Count inner = 1, step = 1;
  for (std::size_t k = 0; k < tiling.variables.size(); ++k) {
    const Count steps = (tiling.extents[k] + tiling.tile[k] - 1) / tiling.tile[k];
    if (tiling.variables[k] + 1 > options.band_axes) inner *= steps;
    if (tiling.variables[k] + 1 < options.band_axes) bands.bands *= steps;
    if (tiling.variables[k] + 1 != options.band_axes) continue;
    bands.along = (tiling.extents[k] + options.band - 1) / options.band;
    bands.tiles_along = steps;
    step = options.band / tiling.tile[k];
  }
  bands.bands *= bands.along;
  bands.tiles_along *= inner;
  bands.tiles = step * inner;
  return bands;
}

}  // namespace

BoxPlan plan_box(BoxProgram given, const BoxTypes& types, const TileOptions& options) {
  BoxPlan plan;
  plan.program = std::move(given);
  LiveSet live(plan);
  narrow_integers(plan, types.output, types.operands, types.in_double);
  plan.moves_rows = !options.in_order && only_moves_rows(plan, types);
  BoxProgram& program = plan.program;
  std::vector<int> axes;
  for (std::size_t v = 0; v < program.output_rank; ++v) axes.push_back(static_cast<int>(v));
  std::vector<int> around{0};
  const bool has_rows =
      std::any_of(program.blocks.begin(), program.blocks.end(), [](const Block& b) { return b.part == Block::Part::kRows; });
  for (std::size_t b = 1; b < program.blocks.size(); ++b) {
    Block& block = program.blocks[b];
    // Inside a reduction that runs along its variables, tiles are over those: a nested reduction runs around them.
    const bool along = options.loops.reduce == TileLoops::Reduce::kEstimated ? reduces_along(plan, block)
                                                                             : can_reduce_along(plan, block, options.loops);
    const bool wanted = block.split == Block::Split::kNone ? along : block.split == Block::Split::kRows;
    block.along = wanted && (block.parent == 0 || !program.blocks[block.parent].along);
    if (!block.along && block.parent >= 0 && std::find(around.begin(), around.end(), block.parent) != around.end())
      around.push_back(static_cast<int>(b));
  }
  plan.block_elements.assign(program.blocks.size(), 0);
  const auto width = static_cast<Count>(byte_size(types.output));
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    assign_buffers(plan, static_cast<int>(b));
    const Block& block = program.blocks[b];
    Count budget = plan.blocks[b].buffers > 12 ? kTileElements / 2 : kTileElements;
    if (plan.narrow == DataType::kInt8 || plan.narrow == DataType::kUint8)
      budget *= kByteElements;
    else if (plan.narrow == DataType::kInt16)
      budget *= kShortElements;
    else if (program.blocks.size() == 1 && is_simple(plan, b))
      budget *= kSimpleTiles;  // a tile by itself takes some ten nanoseconds
    if (has_rows && has_few_buffers(plan, b)) budget = std::max(kRowsElements, kRowsBytes / width);
    if (plan.moves_rows) budget = kMovedBytes / width;
    if (options.loops.tile > 0) budget = options.loops.tile;
    if (b == 0) {
      plan.blocks[b].tiling = make_tiling(plan, axes, around, budget, options);
    } else if (block.along) {
      plan.blocks[b].tiling = make_tiling(plan, block.variables, {static_cast<int>(b)}, budget, {});
    } else {
      for (const int v : block.variables)
        if (program.extents[v] > 1) plan.blocks[b].loop_variables.push_back(v);
    }
    plan.block_elements[b] = b == 0 || block.along ? plan.blocks[b].tiling.tile_size : plan.block_elements[block.parent];
    if (block.along) {
      Count most = budget;
      if (options.loops.tile == 0 && is_simple(plan, b)) most *= kSimpleTiles;
      if (options.loops.tile == 0 && reduces_in_place(plan, block)) most = std::max(most, kRowsElements);
      plan.blocks[b].together = reduced_together(plan, static_cast<int>(b), most);
      plan.block_elements[b] *= plan.blocks[b].together;
    }
    // Room for several steps of a reduction around a small tile.
    if (!plan.blocks[b].loop_variables.empty() && plan.block_elements[b] <= kSmallTile)
      plan.block_elements[b] *= kStepsOfSmallTile;
    const Tiling& outer = plan.blocks[0].tiling;
    if (block.part == Block::Part::kRow) plan.block_elements[b] = outer.tile.back();
    if (block.part == Block::Part::kRows) plan.block_elements[b] = outer.tile_size / outer.tile.back();
  }
  plan.bands = band_tiles(plan, options);
  return plan;
}

}  // namespace rewright::cpu
