// Running tile programs.
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "runtime/cpu/tile/box_plan.h"

namespace rewright::cpu {

namespace {

using In = Instruction::Kind;
constexpr double kElements = 2;  // a nanosecond

template <class R>
class Executor final : public TileProgram {
 public:
  Executor(std::vector<BoxProgram> boxes, TileOperand output, std::vector<DataType> operand_types, Isa isa)
      : output_(std::move(output)),
        operand_types_(std::move(operand_types)),
        isa_(isa),
        real_(real_loops<R>(isa)),
        integer_(loops_for<LoopTables>(isa).i64) {
    for (BoxProgram& box : boxes) plans_.push_back(plan_box(std::move(box)));
  }

  void run(const std::byte* const* operands, std::byte* output, const Workers& workers) const override {
    for (const BoxPlan& plan : plans_) {
      const Tiling& tiling = plan.blocks[0].tiling;
      double work = 1;
      for (const Count e : plan.program.extents) work *= static_cast<double>(e);
      const Count pieces = workers.pieces(work / kElements, tiling.count);
      workers.share(pieces, [&](Count piece, int) {
        run_tiles(plan, operands, output, first_unit(tiling.count, piece, pieces), first_unit(tiling.count, piece + 1, pieces));
      });
    }
  }

 private:
  struct Kept {
    const void* address = nullptr;
    std::int64_t value = 0;
    std::vector<Count> extents;
  };
  struct Registers {
    std::vector<void*> at;
    std::vector<void*> home;
    std::vector<Kept> kept;
  };
  struct Context {
    const BoxPlan* plan;
    const std::byte* const* operands;
    std::vector<Count> current;
    std::vector<Registers> blocks;
    std::vector<Tile> tiles;
    std::vector<Count> element;  // of the enclosing tile, for reductions that run along their variables
    Count row_start = 0;         // of the part of a row that was computed last
    std::vector<std::byte> memory;
    std::vector<std::vector<R>> partial;  // by block: see add_up
  };

  void set_up(Context& c, const BoxPlan& plan, const std::byte* const* operands) const {
    c.plan = &plan;
    c.operands = operands;
    c.current.assign(plan.program.extents.size(), 0);
    const std::size_t count = plan.program.blocks.size();
    // Nothing is given back: another program that this thread runs will want it.
    if (c.blocks.size() < count) c.blocks.resize(count);
    if (c.tiles.size() < count) c.tiles.resize(count);
    if (c.partial.size() < count) c.partial.resize(count);
    c.element.assign(count, 0);
    std::size_t bytes = 64;
    const auto slot = [&](std::size_t b) { return (static_cast<std::size_t>(plan.block_elements[b]) * 8 + 63) / 64 * 64 + 64; };
    for (std::size_t b = 0; b < count; ++b) bytes += plan.blocks[b].buffers * slot(b);
    if (c.memory.size() < bytes) c.memory.resize(bytes);
    std::byte* next = c.memory.data() + (64 - reinterpret_cast<std::uintptr_t>(c.memory.data()) % 64);
    for (std::size_t b = 0; b < count; ++b) {
      const BlockPlan& p = plan.blocks[b];
      Registers& registers = c.blocks[b];
      registers.home.assign(p.buffer.size(), nullptr);
      if (registers.kept.size() < p.buffer.size()) registers.kept.resize(p.buffer.size());
      for (Kept& kept : registers.kept) kept.address = nullptr;
      for (std::size_t r = 0; r < p.buffer.size(); ++r)
        if (p.buffer[r] >= 0) registers.home[r] = next + p.buffer[r] * slot(b);
      registers.at = registers.home;
      next += p.buffers * slot(b);
      c.tiles[b].variables = p.tiling.variables;
      const std::vector<int>& outer = plan.blocks[0].tiling.variables;
      if (plan.program.blocks[b].part == Block::Part::kRows) c.tiles[b].variables.assign(outer.begin(), outer.end() - 1);
      if (plan.program.blocks[b].part == Block::Part::kRow) c.tiles[b].variables.assign(1, outer.back());
      c.tiles[b].size = 0;
      c.tiles[b].extents.assign(c.tiles[b].variables.size(), 1);
      // Constants are filled in once.
      for (std::size_t r = 0; r < p.buffer.size(); ++r) {
        const Instruction& i = plan.program.blocks[b].instructions[r];
        if (!p.live[r] || i.kind != In::kConstant) continue;
        if (i.integer)
          integer_.fill(integers(c, b, r), i.number, plan.block_elements[b]);
        else
          real_.fill(reals(c, b, r), static_cast<R>(i.real), plan.block_elements[b]);
      }
    }
  }

  void run_tiles(const BoxPlan& plan, const std::byte* const* operands, std::byte* output, Count first, Count last) const {
    static thread_local Context context;
    Context& c = context;
    set_up(c, plan, operands);
    const Block& root = plan.program.blocks[0];
    const Instruction& result = root.instructions[root.result];
    const Tiling& tiling = plan.blocks[0].tiling;
    const std::size_t width = byte_size(output_.type);
    const bool same_type = result.integer ? output_.type == DataType::kInt64 : is_own(output_.type);
    const bool is_kept = plan.blocks[0].kept[root.result];
    Tile& tile = c.tiles[0];
    for (Count t = first; t < last; ++t) {
      tiling.select(t, tile, c.current);
      std::byte* const target = output + start(plan.program.output, c) * static_cast<Count>(width);
      const bool direct = same_type && !is_kept && contiguous(plan.program.output, tile);
      c.blocks[0].at[root.result] = direct ? static_cast<void*>(target) : c.blocks[0].home[root.result];
      evaluate(c, 0, tile, direct ? root.result : -1);
      if (!direct) store(c, tile, plan.program.output, target, root.result);
    }
  }

  static constexpr DataType kOwn = std::is_same_v<R, float> ? DataType::kFloat : DataType::kDouble;
  static bool is_own(DataType type) { return type == kOwn; }
  static R* reals(const Context& c, std::size_t b, int r) { return static_cast<R*>(c.blocks[b].at[r]); }
  static std::int64_t* integers(const Context& c, std::size_t b, int r) {
    return static_cast<std::int64_t*>(c.blocks[b].at[r]);
  }
  static Count start(const Affine& a, const Context& c) {
    Count at = a.constant;
    for (std::size_t v = 0; v < a.coefficients.size(); ++v) at += a.coefficients[v] * c.current[v];
    return at;
  }
  static bool contiguous(const Affine& a, const Tile& tile) {
    Count step = 1;
    for (std::size_t k = tile.variables.size(); k-- > 0;) {
      if (tile.extents[k] != 1 && a.coefficient(tile.variables[k]) != step) return false;
      step *= tile.extents[k];
    }
    return true;
  }

  // Calls f(address relative to the tile's start, position in the tile) for every row of the innermost variable.
  template <class F>
  static void for_each_row(const Affine& a, const Tile& tile, F f) {
    const std::size_t rank = tile.variables.size();
    if (rank == 0) return f(Count{0}, Count{0}, Count{0}, Count{1});
    const Count inner = tile.extents[rank - 1], stride = a.coefficient(tile.variables[rank - 1]);
    if (tile.size == inner) return f(Count{0}, Count{0}, stride, inner);
    Count steps[16] = {};
    Count at = 0;
    for (Count row = 0; row * inner < tile.size; ++row) {
      f(at, row * inner, stride, inner);
      for (std::size_t k = rank - 1; k-- > 0;) {
        const Count coefficient = a.coefficient(tile.variables[k]);
        at += coefficient;
        if (++steps[k] < tile.extents[k]) break;
        at -= coefficient * steps[k];
        steps[k] = 0;
      }
    }
  }

  void store(const Context& c, const Tile& tile, const Affine& address, std::byte* target, int result) const {
    const std::size_t width = byte_size(output_.type);
    const bool is_integer = c.plan->program.blocks[0].instructions[result].integer;
    for_each_row(address, tile, [&](Count at, Count from, Count stride, Count n) {
      std::byte* d = target + at * static_cast<Count>(width);
      if (is_integer)
        integer_.store(d, output_.type, stride, integers(c, 0, result) + from, n);
      else
        real_.store(d, output_.type, stride, reals(c, 0, result) + from, n);
    });
  }

  // The rows of a tile that lie side by side in memory, so that it is a matrix whose columns are rows there; 0 if it is none.
  static Count square_rows(const Affine& a, const Tile& tile) {
    const std::size_t rank = tile.variables.size();
    if (rank < 2 || a.coefficient(tile.variables[rank - 1]) <= 1) return 0;
    Count rows = 0;
    for (std::size_t k = 0; k + 1 < rank; ++k) {
      if (tile.extents[k] == 1) continue;
      if (rows > 0 || a.coefficient(tile.variables[k]) != 1) return 0;
      rows = tile.extents[k];
    }
    return rows;
  }

  template <class T>
  void load(Context& c, int b, int r, const Tile& tile, bool must_copy, const Arithmetic<T>& loops) const {
    const Instruction& i = c.plan->program.blocks[b].instructions[r];
    const DataType type = operand_types_[i.operand];
    const std::size_t width = byte_size(type);
    const std::byte* source = c.operands[i.operand] + start(i.affine, c) * static_cast<Count>(width);
    const bool same = std::is_same_v<T, R> ? type == kOwn : type == DataType::kInt64;
    Registers& registers = c.blocks[b];
    if (same && !must_copy && contiguous(i.affine, tile)) {
      registers.at[r] = const_cast<std::byte*>(source);
      return;
    }
    if (!must_copy) registers.at[r] = registers.home[r];
    Kept& kept = registers.kept[r];
    if (c.plan->blocks[b].kept[r]) {
      if (kept.address == source && kept.extents == tile.extents) return;
      kept.address = source;
      kept.extents = tile.extents;
    }
    T* d = static_cast<T*>(registers.at[r]);
    if constexpr (std::is_same_v<T, R>)
      if (const Count rows = same ? square_rows(i.affine, tile) : 0; rows > 0)
        return real_.transpose(d, reinterpret_cast<const R*>(source), i.affine.coefficient(tile.variables.back()), rows,
                               tile.extents.back());
    for_each_row(i.affine, tile, [&](Count at, Count to, Count stride, Count n) {
      loops.load(d + to, source + at * static_cast<Count>(width), type, stride, n);
    });
  }

  // Of a block once for each row of its parent's tile.
  void evaluate_rows(Context& c, int b, const Tile& tile) const {
    Tile& rows = c.tiles[b];
    std::copy(tile.extents.begin(), tile.extents.end() - 1, rows.extents.begin());
    rows.size = tile.size / tile.extents.back();
    evaluate(c, b, rows, -1);
  }

  // Of a block once for an element of each row, unless it was done for the same part of a row.
  void evaluate_row(Context& c, int b, const Tile& tile) const {
    Tile& row = c.tiles[b];
    const Count start = c.current[row.variables[0]];
    if (row.size == tile.extents.back() && c.row_start == start) return;
    row.extents[0] = row.size = tile.extents.back();
    c.row_start = start;
    evaluate(c, b, row, -1);
  }

  template <class T>
  void gather_rows(const Context& c, const Instruction& i, T* d, const Tile& tile, const Arithmetic<T>& loops) const {
    const DataType type = operand_types_[i.operand];
    const auto width = static_cast<Count>(byte_size(type));
    const std::int64_t* row = integers(c, i.child, i.other);
    const std::byte* const source = c.operands[i.operand] + start(i.affine, c) * width;
    const std::int64_t* const offsets = i.arguments[0] < 0 ? nullptr : integers(c, 0, i.arguments[0]);
    for_each_row(i.affine, tile, [&](Count at, Count to, Count stride, Count n) {
      const std::byte* const from = source + (at + *row++) * width;
      if (offsets != nullptr)
        loops.gather(d + to, from, type, offsets + to, n);
      else
        loops.load(d + to, from, type, stride, n);
    });
  }

  template <class T>
  static void spread(T* d, const T* rows, const Tile& tile, const Arithmetic<T>& loops) {
    const Count n = tile.extents.back();
    for (Count row = 0; row * n < tile.size; ++row) loops.fill(d + row * n, rows[row], n);
  }

  template <class T>
  void repeat(Context& c, const Instruction& i, int r, T* d, const T* row, const Tile& tile) const {
    Kept& kept = c.blocks[0].kept[r];
    if (kept.address == &i && kept.value == c.row_start && kept.extents == tile.extents) return;
    kept = {&i, c.row_start, tile.extents};
    const Count n = tile.extents.back();
    for (Count at = 0; at < tile.size; at += n) std::copy_n(row, n, d + at);
  }

  void indices(Context& c, int b, int r, const Tile& tile) const {
    const Instruction& i = c.plan->program.blocks[b].instructions[r];
    const std::int64_t first = start(i.affine, c);
    Kept& kept = c.blocks[b].kept[r];
    if (c.plan->blocks[b].kept[r]) {
      if (kept.address == &i && kept.value == first && kept.extents == tile.extents) return;
      kept = {&i, first, tile.extents};
    }
    for_each_row(i.affine, tile, [&](Count at, Count to, Count stride, Count n) {
      integer_.iota(integers(c, b, r) + to, first + at, stride, n);
    });
  }

  template <class T>
  void arithmetic(const Instruction& i, T* d, const T* a, const T* b, const T* e, Count n, const Arithmetic<T>& loops) const {
    switch (i.kind) {
      case In::kAdd:
        return loops.add(d, a, b, n);
      case In::kSubtract:
        return loops.subtract(d, a, b, n);
      case In::kMultiply:
        return loops.multiply(d, a, b, n);
      case In::kDivide:
        return loops.divide(d, a, b, n);
      case In::kMaximum:
        return loops.maximum(d, a, b, n);
      case In::kMinimum:
        return loops.minimum(d, a, b, n);
      case In::kMultiplyAdd:
        return loops.multiply_add(d, a, b, e, n);
      default:
        return;
    }
  }

  template <class T>
  static void compare(const Instruction& i, std::int64_t* d, const T* a, const T* b, Count n, const Arithmetic<T>& loops) {
    if (i.kind == In::kEqual) return loops.compare_equal(d, a, b, n);
    if (i.kind == In::kLess) return loops.compare_less(d, a, b, n);
    loops.compare_less_equal(d, a, b, n);
  }

  void function(const Context& c, int b, int r, const Instruction& i, Count n) const {
    for (Count e = 0; e < n; ++e) {
      if (i.integer_arguments) {
        std::int64_t arguments[2] = {};
        for (int k = 0; k < i.function->arity; ++k) arguments[k] = integers(c, b, i.arguments[k])[e];
        integers(c, b, r)[e] = i.function->integer(arguments);
        continue;
      }
      double arguments[2] = {};
      for (int k = 0; k < i.function->arity; ++k) arguments[k] = reals(c, b, i.arguments[k])[e];
      const double value = i.function->real(arguments);
      if (i.integer)
        integers(c, b, r)[e] = static_cast<std::int64_t>(value);
      else
        reals(c, b, r)[e] = static_cast<R>(value);
    }
  }

  void evaluate(Context& c, int b, const Tile& tile, int must_copy) const {
    const Block& block = c.plan->program.blocks[b];
    const BlockPlan& p = c.plan->blocks[b];
    const Count n = tile.size;
    const auto real_at = [&](int r) { return r < 0 ? nullptr : reals(c, b, r); };
    const auto integer_at = [&](int r) { return r < 0 ? nullptr : integers(c, b, r); };
    bool has_rows = false;
    for (int r = 0; r < static_cast<int>(block.instructions.size()); ++r) {
      if (!p.live[r]) continue;
      const Instruction& i = block.instructions[r];
      switch (i.kind) {
        case In::kConstant:
          break;
        case In::kLoad:
          if (i.integer)
            load<std::int64_t>(c, b, r, tile, r == must_copy, integer_);
          else
            load<R>(c, b, r, tile, r == must_copy, real_);
          break;
        case In::kGather:
          if (i.integer)
            integer_.gather(integer_at(r), c.operands[i.operand], operand_types_[i.operand], integer_at(i.arguments[0]), n);
          else
            real_.gather(real_at(r), c.operands[i.operand], operand_types_[i.operand], integer_at(i.arguments[0]), n);
          break;
        case In::kGatherRows:
          if (!std::exchange(has_rows, true)) evaluate_rows(c, i.child, tile);
          if (i.integer)
            gather_rows(c, i, integer_at(r), tile, integer_);
          else
            gather_rows<R>(c, i, real_at(r), tile, real_);
          break;
        case In::kSpread:
          if (!std::exchange(has_rows, true)) evaluate_rows(c, i.child, tile);
          if (i.integer)
            spread(integer_at(r), integers(c, i.child, i.other), tile, integer_);
          else
            spread<R>(real_at(r), reals(c, i.child, i.other), tile, real_);
          break;
        case In::kRepeat:
          evaluate_row(c, i.child, tile);
          if (i.integer)
            repeat(c, i, r, integer_at(r), integers(c, i.child, i.other), tile);
          else
            repeat(c, i, r, real_at(r), reals(c, i.child, i.other), tile);
          break;
        case In::kIndices:
          indices(c, b, r, tile);
          break;
        case In::kOuter: {
          void* const source = c.blocks[block.parent].at[i.arguments[0]];
          if (!block.along)
            c.blocks[b].at[r] = source;
          else if (i.integer)
            integer_.fill(integer_at(r), static_cast<std::int64_t*>(source)[c.element[b]], n);
          else
            real_.fill(real_at(r), static_cast<R*>(source)[c.element[b]], n);
          break;
        }
        case In::kUnary:
          real_.unary (*i.function)(real_at(r), real_at(i.arguments[0]), n);
          break;
        case In::kFunction:
          function(c, b, r, i, n);
          break;
        case In::kEqual:
        case In::kLess:
        case In::kLessEqual:
          if (i.integer_arguments)
            compare(i, integer_at(r), integer_at(i.arguments[0]), integer_at(i.arguments[1]), n, integer_);
          else
            compare<R>(i, integer_at(r), real_at(i.arguments[0]), real_at(i.arguments[1]), n, real_);
          break;
        case In::kSelect:
          if (i.integer)
            integer_.select(integer_at(r), integer_at(i.arguments[0]), integer_at(i.arguments[1]), integer_at(i.arguments[2]),
                            n);
          else
            real_.select(real_at(r), integer_at(i.arguments[0]), real_at(i.arguments[1]), real_at(i.arguments[2]), n);
          break;
        case In::kToInteger:
          real_.to_integer(integer_at(r), real_at(i.arguments[0]), n);
          break;
        case In::kToReal:
          real_.from_integer(real_at(r), integer_at(i.arguments[0]), n);
          break;
        case In::kFloorDivide:
          integer_.floor_divide(integer_at(r), integer_at(i.arguments[0]), integer_at(i.arguments[1]), n);
          break;
        case In::kFloorModulo:
          integer_.floor_modulo(integer_at(r), integer_at(i.arguments[0]), integer_at(i.arguments[1]), n);
          break;
        case In::kPosition:
          position(i, integer_at(r), integer_at(i.arguments[0]), n);
          break;
        case In::kReduce:
          if (c.plan->program.blocks[i.child].along)
            reduce_along(c, b, r, tile);
          else
            reduce_around(c, b, r, tile);
          break;
        default:
          if (i.integer)
            arithmetic(i, integer_at(r), integer_at(i.arguments[0]), integer_at(i.arguments[1]), integer_at(i.arguments[2]), n,
                       integer_);
          else
            arithmetic<R>(i, real_at(r), real_at(i.arguments[0]), real_at(i.arguments[1]), real_at(i.arguments[2]), n, real_);
      }
    }
  }

  void position(const Instruction& i, std::int64_t* d, const std::int64_t* indices, Count n) const {
    if (!i.tolerant && !integer_.are_inside(indices, i.number, n))
      for (Count k = 0; k < n; ++k) checked_index(indices[k], i.number);
    integer_.positions(d, indices, i.number, n);
  }

  template <class T>
  static void accumulate(Reduction kind, T* d, const T* a, Count n, const Arithmetic<T>& loops) {
    switch (kind) {
      case Reduction::kSum:
        return loops.add(d, d, a, n);
      case Reduction::kProduct:
        return loops.multiply(d, d, a, n);
      case Reduction::kMax:
        return loops.maximum(d, d, a, n);
      case Reduction::kMin:
        return loops.minimum(d, d, a, n);
    }
  }

  // A long sum, so that its error does not grow with the number of terms: each of `levels` adds up kTogether of what the one
  // below gives, the first is the result itself, and the others lie one after the other.
  static constexpr Count kTogether = 32;
  static constexpr std::size_t kMostLevels = 13;  // of 64 bits' worth of terms
  struct Levels {
    R* first;
    std::vector<R>& others;
    Count size;
    std::array<Count, kMostLevels> counts = {};
    std::size_t highest = 0;

    R* at(std::size_t level) const { return level == 0 ? first : others.data() + static_cast<Count>(level - 1) * size; }
  };
  void add_up(Levels& levels, const R* from, std::size_t level = 0) const {
    levels.highest = std::max(levels.highest, level);
    const auto needed = level * static_cast<std::size_t>(levels.size);
    if (levels.others.size() < needed) {
      const std::size_t below = level > 1 ? static_cast<std::size_t>(from - levels.others.data()) : 0;
      levels.others.resize(needed);
      if (level > 1) from = levels.others.data() + below;
    }
    R* const to = levels.at(level);
    if (levels.counts[level]++ == 0)
      std::copy_n(from, levels.size, to);
    else
      real_.add(to, to, from, levels.size);
    if (levels.counts[level] < kTogether || level + 1 == kMostLevels) return;
    levels.counts[level] = 0;
    add_up(levels, to, level + 1);
  }
  void finish(Levels& levels) const {
    bool empty = levels.counts[0] == 0;
    for (std::size_t level = 1; level <= levels.highest; ++level) {
      if (levels.counts[level] == 0) continue;
      if (empty)
        std::copy_n(levels.at(level), levels.size, levels.first);
      else
        real_.add(levels.first, levels.first, levels.at(level), levels.size);
      empty = false;
    }
  }

  // Every step of the variables is one evaluation of the child on the whole tile.
  void reduce_around(Context& c, int b, int r, const Tile& tile) const {
    const int child = c.plan->program.blocks[b].instructions[r].child;
    const Block& block = c.plan->program.blocks[child];
    const std::vector<int>& variables = c.plan->blocks[child].loop_variables;
    const bool integer = c.plan->program.blocks[b].instructions[r].integer;
    for (const int v : block.variables) c.current[v] = 0;
    const bool summed = !integer && block.reduction == Reduction::kSum;
    Levels levels{summed ? reals(c, b, r) : nullptr, c.partial[static_cast<std::size_t>(child)], tile.size};
    for (bool first = true;; first = false) {
      evaluate(c, child, tile, -1);
      if (summed) {
        add_up(levels, reals(c, child, block.result));
      } else if (integer) {
        const std::int64_t* from = integers(c, child, block.result);
        if (first)
          std::copy_n(from, tile.size, integers(c, b, r));
        else
          accumulate(block.reduction, integers(c, b, r), from, tile.size, integer_);
      } else {
        const R* from = reals(c, child, block.result);
        if (first)
          std::copy_n(from, tile.size, reals(c, b, r));
        else
          accumulate<R>(block.reduction, reals(c, b, r), from, tile.size, real_);
      }
      std::size_t k = variables.size();
      for (; k-- > 0;) {
        if (++c.current[variables[k]] < c.plan->program.extents[variables[k]]) break;
        c.current[variables[k]] = 0;
      }
      if (k == static_cast<std::size_t>(-1)) break;
    }
    if (summed) finish(levels);
  }

  // Sums are kept in double (or integers) from tile to tile.
  template <class T, class Sum>
  static void fold(Reduction kind, Sum& total, const T* a, Count n, bool first, const Arithmetic<T>& loops) {
    Sum part = 0;
    switch (kind) {
      case Reduction::kSum:
        part = loops.sum(a, n);
        break;
      case Reduction::kProduct:
        part = loops.product(a, n);
        break;
      case Reduction::kMax:
        part = loops.largest(a, n);
        break;
      case Reduction::kMin:
        part = loops.smallest(a, n);
        break;
    }
    if (first) {
      total = part;
      return;
    }
    switch (kind) {
      case Reduction::kSum:
        total += part;
        break;
      case Reduction::kProduct:
        total *= part;
        break;
      case Reduction::kMax:
        total = total > part || total != total ? total : part;
        break;
      case Reduction::kMin:
        total = total < part || total != total ? total : part;
        break;
    }
  }

  // Every element of the tile is one traversal of the variables, in tiles of the child's own.
  void reduce_along(Context& c, int b, int r, const Tile& tile) const {
    const int child = c.plan->program.blocks[b].instructions[r].child;
    const Block& block = c.plan->program.blocks[child];
    const Tiling& tiling = c.plan->blocks[child].tiling;
    const bool integer = c.plan->program.blocks[b].instructions[r].integer;
    for (const int v : block.variables) c.current[v] = 0;
    const std::size_t rank = tile.variables.size();
    Count starts[16], steps[16] = {};
    for (std::size_t k = 0; k < rank; ++k) starts[k] = c.current[tile.variables[k]];
    for (Count element = 0; element < tile.size; ++element) {
      c.element[child] = element;
      double real_total = 0;
      std::int64_t integer_total = 0;
      for (Count t = 0; t < tiling.count; ++t) {
        Tile& inner = c.tiles[child];
        tiling.select(t, inner, c.current);
        evaluate(c, child, inner, -1);
        if (integer)
          fold(block.reduction, integer_total, integers(c, child, block.result), inner.size, t == 0, integer_);
        else
          fold<R>(block.reduction, real_total, reals(c, child, block.result), inner.size, t == 0, real_);
      }
      if (integer)
        integers(c, b, r)[element] = integer_total;
      else
        reals(c, b, r)[element] = static_cast<R>(real_total);
      for (std::size_t k = rank; k-- > 0;) {
        const int v = tile.variables[k];
        c.current[v] = starts[k] + ++steps[k];
        if (steps[k] < tile.extents[k]) break;
        c.current[v] = starts[k];
        steps[k] = 0;
      }
    }
    for (std::size_t k = 0; k < rank; ++k) c.current[tile.variables[k]] = starts[k];
  }

  TileOperand output_;
  std::vector<DataType> operand_types_;
  Isa isa_;
  const RealLoops<R>& real_;
  const IntegerLoops& integer_;
  std::vector<BoxPlan> plans_;
};

}  // namespace

std::unique_ptr<TileProgram> make_executor(std::vector<BoxProgram> boxes, TileOperand output,
                                           std::vector<DataType> operand_types, Isa isa, bool in_double) {
  if (in_double) return std::make_unique<Executor<double>>(std::move(boxes), std::move(output), std::move(operand_types), isa);
  return std::make_unique<Executor<float>>(std::move(boxes), std::move(output), std::move(operand_types), isa);
}

}  // namespace rewright::cpu
