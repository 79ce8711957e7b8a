// Reductions of tile programs.
#include <algorithm>

#include "runtime/cpu/tile/executor.h"

namespace rewright::cpu {

namespace {

template <class T, class M>
void accumulate(Reduction kind, T* d, const T* a, Count n, const Elements<T, M>& loops) {
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

// Adds a tile to the result so far, which is double or an integer.
template <class T, class M, class Sum>
void fold(Reduction kind, Sum& total, const T* a, Count n, bool first, const Elements<T, M>& loops) {
  T part = 0;
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
      if constexpr (std::is_integral_v<Sum>)
        total = static_cast<Sum>(static_cast<std::uint64_t>(total) + static_cast<std::uint64_t>(part));
      else
        total += part;
      break;
    case Reduction::kProduct:
      if constexpr (std::is_integral_v<Sum>)
        total = static_cast<Sum>(static_cast<std::uint64_t>(total) * static_cast<std::uint64_t>(part));
      else
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

// Reduces columns: a[i], a[n + i], ... for each i < n.
template <class T, class M>
void fold_columns(Reduction kind, T* d, const T* a, Count steps, Count n, const Elements<T, M>& loops) {
  switch (kind) {
    case Reduction::kSum:
      return loops.column_sum(d, a, n, steps, n);
    case Reduction::kProduct:
      return loops.column_product(d, a, n, steps, n);
    case Reduction::kMax:
      return loops.column_largest(d, a, n, steps, n);
    case Reduction::kMin:
      return loops.column_smallest(d, a, n, steps, n);
  }
}

// Does the block only read tensors and compute from that, so that it can be evaluated for several steps of a reduction at once?
bool computes_from_tensors(const Block& block, const std::vector<bool>& live) {
  using Kind = Instruction::Kind;
  for (std::size_t r = 0; r < block.instructions.size(); ++r) {
    const Instruction& i = block.instructions[r];
    const bool fits = i.kind == Kind::kLoad || (i.kind >= Kind::kConstant && i.kind != Kind::kOuter &&
                                                i.kind != Kind::kSelectSpan && i.kind != Kind::kReduce);
    if (live[r] && !fits) return false;
  }
  return true;
}

template <class T, class M>
void fold_rows(Reduction kind, T* d, const T* a, Count rows, Count n, const Elements<T, M>& loops) {
  switch (kind) {
    case Reduction::kSum:
      return loops.row_sum(d, a, rows, n);
    case Reduction::kProduct:
      return loops.row_product(d, a, rows, n);
    case Reduction::kMax:
      return loops.row_largest(d, a, rows, n);
    case Reduction::kMin:
      return loops.row_smallest(d, a, rows, n);
  }
}

}  // namespace

template <class R>
void Executor<R>::reduce(Context& c, int b, int r, const Tile& tile) const {
  const bool along = c.plan->program.blocks[instruction(c, b, r).child].along;
  with_loops(c, instruction(c, b, r), [&](const auto& loops, auto zero) {
    using T = decltype(zero);
    along ? reduce_along<T>(c, b, r, tile, loops) : reduce_around<T>(c, b, r, tile, loops);
  });
}

template <class R>
void Executor<R>::add_up(Levels& levels, const R* from, std::size_t level) const {
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
template <class R>
void Executor<R>::finish(Levels& levels) const {
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

// Reduces elements of a tensor that lie a fixed number of elements apart, with totals in registers. False if they do not.
template <class R>
template <class T, class M>
bool Executor<R>::reduce_columns(const Context& c, int b, int r, const Tile& tile, const Elements<T, M>& loops) const {
  const int child = c.plan->program.blocks[b].instructions[r].child;
  const Block& block = c.plan->program.blocks[child];
  const Instruction& i = block.instructions[block.result];
  const std::vector<int>& variables = c.plan->blocks[child].loop_variables;
  if (i.kind != Instruction::Kind::kLoad || variables.size() != 1 || tile.variables.empty() || !is_held<T>(type_read(c, i)))
    return false;
  const auto reduce = block.reduction == Reduction::kSum       ? loops.column_sum
                      : block.reduction == Reduction::kProduct ? loops.column_product
                      : block.reduction == Reduction::kMax     ? loops.column_largest
                                                               : loops.column_smallest;
  const Count steps = c.plan->program.extents[variables[0]];
  // Sums of some steps are added up one after another: of so few that sums are as exact as those by levels.
  const Count most = std::is_same_v<T, R> && block.reduction == Reduction::kSum ? 1 << 15 : 1 << 20;
  if (steps > most || i.affine.coefficient(tile.variables.back()) != 1) return false;
  const auto* const source = reinterpret_cast<const T*>(c.operands[i.operand]) + start(i.affine, c);
  const Count apart = i.affine.coefficient(variables[0]);
  if (contiguous(i.affine, tile)) {
    reduce(values<T>(c, b, r), source, apart, steps, tile.size);
    return true;
  }
  for_each_row(i.affine, tile,
               [&](Count at, Count to, Count, Count n) { reduce(values<T>(c, b, r) + to, source + at, apart, steps, n); });
  return true;
}

// Evaluates the child on the whole tile for each step of the reduction's variables.
template <class R>
template <class T, class M>
void Executor<R>::reduce_around(Context& c, int b, int r, const Tile& tile, const Elements<T, M>& loops) const {
  const int child = c.plan->program.blocks[b].instructions[r].child;
  const Block& block = c.plan->program.blocks[child];
  const std::vector<int>& variables = c.plan->blocks[child].loop_variables;
  for (const int v : block.variables) c.current[v] = 0;
  if (reduce_columns<T>(c, b, r, tile, loops)) return;
  constexpr bool kReal = std::is_same_v<T, R>;
  const bool summed = kReal && block.reduction == Reduction::kSum;
  Levels levels{summed ? reals(c, b, r) : nullptr, c.partial[static_cast<std::size_t>(child)], tile.size};
  // Steps of the last variable that are evaluated at once, and reduced in the same order as one after the other.
  constexpr Count kMostElements = 64;
  T part[kMostElements];
  const bool is_exact =
      summed || std::is_integral_v<T> || block.reduction == Reduction::kMax || block.reduction == Reduction::kMin;
  const bool has_room = !variables.empty() && tile.size <= kMostElements && tile.size > 0 &&
                        c.plan->block_elements[child] >= kTogether * tile.size;
  const bool takes_steps = has_room && is_exact && computes_from_tensors(block, c.plan->blocks[child].live);
  Tile& several = c.tiles[static_cast<std::size_t>(child)];
  if (takes_steps) {
    several.variables.assign(1, variables.back());
    several.variables.insert(several.variables.end(), tile.variables.begin(), tile.variables.end());
    several.extents.assign(1, kTogether);
    several.extents.insert(several.extents.end(), tile.extents.begin(), tile.extents.end());
    several.size = kTogether * tile.size;
  }
  for (bool first = true;; first = false) {
    const bool at_once = takes_steps && levels.counts[0] == 0 &&
                         c.plan->program.extents[variables.back()] - c.current[variables.back()] >= kTogether;
    evaluate(c, child, at_once ? several : tile, -1);
    const T* from = values<T>(c, child, block.result);
    if (at_once) {
      fold_columns(block.reduction, part, from, kTogether, tile.size, loops);
      from = part;
      c.current[variables.back()] += kTogether - 1;
    }
    if (at_once && summed) {
      if constexpr (kReal) add_up(levels, from, 1);
    } else if (summed) {
      if constexpr (kReal) add_up(levels, from);
    } else if (first) {
      std::copy_n(from, tile.size, values<T>(c, b, r));
    } else {
      accumulate(block.reduction, values<T>(c, b, r), from, tile.size, loops);
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

// Reduces each element of the tile separately, over tiles of the reduction's variables; short ones several at a time.
template <class R>
template <class T, class M>
void Executor<R>::reduce_along(Context& c, int b, int r, const Tile& tile, const Elements<T, M>& loops) const {
  const int child = c.plan->program.blocks[b].instructions[r].child;
  const Block& block = c.plan->program.blocks[child];
  const Tiling& tiling = c.plan->blocks[child].tiling;
  T* const totals = values<T>(c, b, r);
  for (const int v : block.variables) c.current[v] = 0;
  const std::size_t rank = tile.variables.size();
  Count starts[16], steps[16] = {};
  for (std::size_t k = 0; k < rank; ++k) starts[k] = c.current[tile.variables[k]];
  const Count together = c.plan->blocks[child].together;
  for (Count element = 0; element < tile.size;) {
    c.element[child] = element;
    Count count = 1;
    if (together > 1) {
      count = select_together(c, child, tile, steps, together);
      evaluate(c, child, c.tiles[child], -1);
      fold_rows(block.reduction, totals + element, values<T>(c, child, block.result), count, tiling.tile_size, loops);
    } else {
      std::conditional_t<std::is_same_v<T, R>, double, std::int64_t> total = 0;
      for (Count t = 0; t < tiling.count; ++t) {
        Tile& inner = c.tiles[child];
        tiling.select(t, inner, c.current);
        evaluate(c, child, inner, -1);
        fold(block.reduction, total, values<T>(c, child, block.result), inner.size, t == 0, loops);
      }
      totals[element] = static_cast<T>(total);
    }
    element += count;
    // The position of the next element.
    for (std::size_t k = rank; k-- > 0 && count > 0;) {
      steps[k] += count;
      count = steps[k] / tile.extents[k];
      steps[k] %= tile.extents[k];
      c.current[tile.variables[k]] = starts[k] + steps[k];
    }
  }
  for (std::size_t k = 0; k < rank; ++k) c.current[tile.variables[k]] = starts[k];
}

// Sets the block's tile to the reductions of the next elements of the enclosing tile, at most `together`; returns how many.
// They are a run of the tile's elements from position `steps` on.
template <class R>
Count Executor<R>::select_together(Context& c, int child, const Tile& tile, const Count* steps, Count together) const {
  const Tiling& tiling = c.plan->blocks[child].tiling;
  Tile& inner = c.tiles[child];
  const std::size_t rank = tile.variables.size();
  std::fill_n(inner.extents.begin(), rank, Count{1});
  Count count = 1;
  for (std::size_t k = rank; k-- > 0;) {
    inner.extents[k] = std::min(tile.extents[k] - steps[k], together / count);
    count *= inner.extents[k];
    if (inner.extents[k] < tile.extents[k]) break;
  }
  std::copy(tiling.extents.begin(), tiling.extents.end(), inner.extents.begin() + static_cast<std::ptrdiff_t>(rank));
  inner.size = count * tiling.tile_size;
  return count;
}

template class Executor<float>;
template class Executor<double>;

}  // namespace rewright::cpu
