// The instructions of a block, except reductions.
#include <algorithm>
#include <utility>

#include "runtime/cpu/tile/executor.h"

namespace rewright::cpu {

namespace {

using In = Instruction::Kind;

constexpr Count kShortRow = 12;  // elements: to call a loop takes longer than to copy them

// The number of rows if the tile is a matrix with contiguous columns in memory; otherwise 0.
Count square_rows(const Affine& a, const Tile& tile) {
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

// Are the tile's rows contiguous, all at the same address except for a term by row?
bool begins_alike(const Affine& a, const Tile& tile) {
  const std::size_t rank = tile.variables.size();
  if (rank == 0 || (tile.extents[rank - 1] != 1 && a.coefficient(tile.variables[rank - 1]) != 1)) return false;
  for (std::size_t k = 0; k + 1 < rank; ++k)
    if (tile.extents[k] != 1 && a.coefficient(tile.variables[k]) != 0) return false;
  return true;
}

template <class T, class M>
void spread(T* d, const T* rows, const Tile& tile, const Elements<T, M>& loops) {
  loops.spread(d, rows, tile.size / tile.extents.back(), tile.extents.back());
}

// Loads elements of which each is that of a whole row, as factors of channels are; the tile has several rows.
template <class T, class M>
void load_spread(T* d, const std::byte* source, DataType type, const Affine& a, const Tile& tile, const Elements<T, M>& loops) {
  constexpr Count kTogether = 256;
  T values[kTogether];
  const auto width = static_cast<Count>(byte_size(type));
  const std::size_t rank = tile.variables.size();
  const Count n = tile.extents[rank - 1], rows = tile.extents[rank - 2], step = a.coefficient(tile.variables[rank - 2]);
  for (Count group = 0; group * rows * n < tile.size; ++group) {
    Count at = 0, rest = group;
    for (std::size_t k = rank - 2; k-- > 0; rest /= tile.extents[k])
      at += rest % tile.extents[k] * a.coefficient(tile.variables[k]);
    for (Count first = 0; first < rows; first += kTogether) {
      const Count count = std::min(kTogether, rows - first);
      loops.load(values, source + (at + first * step) * width, type, step, count);
      loops.spread(d + (group * rows + first) * n, values, count, n);
    }
  }
}

template <class T, class M>
void arithmetic(const Instruction& i, T* d, const T* a, const T* b, const T* e, Count n, const Elements<T, M>& loops) {
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

template <class T, class M, class Loops>
void compare(const Instruction& i, M* d, const T* a, const T* b, Count n, const Loops& loops) {
  if (i.kind == In::kEqual) return loops.compare_equal(d, a, b, n);
  if (i.kind == In::kLess) return loops.compare_less(d, a, b, n);
  loops.compare_less_equal(d, a, b, n);
}

// The positions e < n where first + e * step is below 0: from the first number to before the second.
std::pair<Count, Count> negatives(Count first, Count step, Count n) {
  if (step == 0) return {0, first < 0 ? n : 0};
  if (step > 0) return {0, first >= 0 ? 0 : std::min(n, (-first + step - 1) / step)};
  return {first < 0 ? 0 : std::min(n, first / -step + 1), n};
}
// The positions e < n where first + e * step is 0, likewise.
std::pair<Count, Count> zeros(Count first, Count step, Count n) {
  if (step == 0) return {0, first == 0 ? n : 0};
  const Count at = -first / step;
  return first % step == 0 && at >= 0 && at < n ? std::pair{at, at + 1} : std::pair{Count{0}, Count{0}};
}

// A sum that is not wrong however far from 0 the row's number is.
Count saturated_sum(Count a, std::int64_t of_row) {
  constexpr Count kMost = Count{1} << 62;
  Count sum = 0;
  if (__builtin_add_overflow(a, of_row, &sum)) return of_row < 0 ? -kMost : kMost;
  return std::clamp(sum, -kMost, kMost);
}

bool is_comparison(In kind) { return kind == In::kEqual || kind == In::kLess || kind == In::kLessEqual; }

}  // namespace

template <class R>
void Executor<R>::evaluate(Context& c, int b, const Tile& tile, int must_copy) const {
  const Block& block = c.plan->program.blocks[b];
  const BlockPlan& p = c.plan->blocks[b];
  bool has_rows = false;  // was the block of values by row executed for this tile?
  for (int r = 0; r < static_cast<int>(block.instructions.size()); ++r) {
    if (!p.live[r]) continue;
    switch (block.instructions[r].kind) {
      case In::kConstant:
        break;
      case In::kGatherRows:
      case In::kSpread:
        if (!has_rows) evaluate_rows(c, block.instructions[r].child, tile);
        has_rows = true;
        read(c, b, r, tile, false);
        break;
      case In::kRepeat:
        evaluate_row(c, block.instructions[r].child, tile);
        read(c, b, r, tile, false);
        break;
      case In::kLoad:
      case In::kGather:
      case In::kGatherAxis:
      case In::kIndices:
      case In::kOuter:
        read(c, b, r, tile, r == must_copy);
        break;
      case In::kReduce:
        reduce(c, b, r, tile);
        break;
      case In::kSelectSpan:
        if (const int rows = block.instructions[r].child; rows >= 0 && !has_rows) {
          evaluate_rows(c, rows, tile);
          has_rows = true;
        }
        with_loops(c, block.instructions[r],
                   [&](const auto& loops, auto zero) { select_span<decltype(zero)>(c, b, r, tile, loops); });
        break;
      default:
        compute(c, b, r, tile.size);
    }
  }
}

template <class R>
void Executor<R>::read(Context& c, int b, int r, const Tile& tile, bool must_copy) const {
  const Instruction& i = instruction(c, b, r);
  if (i.kind == In::kOuter && !c.plan->program.blocks[b].along) {
    c.blocks[b].at[r] = c.blocks[c.plan->program.blocks[b].parent].at[i.arguments[0]];
    return;
  }
  with_loops(c, i, [&](const auto& loops, auto zero) { read<decltype(zero)>(c, b, r, tile, must_copy, loops); });
}

template <class R>
template <class T, class Loops>
void Executor<R>::read(Context& c, int b, int r, const Tile& tile, bool must_copy, const Loops& loops) const {
  const Instruction& i = instruction(c, b, r);
  T* const d = values<T>(c, b, r);
  switch (i.kind) {
    case In::kLoad:
      return load<T>(c, b, r, tile, must_copy, loops);
    case In::kGather:
      return loops.gather(d, c.operands[i.operand], type_read(c, i), integers(c, b, i.arguments[0]), tile.size);
    case In::kGatherAxis:
      return gather_axis<T>(c, b, i, d, tile, loops);
    case In::kGatherRows:
      return gather_rows<T>(c, i, d, tile, loops);
    case In::kSpread:
      if (i.number == 1) return fill_once(c, b, r, d, values<T>(c, i.child, i.other)[0], tile, loops);
      return spread<T>(d, values<T>(c, i.child, i.other), tile, loops);
    case In::kRepeat:
      return repeat(c, i, r, d, values<T>(c, i.child, i.other), tile);
    case In::kIndices:
      if constexpr (std::is_integral_v<T>) indices<T>(c, b, r, tile, loops);
      return;
    default: {  // kOuter, in a reduction along its variables
      const BlockPlan& p = c.plan->blocks[b];
      const T* const source = values<T>(c, c.plan->program.blocks[b].parent, i.arguments[0]) + c.element[b];
      const Count n = p.together > 1 ? p.tiling.tile_size : tile.size;
      for (Count row = 0; row * n < tile.size; ++row) loops.fill(d + row * n, source[row], n);
    }
  }
}

template <class R>
template <class T, class M>
void Executor<R>::load(Context& c, int b, int r, const Tile& tile, bool must_copy, const Elements<T, M>& loops) const {
  const Instruction& i = c.plan->program.blocks[b].instructions[r];
  const DataType type = type_read(c, i);
  const std::size_t width = byte_size(type);
  const std::byte* source = c.operands[i.operand] + start(i.affine, c) * static_cast<Count>(width);
  const bool same = is_held<T>(type);
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
  if (const Count rows = same ? square_rows(i.affine, tile) : 0; rows > 0)
    return loops.transpose(d, reinterpret_cast<const T*>(source), i.affine.coefficient(tile.variables.back()), rows,
                           tile.extents.back());
  if (const std::size_t rank = tile.variables.size(); rank >= 2 && tile.extents[rank - 1] > 1 && tile.extents[rank - 2] > 1 &&
                                                      i.affine.coefficient(tile.variables[rank - 1]) == 0)
    return load_spread(d, source, type, i.affine, tile, loops);
  const auto* const elements = reinterpret_cast<const T*>(source);
  if (same && !tile.extents.empty() && tile.extents.back() <= kShortRow)
    return for_each_row(i.affine, tile, [=](Count at, Count to, Count stride, Count n) {
      for (Count k = 0; k < n; ++k) d[to + k] = elements[at + k * stride];
    });
  for_each_row(i.affine, tile, [&](Count at, Count to, Count stride, Count n) {
    loops.load(d + to, source + at * static_cast<Count>(width), type, stride, n);
  });
}

template <class R>
template <class T, class M>
void Executor<R>::gather_axis(const Context& c, int b, const Instruction& i, T* d, const Tile& tile,
                              const Elements<T, M>& loops) const {
  const DataType type = type_read(c, i);
  const auto width = static_cast<Count>(byte_size(type));
  const std::byte* const source = c.operands[i.operand] + start(i.affine, c) * width;
  const std::int64_t* const index = integers(c, b, i.arguments[0]);
  for_each_row(i.affine, tile, [&](Count at, Count to, Count stride, Count n) {
    const bool inside = loops.gather_axis(d + to, source + at * width, type, index + to, i.number, i.apart, stride, n);
    if (inside || i.tolerant) return;
    for (Count k = 0; k < n; ++k) checked_index(index[to + k], i.number);
  });
}

template <class R>
template <class T, class M>
void Executor<R>::gather_rows(const Context& c, const Instruction& i, T* d, const Tile& tile,
                              const Elements<T, M>& loops) const {
  const DataType type = type_read(c, i);
  const auto width = static_cast<Count>(byte_size(type));
  const std::int64_t* row = integers(c, i.child, i.other);
  const std::byte* const source = c.operands[i.operand] + start(i.affine, c) * width;
  const std::int64_t* const offsets = i.arguments[0] < 0 ? nullptr : integers(c, 0, i.arguments[0]);
  const bool same = is_held<T>(type);
  if (same && offsets == nullptr && begins_alike(i.affine, tile)) {
    const Count n = tile.extents.back();
    return loops.gather_rows(d, reinterpret_cast<const T*>(source), row, tile.size / n, n);
  }
  if (same && offsets == nullptr && (tile.extents.back() == 1 || i.affine.coefficient(tile.variables.back()) == 1)) {
    constexpr Count kTogether = 256;
    std::int64_t starts[kTogether];
    Count count = 0, done = 0;
    const auto gather = [&](Count n) {
      loops.gather_rows(d + done * n, reinterpret_cast<const T*>(source), starts, count, n);
      done += count, count = 0;
    };
    for_each_row(i.affine, tile, [&](Count at, Count, Count, Count n) {
      starts[count++] = at + *row++;
      if (count == kTogether) gather(n);
    });
    return gather(tile.extents.back());
  }
  for_each_row(i.affine, tile, [&](Count at, Count to, Count stride, Count n) {
    const std::byte* const from = source + (at + *row++) * width;
    if (offsets != nullptr)
      loops.gather(d + to, from, type, offsets + to, n);
    else
      loops.load(d + to, from, type, stride, n);
  });
}

// Fills a register with a value that is the same in all tiles of a call.
template <class R>
template <class T, class M>
void Executor<R>::fill_once(Context& c, int b, int r, T* d, T value, const Tile& tile, const Elements<T, M>& loops) const {
  Kept& kept = c.blocks[b].kept[r];
  const Instruction* const own = &instruction(c, b, r);
  if (kept.address == own && kept.extents == tile.extents) return;
  kept = {own, 0, tile.extents};
  loops.fill(d, value, tile.size);
}

template <class R>
template <class T>
void Executor<R>::repeat(Context& c, const Instruction& i, int r, T* d, const T* row, const Tile& tile) const {
  Kept& kept = c.blocks[0].kept[r];
  if (kept.address == &i && kept.value == c.row_start && kept.extents == tile.extents) return;
  kept = {&i, c.row_start, tile.extents};
  const Count n = tile.extents.back();
  for (Count at = 0; at < tile.size; at += n) std::copy_n(row, n, d + at);
}

template <class R>
template <class T, class M>
void Executor<R>::select_span(const Context& c, int b, int r, const Tile& tile, const Elements<T, M>& loops) const {
  const Instruction& i = instruction(c, b, r);
  T* const d = values<T>(c, b, r);
  // A constant's tile could be copied as well; to fill in its value reads nothing.
  const auto part = [&](int argument) {
    const bool is_constant = instruction(c, b, i.arguments[argument]).kind == In::kConstant;
    return [=, &loops, from = values<T>(c, b, i.arguments[argument])](Count first, Count last) {
      if (is_constant && last - first > kShortRow)
        loops.fill(d + first, *from, last - first);
      else
        std::copy(from + first, from + last, d + first);
    };
  };
  const auto within = part(0), outside = part(1);
  const Count origin = start(i.affine, c);
  const std::int64_t* row = i.child < 0 ? nullptr : integers(c, i.child, i.other);
  for_each_row(i.affine, tile, [&](Count at, Count to, Count step, Count n) {
    const Count begin = saturated_sum(origin + at, row == nullptr ? 0 : *row++);
    const auto [first, last] = i.number == 1 ? zeros(begin, step, n) : negatives(begin, step, n);
    outside(to, to + first);
    within(to + first, to + last);
    outside(to + last, to + n);
  });
}

template <class R>
template <class T>
void Executor<R>::indices(Context& c, int b, int r, const Tile& tile, const IntegerFunctions<T>& loops) const {
  const Instruction& i = c.plan->program.blocks[b].instructions[r];
  const std::int64_t first = start(i.affine, c);
  Kept& kept = c.blocks[b].kept[r];
  if (c.plan->blocks[b].kept[r]) {
    if (kept.address == &i && kept.value == first && kept.extents == tile.extents) return;
    kept = {&i, first, tile.extents};
  }
  if (!tile.extents.empty() && tile.extents.back() <= kShortRow)
    return for_each_row(i.affine, tile, [d = values<T>(c, b, r), first](Count at, Count to, Count stride, Count n) {
      for (Count k = 0; k < n; ++k) d[to + k] = static_cast<T>(first + at + k * stride);
    });
  for_each_row(i.affine, tile,
               [&](Count at, Count to, Count stride, Count n) { loops.iota(values<T>(c, b, r) + to, first + at, stride, n); });
}

// Executes a block that is computed once for each row of its parent's tile.
template <class R>
void Executor<R>::evaluate_rows(Context& c, int b, const Tile& tile) const {
  Tile& rows = c.tiles[b];
  std::copy(tile.extents.begin(), tile.extents.end() - 1, rows.extents.begin());
  rows.size = tile.size / tile.extents.back();
  evaluate(c, b, rows, -1);
}

// Executes a block that is computed once for all rows, unless its registers already hold the same part of a row.
template <class R>
void Executor<R>::evaluate_row(Context& c, int b, const Tile& tile) const {
  Tile& row = c.tiles[b];
  const Count start = c.current[row.variables[0]];
  if (row.size == tile.extents.back() && c.row_start == start) return;
  row.extents[0] = row.size = tile.extents.back();
  c.row_start = start;
  evaluate(c, b, row, -1);
}

template <class R>
void Executor<R>::compute(Context& c, int b, int r, Count n) const {
  const Instruction& i = instruction(c, b, r);
  if (!i.integer || i.kind == In::kToInteger || (!i.integer_arguments && (is_comparison(i.kind) || i.kind == In::kFunction)))
    return compute_reals(c, b, r, n);
  if (i.kind == In::kPosition) return position(i, integers(c, b, r), integers(c, b, i.arguments[0]), n);
  with_loops(c, i, [&](const auto& loops, auto zero) {
    if constexpr (std::is_integral_v<decltype(zero)>) compute_integers<decltype(zero)>(c, b, r, n, loops);
  });
}

// From integers to integers.
template <class R>
template <class T, class Loops>
void Executor<R>::compute_integers(const Context& c, int b, int r, Count n, const Loops& loops) const {
  const Instruction& i = instruction(c, b, r);
  T* const d = values<T>(c, b, r);
  const T *const x = values<T>(c, b, i.arguments[0]), *const y = values<T>(c, b, i.arguments[1]),
                 *const z = values<T>(c, b, i.arguments[2]);
  switch (i.kind) {
    case In::kFunction:
      if (const auto loop = i.function->arity == 1 ? loops.unary(*i.function) : nullptr) return loop(d, x, n);
      if (const auto loop = i.function->arity == 2 ? loops.binary(*i.function) : nullptr) return loop(d, x, y, n);
      for (Count e = 0; e < n; ++e) {
        const std::int64_t arguments[2] = {x[e], y != nullptr ? y[e] : T(0)};
        d[e] = static_cast<T>(i.function->integer(arguments));
      }
      return;
    case In::kEqual:
    case In::kLess:
    case In::kLessEqual:
      return compare(i, d, x, y, n, loops);
    case In::kSelect:
      return loops.select(d, x, y, z, n);
    case In::kFloorDivide:
      return loops.floor_divide(d, x, y, n);
    case In::kFloorModulo:
      return loops.floor_modulo(d, x, y, n);
    default:
      return arithmetic<T>(i, d, x, y, z, n, loops);
  }
}

// To reals or from reals.
template <class R>
void Executor<R>::compute_reals(const Context& c, int b, int r, Count n) const {
  const Instruction& i = instruction(c, b, r);
  const auto real_at = [&](int k) { return values<R>(c, b, i.arguments[k]); };
  const bool narrow_argument = i.arguments[0] >= 0 && instruction(c, b, i.arguments[0]).narrow;
  R* const d = values<R>(c, b, r);
  switch (i.kind) {
    case In::kUnary:
      return real_.unary(*i.function)(d, real_at(0), n);
    case In::kFunction:
      return function(c, b, r, n);
    case In::kEqual:
    case In::kLess:
    case In::kLessEqual:
      if constexpr (std::is_same_v<R, float>)
        if (i.narrow) return compare(i, values<std::int32_t>(c, b, r), real_at(0), real_at(1), n, tables_.masks);
      return compare(i, integers(c, b, r), real_at(0), real_at(1), n, real_);
    case In::kSelect:
      if constexpr (std::is_same_v<R, float>)
        if (narrow_argument)
          return tables_.masks.select(d, values<std::int32_t>(c, b, i.arguments[0]), real_at(1), real_at(2), n);
      return real_.select(d, integers(c, b, i.arguments[0]), real_at(1), real_at(2), n);
    case In::kSelectEqual:
      return real_.select_equal(d, real_at(0), real_at(1), real_at(2), real_at(3), n);
    case In::kSelectLess:
      return real_.select_less(d, real_at(0), real_at(1), real_at(2), real_at(3), n);
    case In::kSelectLessEqual:
      return real_.select_less_equal(d, real_at(0), real_at(1), real_at(2), real_at(3), n);
    case In::kToInteger:
      return real_.to_integer(integers(c, b, r), real_at(0), n);
    case In::kToReal:
      if constexpr (std::is_same_v<R, float>)
        if (narrow_argument) return tables_.masks.from_integer(d, values<std::int32_t>(c, b, i.arguments[0]), n);
      return real_.from_integer(d, integers(c, b, i.arguments[0]), n);
    default:
      return arithmetic<R>(i, d, real_at(0), real_at(1), real_at(2), n, real_);
  }
}

// A function of reals.
template <class R>
void Executor<R>::function(const Context& c, int b, int r, Count n) const {
  const Instruction& i = instruction(c, b, r);
  const Function& f = *i.function;
  const R *const x = values<R>(c, b, i.arguments[0]), *const y = values<R>(c, b, i.arguments[1]);
  if (const auto loop = i.integer && f.arity == 1 ? real_.predicate(f) : nullptr) return loop(integers(c, b, r), x, n);
  if (const auto loop = !i.integer && f.arity == 2 ? real_.binary(f) : nullptr) return loop(reals(c, b, r), x, y, n);
  for (Count e = 0; e < n; ++e) {
    const double arguments[2] = {x[e], y != nullptr ? y[e] : R(0)};
    const double value = f.real(arguments);
    if (i.integer)
      integers(c, b, r)[e] = static_cast<std::int64_t>(value);
    else
      reals(c, b, r)[e] = static_cast<R>(value);
  }
}

template <class R>
void Executor<R>::position(const Instruction& i, std::int64_t* d, const std::int64_t* indices, Count n) const {
  if (!i.tolerant && !tables_.i64.are_inside(indices, i.number, n))
    for (Count k = 0; k < n; ++k) checked_index(indices[k], i.number);
  tables_.i64.positions(d, indices, i.number, n);
}

template class Executor<float>;
template class Executor<double>;

}  // namespace rewright::cpu
