// Executes tile programs: their pieces, and the tiles of a piece.
#include "runtime/cpu/tile/executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/cpu/tile/box_compiler.h"

namespace rewright::cpu {

namespace {

constexpr double kElements = 2;  // per nanosecond

// Bytes of one buffer of a block's registers.
std::size_t buffer_bytes(const BoxPlan& plan, std::size_t b) {
  return (static_cast<std::size_t>(plan.block_elements[b]) * 8 + 63) / 64 * 64 + 64;
}

double nanoseconds_of(const BoxPlan& plan) {
  double work = 1;
  for (const Count e : plan.program.extents) work *= static_cast<double>(e);
  return work / kElements;
}

}  // namespace

template <class R>
Executor<R>::Executor(std::vector<BoxProgram> boxes, TileOperand output, std::vector<DataType> operand_types,
                      const TileOptions& options)
    : output_(std::move(output)),
      operand_types_(std::move(operand_types)),
      real_(real_loops<R>(options.isa)),
      tables_(loops_for<LoopTables>(options.isa)) {
  const BoxTypes types{output_.type, operand_types_, std::is_same_v<R, double>};
  if (options.band_axes > 0 && boxes.size() != 1) throw NotCompilable();
  for (BoxProgram& box : boxes) plans_.push_back(plan_box(std::move(box), types, options));
}

template <class R>
void Executor<R>::run(const std::byte* const* operands, std::byte* output, const Workers& workers) const {
  for (const BoxPlan& plan : plans_) {
    const Tiling& tiling = plan.blocks[0].tiling;
    const Count pieces = workers.pieces(nanoseconds_of(plan), tiling.count);
    workers.share(pieces, [&](Count piece, int) {
      run_tiles(plan, operands, output, first_unit(tiling.count, piece, pieces), first_unit(tiling.count, piece + 1, pieces));
    });
  }
}

template <class R>
void Executor<R>::run_in_order(const std::byte* const* operands, const Use& use) const {
  for (const BoxPlan& plan : plans_) {  // one, or none without elements
    Context& c = context();
    set_up(c, plan, operands);
    const int result = plan.program.blocks[0].result;
    const Tiling& tiling = plan.blocks[0].tiling;
    Tile& tile = c.tiles[0];
    Count first = 0;
    for (Count t = 0; t < tiling.count; ++t, first += tile.size) {
      tiling.select(t, tile, c.current);
      c.blocks[0].at[result] = c.blocks[0].home[result];
      evaluate(c, 0, tile, -1);
      use(first, tile.size, static_cast<const std::byte*>(c.blocks[0].at[result]));
    }
  }
}

template <class R>
void Executor<R>::run_band(const std::byte* const* operands, std::byte* output, std::int64_t band) const {
  const BoxPlan& plan = plans_[0];
  const BandTiles& b = plan.bands;
  const Count outer = band / b.along * b.tiles_along, first = band % b.along * b.tiles;
  run_tiles(plan, operands, output, outer + first, outer + std::min(first + b.tiles, b.tiles_along));
}

template <class R>
double Executor<R>::nanoseconds() const {
  double total = 0;
  for (const BoxPlan& plan : plans_) total += nanoseconds_of(plan);
  return total;
}

template <class R>
auto Executor<R>::context() -> Context& {
  static thread_local Context context;
  return context;
}

template <class R>
void Executor<R>::set_up(Context& c, const BoxPlan& plan, const std::byte* const* operands) const {
  c.plan = &plan;
  c.operands = operands;
  c.current.assign(plan.program.extents.size(), 0);
  const std::size_t count = plan.program.blocks.size();
  // Never freed, since the thread's next program needs it.
  if (c.blocks.size() < count) c.blocks.resize(count);
  if (c.tiles.size() < count) c.tiles.resize(count);
  if (c.partial.size() < count) c.partial.resize(count);
  c.element.assign(count, 0);
  std::size_t bytes = 64;
  for (std::size_t b = 0; b < count; ++b) bytes += plan.blocks[b].buffers * buffer_bytes(plan, b);
  if (c.memory.size() < bytes) c.memory.resize(bytes);
  std::byte* next = c.memory.data() + (64 - reinterpret_cast<std::uintptr_t>(c.memory.data()) % 64);
  for (std::size_t b = 0; b < count; ++b) {
    set_up_block(c, b, next);
    next += plan.blocks[b].buffers * buffer_bytes(plan, b);
  }
}

template <class R>
void Executor<R>::set_up_block(Context& c, std::size_t b, std::byte* memory) const {
  const BoxPlan& plan = *c.plan;
  const BlockPlan& p = plan.blocks[b];
  Registers& registers = c.blocks[b];
  registers.home.assign(p.buffer.size(), nullptr);
  if (registers.kept.size() < p.buffer.size()) registers.kept.resize(p.buffer.size());
  for (Kept& kept : registers.kept) kept.address = nullptr;
  for (std::size_t r = 0; r < p.buffer.size(); ++r)
    if (p.buffer[r] >= 0) registers.home[r] = memory + p.buffer[r] * buffer_bytes(plan, b);
  registers.at = registers.home;
  Tile& tile = c.tiles[b];
  tile.variables = p.tiling.variables;
  const std::vector<int>& outer = plan.blocks[0].tiling.variables;
  if (p.together > 1) tile.variables.insert(tile.variables.begin(), outer.begin(), outer.end());
  if (plan.program.blocks[b].part == Block::Part::kRows) tile.variables.assign(outer.begin(), outer.end() - 1);
  if (plan.program.blocks[b].part == Block::Part::kRow) tile.variables.assign(1, outer.back());
  tile.size = 0;
  tile.extents.assign(tile.variables.size(), 1);
  // Constants are filled in once.
  for (std::size_t r = 0; r < p.buffer.size(); ++r) {
    const Instruction& i = plan.program.blocks[b].instructions[r];
    if (!p.live[r] || i.kind != Instruction::Kind::kConstant) continue;
    with_loops(c, i, [&](const auto& loops, auto zero) {
      using T = decltype(zero);
      loops.fill(values<T>(c, b, r), i.integer ? static_cast<T>(i.number) : static_cast<T>(i.real), plan.block_elements[b]);
    });
  }
}

template <class R>
void Executor<R>::run_tiles(const BoxPlan& plan, const std::byte* const* operands, std::byte* output, Count first,
                            Count last) const {
  Context& c = context();
  set_up(c, plan, operands);
  const Block& root = plan.program.blocks[0];
  const Instruction& result = root.instructions[root.result];
  const Tiling& tiling = plan.blocks[0].tiling;
  const std::size_t width = byte_size(output_.type);
  const bool same_type = result.narrow    ? plan.stores_as_held
                         : result.integer ? is_held<std::int64_t>(output_.type)
                                          : is_held<R>(output_.type);
  const bool is_kept = plan.blocks[0].kept[root.result];
  Tile& tile = c.tiles[0];
  for (Count t = first; t < last; ++t) {
    tiling.select(t, tile, c.current);
    std::byte* const target = output + start(plan.program.output, c) * static_cast<Count>(width);
    const bool direct = same_type && !is_kept && contiguous(plan.program.output, tile);
    if (plan.moves_rows) {
      copy_rows(c, tile, result, target);
      continue;
    }
    c.blocks[0].at[root.result] = direct ? static_cast<void*>(target) : c.blocks[0].home[root.result];
    evaluate(c, 0, tile, direct ? root.result : -1);
    if (!direct) store(c, tile, plan.program.output, target, root.result);
  }
}

// Copies a tile from an operand to the output, where both have its rows in one piece.
template <class R>
void Executor<R>::copy_rows(const Context& c, const Tile& tile, const Instruction& load, std::byte* target) const {
  const auto width = static_cast<Count>(byte_size(output_.type));
  const std::byte* const source = c.operands[load.operand] + start(load.affine, c) * width;
  const Affine& output = c.plan->program.output;
  const std::size_t rank = tile.variables.size();
  const bool has_rows = rank > 1;
  const Count n = tile.extents[rank - 1], rows = has_rows ? tile.extents[rank - 2] : 1;
  const Count further = has_rows ? load.affine.coefficient(tile.variables[rank - 2]) : 0,
              apart = has_rows ? output.coefficient(tile.variables[rank - 2]) : 0;
  Count steps[16] = {}, from = 0, to = 0;
  for (Count group = 0; group * rows * n < tile.size; ++group) {
    tables_.copy_rows(target + to * width, apart * width, source + from * width, further * width, rows, n * width);
    for (std::size_t k = has_rows ? rank - 2 : 0; k-- > 0;) {
      const Count from_next = load.affine.coefficient(tile.variables[k]), to_next = output.coefficient(tile.variables[k]);
      from += from_next;
      to += to_next;
      if (++steps[k] < tile.extents[k]) break;
      from -= from_next * steps[k];
      to -= to_next * steps[k];
      steps[k] = 0;
    }
  }
}

template <class R>
void Executor<R>::store(const Context& c, const Tile& tile, const Affine& address, std::byte* target, int result) const {
  const Instruction& i = c.plan->program.blocks[0].instructions[result];
  const DataType type = i.bits ? c.plan->narrow : output_.type;
  const auto width = static_cast<Count>(byte_size(type));
  with_loops(c, i, [&](const auto& loops, auto zero) {
    using T = decltype(zero);
    const T* const elements = values<T>(c, 0, result);
    // Rows along the last axis but one: squares of the two are exchanged.
    const std::size_t rank = tile.variables.size();
    const Count across = rank < 2 ? 0 : tile.extents[rank - 2];
    if (across > 1 && (i.narrow ? c.plan->stores_as_held : is_held<T>(type)) &&
        address.coefficient(tile.variables[rank - 2]) == 1 && address.coefficient(tile.variables[rank - 1]) == across) {
      T* const d = reinterpret_cast<T*>(target);
      return for_each_row(address, tile, [&](Count to, Count from, Count, Count n) {
        if (from / n % across == 0) loops.transpose(d + to, elements + from, n, n, across);
      });
    }
    for_each_row(address, tile, [&](Count to, Count from, Count stride, Count n) {
      loops.store(target + to * width, type, stride, elements + from, n);
    });
  });
}

template class Executor<float>;
template class Executor<double>;

std::unique_ptr<TileProgram> make_executor(std::vector<BoxProgram> boxes, TileOperand output,
                                           std::vector<DataType> operand_types, const TileOptions& options, bool in_double) {
  if (in_double)
    return std::make_unique<Executor<double>>(std::move(boxes), std::move(output), std::move(operand_types), options);
  return std::make_unique<Executor<float>>(std::move(boxes), std::move(output), std::move(operand_types), options);
}

}  // namespace rewright::cpu
