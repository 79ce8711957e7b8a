// The instructions of a block, except reductions.
#include <algorithm>

#include "runtime/cpu/tile/executor.h"

namespace rewright::cpu {

namespace {

using In = Instruction::Kind;

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

template <class T>
void spread(T* d, const T* rows, const Tile& tile, const Arithmetic<T>& loops) {
  const Count n = tile.extents.back();
  for (Count row = 0; row * n < tile.size; ++row) loops.fill(d + row * n, rows[row], n);
}

template <class T>
void arithmetic(const Instruction& i, T* d, const T* a, const T* b, const T* e, Count n, const Arithmetic<T>& loops) {
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
void compare(const Instruction& i, std::int64_t* d, const T* a, const T* b, Count n, const Arithmetic<T>& loops) {
  if (i.kind == In::kEqual) return loops.compare_equal(d, a, b, n);
  if (i.kind == In::kLess) return loops.compare_less(d, a, b, n);
  loops.compare_less_equal(d, a, b, n);
}

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
      default:
        compute(c, b, r, tile.size);
    }
  }
}

template <class R>
void Executor<R>::read(Context& c, int b, int r, const Tile& tile, bool must_copy) const {
  const Instruction& i = instruction(c, b, r);
  switch (i.kind) {
    case In::kLoad:
      if (i.integer)
        load<std::int64_t>(c, b, r, tile, must_copy, integer_);
      else
        load<R>(c, b, r, tile, must_copy, real_);
      return;
    case In::kGather: {
      const std::int64_t* const addresses = integers(c, b, i.arguments[0]);
      if (i.integer)
        integer_.gather(integers(c, b, r), c.operands[i.operand], operand_types_[i.operand], addresses, tile.size);
      else
        real_.gather(reals(c, b, r), c.operands[i.operand], operand_types_[i.operand], addresses, tile.size);
      return;
    }
    case In::kGatherAxis:
      if (i.integer)
        gather_axis<std::int64_t>(c, b, i, integers(c, b, r), tile, integer_);
      else
        gather_axis<R>(c, b, i, reals(c, b, r), tile, real_);
      return;
    case In::kGatherRows:
      if (i.integer)
        gather_rows<std::int64_t>(c, i, integers(c, b, r), tile, integer_);
      else
        gather_rows<R>(c, i, reals(c, b, r), tile, real_);
      return;
    case In::kSpread:
      if (i.integer)
        spread<std::int64_t>(integers(c, b, r), integers(c, i.child, i.other), tile, integer_);
      else
        spread<R>(reals(c, b, r), reals(c, i.child, i.other), tile, real_);
      return;
    case In::kRepeat:
      if (i.integer)
        repeat(c, i, r, integers(c, b, r), integers(c, i.child, i.other), tile);
      else
        repeat(c, i, r, reals(c, b, r), reals(c, i.child, i.other), tile);
      return;
    case In::kIndices:
      return indices(c, b, r, tile);
    default: {  // kOuter
      const Block& block = c.plan->program.blocks[b];
      void* const source = c.blocks[block.parent].at[i.arguments[0]];
      if (!block.along) {
        c.blocks[b].at[r] = source;
        return;
      }
      const BlockPlan& p = c.plan->blocks[b];
      const Count n = p.together > 1 ? p.tiling.tile_size : tile.size;
      for (Count row = 0; row * n < tile.size; ++row) {
        if (i.integer)
          integer_.fill(integers(c, b, r) + row * n, static_cast<std::int64_t*>(source)[c.element[b] + row], n);
        else
          real_.fill(reals(c, b, r) + row * n, static_cast<R*>(source)[c.element[b] + row], n);
      }
    }
  }
}

template <class R>
template <class T>
void Executor<R>::load(Context& c, int b, int r, const Tile& tile, bool must_copy, const Arithmetic<T>& loops) const {
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

template <class R>
template <class T>
void Executor<R>::gather_axis(const Context& c, int b, const Instruction& i, T* d, const Tile& tile,
                              const Arithmetic<T>& loops) const {
  const DataType type = operand_types_[i.operand];
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
template <class T>
void Executor<R>::gather_rows(const Context& c, const Instruction& i, T* d, const Tile& tile,
                              const Arithmetic<T>& loops) const {
  const DataType type = operand_types_[i.operand];
  const auto width = static_cast<Count>(byte_size(type));
  const std::int64_t* row = integers(c, i.child, i.other);
  const std::byte* const source = c.operands[i.operand] + start(i.affine, c) * width;
  const std::int64_t* const offsets = i.arguments[0] < 0 ? nullptr : integers(c, 0, i.arguments[0]);
  const bool same = std::is_same_v<T, R> ? type == kOwn : type == DataType::kInt64;
  if (same && offsets == nullptr && begins_alike(i.affine, tile)) {
    const Count n = tile.extents.back();
    return loops.gather_rows(d, reinterpret_cast<const T*>(source), row, tile.size / n, n);
  }
  for_each_row(i.affine, tile, [&](Count at, Count to, Count stride, Count n) {
    const std::byte* const from = source + (at + *row++) * width;
    if (offsets != nullptr)
      loops.gather(d + to, from, type, offsets + to, n);
    else
      loops.load(d + to, from, type, stride, n);
  });
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
void Executor<R>::indices(Context& c, int b, int r, const Tile& tile) const {
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
  const auto real_at = [&](int k) { return i.arguments[k] < 0 ? nullptr : reals(c, b, i.arguments[k]); };
  const auto integer_at = [&](int k) { return i.arguments[k] < 0 ? nullptr : integers(c, b, i.arguments[k]); };
  R* const d = reals(c, b, r);
  std::int64_t* const d_integer = integers(c, b, r);
  switch (i.kind) {
    case In::kUnary:
      return real_.unary(*i.function)(d, real_at(0), n);
    case In::kFunction:
      return function(c, b, r, n);
    case In::kEqual:
    case In::kLess:
    case In::kLessEqual:
      if (i.integer_arguments) return compare<std::int64_t>(i, d_integer, integer_at(0), integer_at(1), n, integer_);
      return compare<R>(i, d_integer, real_at(0), real_at(1), n, real_);
    case In::kSelect:
      if (i.integer) return integer_.select(d_integer, integer_at(0), integer_at(1), integer_at(2), n);
      return real_.select(d, integer_at(0), real_at(1), real_at(2), n);
    case In::kSelectEqual:
      return real_.select_equal(d, real_at(0), real_at(1), real_at(2), real_at(3), n);
    case In::kSelectLess:
      return real_.select_less(d, real_at(0), real_at(1), real_at(2), real_at(3), n);
    case In::kSelectLessEqual:
      return real_.select_less_equal(d, real_at(0), real_at(1), real_at(2), real_at(3), n);
    case In::kToInteger:
      return real_.to_integer(d_integer, real_at(0), n);
    case In::kToReal:
      return real_.from_integer(d, integer_at(0), n);
    case In::kFloorDivide:
      return integer_.floor_divide(d_integer, integer_at(0), integer_at(1), n);
    case In::kFloorModulo:
      return integer_.floor_modulo(d_integer, integer_at(0), integer_at(1), n);
    case In::kPosition:
      return position(i, d_integer, integer_at(0), n);
    default:
      if (i.integer) return arithmetic<std::int64_t>(i, d_integer, integer_at(0), integer_at(1), integer_at(2), n, integer_);
      return arithmetic<R>(i, d, real_at(0), real_at(1), real_at(2), n, real_);
  }
}

template <class R>
void Executor<R>::function(const Context& c, int b, int r, Count n) const {
  const Instruction& i = instruction(c, b, r);
  const Function& f = *i.function;
  if (i.integer_arguments) {
    const std::int64_t* const x = integers(c, b, i.arguments[0]);
    if (const auto loop = f.arity == 1 ? integer_.unary(f) : nullptr) return loop(integers(c, b, r), x, n);
    if (const auto loop = f.arity == 2 ? integer_.binary(f) : nullptr)
      return loop(integers(c, b, r), x, integers(c, b, i.arguments[1]), n);
  } else {
    const R* const x = reals(c, b, i.arguments[0]);
    if (const auto loop = i.integer && f.arity == 1 ? real_.predicate(f) : nullptr) return loop(integers(c, b, r), x, n);
    if (const auto loop = !i.integer && f.arity == 2 ? real_.binary(f) : nullptr)
      return loop(reals(c, b, r), x, reals(c, b, i.arguments[1]), n);
  }
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

template <class R>
void Executor<R>::position(const Instruction& i, std::int64_t* d, const std::int64_t* indices, Count n) const {
  if (!i.tolerant && !integer_.are_inside(indices, i.number, n))
    for (Count k = 0; k < n; ++k) checked_index(indices[k], i.number);
  integer_.positions(d, indices, i.number, n);
}

template class Executor<float>;
template class Executor<double>;

}  // namespace rewright::cpu
