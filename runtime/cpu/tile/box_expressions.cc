// Operations, functions and reductions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/cpu/tile/box_compiler.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

}  // namespace

int BoxCompiler::emit_here(const Element& e, int block) {
  using In = Instruction::Kind;
  const bool integer = e->scalar != Scalar::kReal;
  switch (e->kind) {
    case Kind::kConstant:
      if (integer) return number(block, e->integer);
      if (!e->real.symbol.empty()) throw NotCompilable();
      return real_constant(block, e->real.value);
    case Kind::kFromIndex:
      return emit_index(e->index, block);
    case Kind::kRead:
      return emit_read(*e, block);
    case Kind::kAdd:
      return emit_add(*e, block);
    case Kind::kMultiply:  // vectors of integers have no instruction for it, and truth values are 0 and 1
      return emit_binary(*e, e->scalar == Scalar::kBoolean ? In::kMinimum : In::kMultiply, block);
    case Kind::kDivide:
      return emit_binary(*e, In::kDivide, block);
    case Kind::kMaximum:
      return emit_binary(*e, In::kMaximum, block);
    case Kind::kMinimum:
      return emit_binary(*e, In::kMinimum, block);
    case Kind::kApply:
      return emit_function(*e, block);
    case Kind::kReduce:
      return emit_reduction(e, block);
    case Kind::kChoose: {
      const int mask = emit_conditions(e->conditions, block);
      if (mask == kAlways) return emit(e->arguments[0], block);
      if (mask == kNever) return emit(e->arguments[1], block);
      const auto [a, b] = guarded([&] {
        return std::pair<int, int>{emit(e->arguments[0], block), emit(e->arguments[1], block)};
      });
      return add(block, In::kSelect, integer, mask, a, b);
    }
    case Kind::kSelect: {
      const int c = emit(e->arguments[0], block), a = emit(e->arguments[1], block), b = emit(e->arguments[2], block);
      return add(block, In::kSelect, integer, c, a, b);
    }
    case Kind::kConvert: {
      if (e->scalar == Scalar::kReal && e->arguments[0]->kind == Kind::kRead) return emit_read(*e->arguments[0], block, true);
      const int a = emit(e->arguments[0], block);
      const Scalar from = e->arguments[0]->scalar;
      if (e->scalar == from) return a;
      if (e->scalar == Scalar::kReal) return add(block, In::kToReal, false, a);
      if (e->scalar == Scalar::kInteger) return from == Scalar::kReal ? add(block, In::kToInteger, true, a) : a;
      const int zero = from == Scalar::kReal ? real_constant(block, 0) : number(block, 0);
      const int is_zero = add(block, In::kEqual, true, a, zero);
      return add(block, In::kSubtract, true, number(block, 1), is_zero);
    }
  }
  throw NotCompilable();
}

int BoxCompiler::emit_binary(const ElementNode& e, Instruction::Kind kind, int block) {
  const int a = emit(e.arguments[0], block), b = emit(e.arguments[1], block);
  return add(block, kind, e.scalar != Scalar::kReal, a, b);
}

int BoxCompiler::emit_add(const ElementNode& e, int block) {
  const bool integer = e.scalar != Scalar::kReal;
  for (int side = 1; side >= 0; --side) {
    const ElementNode& m = *e.arguments[side];
    if (m.kind != Kind::kMultiply) continue;
    for (int s = 0; s < 2; ++s) {
      const ElementNode& c = *m.arguments[s];
      if (c.kind != Kind::kConstant || (integer ? c.integer != -1 : c.real.value != -1 || !c.real.symbol.empty())) continue;
      const int a = emit(e.arguments[1 - side], block), b = emit(m.arguments[1 - s], block);
      return add(block, Instruction::Kind::kSubtract, integer, a, b);
    }
  }
  return emit_binary(e, Instruction::Kind::kAdd, block);
}

int BoxCompiler::emit_function(const ElementNode& e, int block) {
  namespace fn = functions;
  using In = Instruction::Kind;
  const Function& f = *e.function;
  if (&f == &fn::tanh && e.arguments[0]->kind == Kind::kApply && e.arguments[0]->function == &fn::softplus)
    return emit_tanh_softplus(*e.arguments[0], block);
  const int a = emit(e.arguments[0], block);
  const bool integer_arguments = e.arguments[0]->scalar != Scalar::kReal;
  if (f.arity == 2) {
    const ElementNode& second = *e.arguments[1];
    if (&f == &fn::pow && !integer_arguments && second.kind == Kind::kConstant && second.real.symbol.empty()) {
      const double exponent = second.real.value;
      if (exponent == 1) return a;
      if (exponent == 2) return add(block, In::kMultiply, false, a, a);
      if (exponent == 3) return add(block, In::kMultiply, false, add(block, In::kMultiply, false, a, a), a);
      if (exponent == -1) return add(block, In::kDivide, false, real_constant(block, 1), a);
      if (const int roots = emit_roots(exponent, a, block); roots >= 0) return roots;
    }
    const int b = emit(e.arguments[1], block);
    if (&f == &fn::equal) return add(block, In::kEqual, true, a, b);
    if (&f == &fn::less) return add(block, In::kLess, true, a, b);
    if (&f == &fn::less_equal) return add(block, In::kLessEqual, true, a, b);
    if (&f == &fn::logical_and) return add(block, In::kMinimum, true, a, b);
    if (&f == &fn::logical_or) return add(block, In::kMaximum, true, a, b);
    return function(f, e, integer_arguments, block, a, b);
  }
  if (&f == &fn::nearest_float && !in_double_) return a;
  if (&f == &fn::logical_not) return add(block, In::kSubtract, true, number(block, 1), a);
  if (!integer_arguments && real_loops<float>(Isa::kBaseline).unary(f) != nullptr) {
    Instruction i{In::kUnary};
    i.function = &f;
    i.arguments[0] = a;
    return add(block, std::move(i));
  }
  return function(f, e, integer_arguments, block, a, -1);
}

// tanh(log(1 + e)) = m / (m + 2) with m = e (e + 2), which avoids two functions and their cancellation. From exponents of 30 on
// it is 1 in all types.
int BoxCompiler::emit_tanh_softplus(const ElementNode& softplus, int block) {
  using In = Instruction::Kind;
  const int x = emit(softplus.arguments[0], block), two = real_constant(block, 2);
  Instruction i{In::kUnary};
  i.function = &functions::exp;
  i.arguments[0] = add(block, In::kMinimum, false, x, real_constant(block, 30));
  const int e = add(block, std::move(i));
  const int m = add(block, In::kMultiply, false, e, add(block, In::kAdd, false, e, two));
  return add(block, In::kDivide, false, m, add(block, In::kAdd, false, m, two));
}

// Powers with exponents that are multiples of a quarter, by square roots; -1 for others. Those of -infinity are what they are
// of infinity, and those of -0 what they are of 0.
int BoxCompiler::emit_roots(double exponent, int x, int block) {
  using In = Instruction::Kind;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double size = std::fabs(exponent);
  if (size != 0.25 && size != 0.5 && size != 0.75 && size != 1.5) return -1;
  const auto root = [&](int of) {
    Instruction i{In::kUnary};
    i.function = &functions::sqrt;
    i.arguments[0] = of;
    return add(block, std::move(i));
  };
  const int square = root(x);
  int power = size == 1.5 ? x : square;
  if (size == 0.25 || size == 0.75) power = root(square);
  if (size == 0.75 || size == 1.5)
    power = add(block, In::kMultiply, false, square, power);
  else
    power = add(block, In::kAdd, false, power, real_constant(block, 0));
  if (exponent < 0) power = add(block, In::kDivide, false, real_constant(block, 1), power);
  const int is_least = add(block, In::kEqual, true, x, real_constant(block, -kInfinity));
  return add(block, In::kSelect, false, is_least, real_constant(block, exponent < 0 ? 0 : kInfinity), power);
}

int BoxCompiler::function(const Function& f, const ElementNode& e, bool integer_arguments, int block, int a, int b) {
  if (integer_arguments ? f.integer == nullptr : f.real == nullptr) throw NotCompilable();
  Instruction i{Instruction::Kind::kFunction};
  i.integer = e.scalar != Scalar::kReal;
  i.integer_arguments = integer_arguments;
  if (integer_arguments && !i.integer) throw NotCompilable();
  i.function = &f;
  i.arguments[0] = a;
  i.arguments[1] = b;
  return add(block, std::move(i));
}

int BoxCompiler::emit_reduction(const Element& e, int block) {
  const int child = static_cast<int>(box_.blocks.size());
  box_.blocks.emplace_back();
  box_.blocks[child].parent = block;
  box_.blocks[child].reduction = e->reduction;
  // Directly nested reductions of one kind are merged.
  std::vector<Condition> conditions;
  const ElementNode* r = e.get();
  const Element* body = nullptr;
  for (;;) {
    const auto bound = variables_.affine(r->bound);
    const Atom* atom = r->index.as_atom();
    if (!bound || !bound->is_constant() || atom == nullptr) throw NotCompilable();
    const int v = variables_.add(atom->id, {0, std::max<std::int64_t>(bound->constant, 0)});
    block_of_.resize(v - axes_ + 1);
    block_of_[v - axes_] = child;
    box_.extents.push_back(std::max<std::int64_t>(bound->constant, 0));
    box_.blocks[child].variables.push_back(static_cast<int>(box_.extents.size()) - 1);
    conditions.insert(conditions.end(), r->conditions.begin(), r->conditions.end());
    body = &r->arguments[0];
    if ((*body)->kind != Kind::kReduce || (*body)->reduction != e->reduction) break;
    r = body->get();
  }
  const bool integer = e->scalar != Scalar::kReal;
  bool empty = false;
  for (const int v : box_.blocks[child].variables) empty = empty || box_.extents[v] == 0;
  if (empty) return identity(e->reduction, integer, block);
  const int mask = emit_conditions(conditions, child);
  int result;
  if (mask == kNever) return identity(e->reduction, integer, block);
  result = mask == kAlways ? emit(*body, child) : guarded([&] { return emit(*body, child); });
  if (mask != kAlways)
    result = add(child, Instruction::Kind::kSelect, integer, mask, result, identity(e->reduction, integer, child));
  box_.blocks[child].result = result;
  if (block == 0) reduce_in_two(child);
  Instruction i{Instruction::Kind::kReduce};
  i.integer = integer;
  i.child = child;
  return add(block, std::move(i));
}

// If the output has an axis between those of a reduction, only the innermost of these step through memory as one. These are
// then reduced as rows in a block of their own: all at once, the rows of an element would have to be copied side by side.
void BoxCompiler::reduce_in_two(int child) {
  using In = Instruction::Kind;
  constexpr std::int64_t kLeastRow = 8, kLeastTile = 512, kMostTile = 1024, kShortRows = 256, kCached = 1 << 18;  // elements
  if (child + 1 != static_cast<int>(box_.blocks.size())) return;
  std::vector<int>& variables = box_.blocks[child].variables;
  const std::vector<Instruction>& all = box_.blocks[child].instructions;
  std::size_t first = variables.size();  // of those that step through memory as one
  std::int64_t row = 1;
  const auto extends_row = [&](int v) {
    const std::int64_t extent = box_.extents[v];
    return extent == 1 || std::all_of(all.begin(), all.end(), [&](const Instruction& i) {
             const std::int64_t step = i.affine.coefficient(v);
             return i.kind != In::kLoad || (row == 1 ? step == 0 || step == 1 : step == 0 || step == row);
           });
  };
  while (first > 0 && extends_row(variables[first - 1])) row *= box_.extents[variables[--first]];
  std::int64_t outputs = 1;
  for (std::size_t v = 0; v < box_.output_rank; ++v) outputs *= box_.extents[v];
  if (first == 0 || row < kLeastRow || std::min(outputs, kMostTile) * row < kLeastTile) return;
  const bool runs_through = std::any_of(all.begin(), all.end(), [&](const Instruction& i) {
    return i.kind == In::kLoad && std::any_of(variables.begin() + static_cast<std::ptrdiff_t>(first), variables.end(),
                                              [&](int v) { return box_.extents[v] > 1 && i.affine.coefficient(v) == 1; });
  });
  if (!runs_through) return;
  // Sums of rows take a step for each of their lanes, so that sums over the other axes come before them; where much memory is
  // read, that is done in its order.
  std::int64_t steps = 1;
  for (std::size_t n = 0; n < first; ++n) steps *= box_.extents[variables[n]];
  const Reduction reduction = box_.blocks[child].reduction;
  const bool rows_last = (reduction == Reduction::kSum || reduction == Reduction::kProduct) && row <= kShortRows &&
                         outputs * row * steps <= kCached;
  box_.blocks.emplace_back();
  Block &whole = box_.blocks[child], &part = box_.blocks[child + 1];
  part = std::move(whole);
  whole = Block();
  whole.parent = part.parent;
  whole.reduction = reduction;
  whole.split = rows_last ? Block::Split::kRows : Block::Split::kOthers;
  const auto middle = part.variables.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<int> others(part.variables.begin(), middle), of_rows(middle, part.variables.end());
  whole.variables = rows_last ? of_rows : others;
  part.variables = rows_last ? others : of_rows;
  part.parent = child;
  for (Instruction& i : part.instructions) {
    if (i.kind != In::kOuter) continue;
    Instruction through{In::kOuter};
    through.integer = i.integer;
    through.arguments[0] = i.arguments[0];
    whole.instructions.push_back(std::move(through));
    i.arguments[0] = static_cast<int>(whole.instructions.size()) - 1;
  }
  Instruction of_part{In::kReduce};
  of_part.integer = part.instructions[static_cast<std::size_t>(part.result)].integer;
  of_part.child = child + 1;
  whole.instructions.push_back(std::move(of_part));
  whole.result = static_cast<int>(whole.instructions.size()) - 1;
}

int BoxCompiler::identity(Reduction reduction, bool integer, int block) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  using Limits = std::numeric_limits<std::int64_t>;
  switch (reduction) {
    case Reduction::kSum:
      return integer ? number(block, 0) : real_constant(block, 0);
    case Reduction::kProduct:
      return integer ? number(block, 1) : real_constant(block, 1);
    case Reduction::kMax:
      return integer ? number(block, Limits::min()) : real_constant(block, -kInfinity);
    case Reduction::kMin:
      return integer ? number(block, Limits::max()) : real_constant(block, kInfinity);
  }
  throw NotCompilable();
}

int BoxCompiler::without_integers(int result) const {
  using In = Instruction::Kind;
  const Instruction& last = at(0, result);
  if (last.kind == In::kToInteger) {
    const bool is_short =
        scalar(output_type_) == Scalar::kInteger && packed_bits(output_type_) >= 8 && packed_bits(output_type_) <= 32;
    return is_short ? last.arguments[0] : result;
  }
  // 1 - (x == 0)
  if (last.kind != In::kSubtract || output_type_ != DataType::kBool) return result;
  const Instruction &one = at(0, last.arguments[0]), &is_zero = at(0, last.arguments[1]);
  if (one.kind != In::kConstant || one.number != 1 || is_zero.kind != In::kEqual) return result;
  const Instruction& zero = at(0, is_zero.arguments[1]);
  return zero.kind == In::kConstant && zero.number == 0 && zero.real == 0 ? is_zero.arguments[0] : result;
}

namespace {

std::vector<int> uses_of(const Block& block) {
  std::vector<int> uses(block.instructions.size());
  for (const Instruction& i : block.instructions)
    for (const int a : i.arguments)
      if (a >= 0 && i.kind != Instruction::Kind::kOuter) ++uses[a];
  return uses;
}

// A selection by an affine expression of positions, or by the sum of one and a number of each row, takes one argument along a
// part of each row, and the other one elsewhere.
bool select_span(const Block& block, Instruction& i) {
  using In = Instruction::Kind;
  const auto at = [&](int r) -> const Instruction& { return block.instructions[r]; };
  const auto is_number = [&](int r, std::int64_t n) {
    return at(r).kind == In::kConstant && at(r).integer && at(r).number == n;
  };
  const Instruction* condition = &at(i.arguments[0]);
  const bool negated = condition->kind == In::kSubtract && is_number(condition->arguments[0], 1) &&
                       at(condition->arguments[1]).kind == In::kEqual;
  if (negated) condition = &at(condition->arguments[1]);
  const bool compares = condition->kind == In::kEqual || condition->kind == In::kLess || condition->kind == In::kLessEqual;
  if (!compares || !condition->integer_arguments) return false;
  const Instruction* position = &at(condition->arguments[0]);
  const Instruction* row = nullptr;
  if (position->kind == In::kAdd && at(position->arguments[0]).kind == In::kSpread) {
    row = &at(position->arguments[0]);
    position = &at(position->arguments[1]);
  }
  const Instruction& bound = at(condition->arguments[1]);
  if (bound.kind != In::kConstant || position->kind != In::kIndices) return false;
  Affine affine = position->affine;
  affine.constant -= bound.number;
  if (condition->kind == In::kLessEqual) --affine.constant;
  i.kind = In::kSelectSpan;
  i.number = condition->kind == In::kEqual ? 1 : 0;
  i.affine = std::move(affine);
  if (row != nullptr) i.child = row->child, i.other = row->other;
  i.arguments[0] = i.arguments[1];
  i.arguments[1] = i.arguments[2];
  i.arguments[2] = -1;
  if (negated) std::swap(i.arguments[0], i.arguments[1]);
  return true;
}

}  // namespace

void BoxCompiler::fuse(Block& block) {
  using In = Instruction::Kind;
  const std::vector<int> uses = uses_of(block);
  for (Instruction& i : block.instructions) {
    if (i.kind == In::kSelect && select_span(block, i)) continue;
    if (i.kind == In::kSelect && !i.integer) {
      const Instruction& condition = block.instructions[i.arguments[0]];
      const bool compares = condition.kind == In::kEqual || condition.kind == In::kLess || condition.kind == In::kLessEqual;
      if (!compares || condition.integer_arguments || uses[i.arguments[0]] != 1 || i.arguments[0] == block.result) continue;
      i.kind = condition.kind == In::kEqual  ? In::kSelectEqual
               : condition.kind == In::kLess ? In::kSelectLess
                                             : In::kSelectLessEqual;
      i.arguments[3] = i.arguments[2];
      i.arguments[2] = i.arguments[1];
      i.arguments[1] = condition.arguments[1];
      i.arguments[0] = condition.arguments[0];
      continue;
    }
    if (i.kind != In::kAdd) continue;
    for (int side = 0; side < 2; ++side) {
      const int m = i.arguments[side];
      const Instruction& product = block.instructions[m];
      if (product.kind != In::kMultiply || uses[m] != 1 || m == block.result) continue;
      const int other = i.arguments[1 - side];
      i.kind = In::kMultiplyAdd;
      i.arguments[0] = product.arguments[0];
      i.arguments[1] = product.arguments[1];
      i.arguments[2] = other;
      break;
    }
  }
}

}  // namespace rewright::cpu
