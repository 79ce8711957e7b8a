#include "runtime/cpu/tile/narrow.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "expressions/tensor.h"

namespace rewright::cpu {

namespace {

using In = Instruction::Kind;
using Limits = std::numeric_limits<std::int64_t>;

constexpr int kWide = 64;  // bits

// The integers that a register may hold, both ends included.
struct Interval {
  std::int64_t low = Limits::min(), high = Limits::max();

  // `is_unsigned`: of 8 bits without a sign, or wide.
  int bits(bool is_unsigned) const {
    if (is_unsigned) return low >= 0 && high < 256 ? 8 : kWide;
    for (const int width : {8, 16, 32})
      if (low >= -(std::int64_t{1} << (width - 1)) && high < std::int64_t{1} << (width - 1)) return width;
    return kWide;
  }
  // The width whose low bits tell them apart.
  int bits_apart() const {
    std::int64_t range = 0;
    if (__builtin_sub_overflow(high, low, &range)) return kWide;
    for (const int width : {8, 16, 32})
      if (range < std::int64_t{1} << width) return width;
    return kWide;
  }
};

Interval interval_of(DataType type) {
  if (type == DataType::kBool) return {0, 1};
  const int bits = static_cast<int>(byte_size(type)) * 8;
  if (bits >= kWide) return {};
  const bool is_unsigned = type == DataType::kUint8 || type == DataType::kUint16 || type == DataType::kUint32;
  const std::int64_t count = std::int64_t{1} << bits;
  return is_unsigned ? Interval{0, count - 1} : Interval{-count / 2, count / 2 - 1};
}

Interval joined(const Interval& a, const Interval& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

// Everything if an end overflows.
template <class Combine>
Interval of_ends(const Interval& a, const Interval& b, Combine overflows) {
  Interval result{Limits::max(), Limits::min()};
  for (const std::int64_t x : {a.low, a.high})
    for (const std::int64_t y : {b.low, b.high}) {
      std::int64_t end = 0;
      if (overflows(x, y, &end)) return {};
      result = joined(result, {end, end});
    }
  return result;
}
Interval sum(const Interval& a, const Interval& b) {
  return of_ends(a, b, [](std::int64_t x, std::int64_t y, std::int64_t* r) { return __builtin_add_overflow(x, y, r); });
}
Interval difference(const Interval& a, const Interval& b) {
  return of_ends(a, b, [](std::int64_t x, std::int64_t y, std::int64_t* r) { return __builtin_sub_overflow(x, y, r); });
}
Interval product(const Interval& a, const Interval& b) {
  return of_ends(a, b, [](std::int64_t x, std::int64_t y, std::int64_t* r) { return __builtin_mul_overflow(x, y, r); });
}
// All numbers of at most the magnitude of an element of `a`.
Interval within(const Interval& a) {
  if (a.low == Limits::min()) return {};
  const std::int64_t most = std::max(a.high < 0 ? -a.high : a.high, a.low < 0 ? -a.low : a.low);
  return {-most, most};
}

bool has_narrow_loop(const Instruction& i) {
  static const LoopTables& loops = LoopTables::baseline();
  return (i.function->arity == 1 ? loops.i32.unary(*i.function) != nullptr : loops.i32.binary(*i.function) != nullptr);
}

bool is_comparison(In kind) { return kind == In::kEqual || kind == In::kLess || kind == In::kLessEqual; }

// Are the low bits of the result a function of the low bits of the arguments?
bool wraps(const Instruction& i) {
  switch (i.kind) {
    case In::kAdd:
    case In::kSubtract:
    case In::kMultiply:
    case In::kMultiplyAdd:
    case In::kSpread:
    case In::kRepeat:
    case In::kOuter:
    case In::kSelect:
    case In::kSelectSpan:
      return true;
    case In::kFunction:
      return i.function == &functions::bit_and || i.function == &functions::bit_or || i.function == &functions::bit_xor ||
             i.function == &functions::bit_not;
    default:
      return false;
  }
}

class Narrowing {
 public:
  Narrowing(BoxPlan& plan, DataType output_type, const std::vector<DataType>& operand_types, bool in_double)
      : plan_(plan),
        blocks_(plan.program.blocks),
        output_type_(output_type),
        operand_types_(operand_types),
        reals_(in_double ? kWide : 32) {}

  void run() {
    if (!has_integers() && !may_move()) return;
    const BoxProgram given = may_move() ? plan_.program : BoxProgram();
    const bool moves = may_move() && mark_moves();
    find_needs();
    if (moves && needs_[0][blocks_[0].result] == kWide) {  // beside integers of 64 bits
      plan_.program = given;
      find_needs();
    }
    if (narrow_bits() == 16) {  // numbers up to 255 that are compared need 16 bits with a sign, and 8 without
      unsigned_ = true;
      find_needs();
      unsigned_ = narrow_bits() == 8;
      if (!unsigned_) find_needs();
    }
    mark();
  }

 private:
  Instruction& instruction(std::size_t b, int r) { return blocks_[b].instructions[r]; }
  template <class F>
  void for_each_live(F f) {
    // Children come after their parents, but registers that they define before those that use them.
    for (std::size_t b = blocks_.size(); b-- > 0;)
      for (int r = 0; r < static_cast<int>(blocks_[b].instructions.size()); ++r)
        if (plan_.blocks[b].live[r]) f(b, r);
  }
  bool is_constant(std::size_t b, int r) { return instruction(b, r).kind == In::kConstant; }

  void find_needs() {
    intervals_.assign(blocks_.size(), {});
    needs_.assign(blocks_.size(), {});
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      intervals_[b].resize(blocks_[b].instructions.size());
      needs_[b].assign(blocks_[b].instructions.size(), 8);
    }
    for (int pass = 0; pass < 2; ++pass)  // children read their parents' registers, and the other way round
      for_each_live([&](std::size_t b, int r) { find_interval(b, r); });
    if (const int root = blocks_[0].result; instruction(0, root).integer) {
      if (output_type_ == DataType::kBool)
        exact(0, root);  // true is what is not 0
      else
        need(0, root, static_cast<int>(byte_size(output_type_)) * 8);
    }
    for_each_live([&](std::size_t b, int r) { need_arguments(b, r); });
    do {
      changed_ = false;
      for_each_live([&](std::size_t b, int r) { share(b, r); });
    } while (changed_);
  }

  bool has_integers() {
    bool any = false;
    for_each_live([&](std::size_t b, int r) { any = any || instruction(b, r).integer; });
    return any;
  }
  bool may_move() const { return output_type_ == DataType::kHalf || output_type_ == DataType::kBfloat16; }

  // If halves are only moved, their registers become integers with their bits.
  bool mark_moves() {
    bool only_moves = true;
    for_each_live([&](std::size_t b, int r) {
      const Instruction& i = instruction(b, r);
      if (i.integer) {
        only_moves = only_moves && i.kind != In::kToInteger &&
                     (i.integer_arguments || !(is_comparison(i.kind) || i.kind == In::kFunction));
        return;
      }
      switch (i.kind) {
        case In::kLoad:
        case In::kGather:
        case In::kGatherAxis:
        case In::kGatherRows:
          only_moves = only_moves && operand_types_[i.operand] == output_type_;
          return;
        case In::kConstant:
        case In::kSelect:
        case In::kSelectSpan:
        case In::kSpread:
        case In::kRepeat:
        case In::kOuter:
          return;
        default:
          only_moves = false;
      }
    });
    if (!only_moves) return false;
    for_each_live([&](std::size_t b, int r) {
      Instruction& i = instruction(b, r);
      if (i.integer) return;
      i.integer = i.bits = true;
      const auto value = static_cast<float>(i.real);
      if (i.kind == In::kConstant) i.number = output_type_ == DataType::kHalf ? float_to_half(value) : float_to_bfloat16(value);
    });
    return true;
  }

  // The elements that a register may hold if it is computed in 64 bits.
  void find_interval(std::size_t b, int r) {
    Interval& result = intervals_[b][r];
    const Instruction& i = instruction(b, r);
    if (!i.integer || i.bits) return;
    const auto argument = [&](int k) -> const Interval& { return intervals_[b][i.arguments[k]]; };
    switch (i.kind) {
      case In::kLoad:
      case In::kGather:
      case In::kGatherAxis:
      case In::kGatherRows:
        return void(result = interval_of(operand_types_[i.operand]));
      case In::kConstant:
        return void(result = Interval{i.number, i.number});
      case In::kIndices:
        result = {i.affine.constant, i.affine.constant};
        for (std::size_t v = 0; v < i.affine.coefficients.size(); ++v) {
          const std::int64_t last = plan_.program.extents[v] - 1, end = i.affine.coefficients[v] * last;
          result = sum(result, {std::min<std::int64_t>(end, 0), std::max<std::int64_t>(end, 0)});
        }
        return;
      case In::kOuter:
        result = intervals_[static_cast<std::size_t>(blocks_[b].parent)][i.arguments[0]];
        return;
      case In::kSpread:
      case In::kRepeat:
        return void(result = intervals_[i.child][i.other]);
      case In::kSelect:
        return void(result = joined(argument(1), argument(2)));
      case In::kSelectSpan:
        return void(result = joined(argument(0), argument(1)));
      case In::kEqual:
      case In::kLess:
      case In::kLessEqual:
        return void(result = Interval{0, 1});
      case In::kAdd:
        return void(result = sum(argument(0), argument(1)));
      case In::kSubtract:
        return void(result = difference(argument(0), argument(1)));
      case In::kMultiply:
        return void(result = product(argument(0), argument(1)));
      case In::kMultiplyAdd:
        return void(result = sum(product(argument(0), argument(1)), argument(2)));
      case In::kMaximum:
        return void(result =
                        Interval{std::max(argument(0).low, argument(1).low), std::max(argument(0).high, argument(1).high)});
      case In::kMinimum:
        return void(result =
                        Interval{std::min(argument(0).low, argument(1).low), std::min(argument(0).high, argument(1).high)});
      case In::kDivide:
      case In::kFloorDivide:
        return void(result = within(argument(0)));
      case In::kFloorModulo:
        return void(result = within(argument(1)));
      case In::kFunction:
        if (!i.integer_arguments) return void(result = Interval{0, 1});
        if (i.function == &functions::abs || i.function == &functions::integer_divide)
          return void(result = within(argument(0)));
        if (i.function == &functions::floor_modulo) return void(result = within(argument(1)));
        if (i.function == &functions::truncated_modulo) return void(result = within(argument(0)));
        if (i.function == &functions::sign) return void(result = Interval{-1, 1});
        if (i.function == &functions::logical_xor) return void(result = Interval{0, 1});
        return;
      case In::kReduce: {
        const Block& child = blocks_[i.child];
        const Interval& element = intervals_[i.child][child.result];
        if (child.reduction == Reduction::kMax || child.reduction == Reduction::kMin) return void(result = element);
        if (child.reduction != Reduction::kSum) return;
        std::int64_t steps = 1;
        for (const int v : child.variables) steps *= plan_.program.extents[v];
        return void(result = product(element, {steps, steps}));
      }
      default:
        return;
    }
  }

  void need(std::size_t b, int r, int bits) {
    if (needs_[b][r] >= bits) return;
    needs_[b][r] = bits;
    changed_ = true;
  }
  void exact(std::size_t b, int r) { need(b, r, intervals_[b][r].bits(unsigned_)); }

  // Sets the widths that an instruction needs of its arguments, whatever others need.
  void need_arguments(std::size_t b, int r) {
    const Instruction& i = instruction(b, r);
    const auto is_integer = [&](int k) {
      return i.arguments[k] >= 0 && i.kind != In::kOuter && instruction(b, i.arguments[k]).integer;
    };
    switch (i.kind) {
      case In::kGather:
      case In::kGatherAxis:
      case In::kGatherRows:
        if (i.arguments[0] >= 0) need(b, i.arguments[0], kWide);
        if (i.kind == In::kGatherRows) need(i.child, i.other, kWide);
        return;
      case In::kPosition:
        need(b, r, kWide);
        return need(b, i.arguments[0], kWide);
      case In::kToInteger:
        return need(b, r, kWide);
      case In::kToReal:
        need(b, i.arguments[0], reals_);
        return exact(b, i.arguments[0]);
      case In::kFunction:
        if (!i.integer_arguments || !has_narrow_loop(i)) need(b, r, kWide);
        break;
      case In::kReduce:
        if (i.integer && blocks_[i.child].reduction != Reduction::kSum) exact(i.child, blocks_[i.child].result);
        return;
      case In::kSelectSpan:
        if (i.child >= 0) need(i.child, i.other, kWide);
        return;
      case In::kSelect:
        exact(b, i.arguments[0]);
        if (!i.integer) need(b, i.arguments[0], reals_);
        return;
      default:
        break;
    }
    if (is_comparison(i.kind) && !i.integer_arguments) return need(b, r, reals_);
    if (i.kind == In::kEqual) {  // numbers that are not further apart than such a width reaches
      const int bits = joined(intervals_[b][i.arguments[0]], intervals_[b][i.arguments[1]]).bits_apart();
      for (int k = 0; k < 2; ++k) need(b, i.arguments[k], bits);
      return need(b, r, bits);
    }
    if (!i.integer || wraps(i)) return;
    for (int k = 0; k < 4; ++k)
      if (is_integer(k)) {
        exact(b, i.arguments[k]);
        if (is_constant(b, i.arguments[k])) need(b, r, intervals_[b][i.arguments[k]].bits(unsigned_));
      }
  }

  // A register that takes over another one of another block.
  void taken_over(std::size_t b, int r, std::size_t other_block, int other) {
    if (is_constant(other_block, other) && instruction(b, r).integer) return need(b, r, kWide);
    alike(b, r, other_block, other);
  }
  // Registers that have to have one width.
  void alike(std::size_t b, int r, std::size_t other_block, int other) {
    if (is_constant(b, r) || is_constant(other_block, other)) return;
    if (!instruction(b, r).integer || !instruction(other_block, other).integer) return;
    const int bits = std::max(needs_[b][r], needs_[other_block][other]);
    need(b, r, bits);
    need(other_block, other, bits);
  }
  void share(std::size_t b, int r) {
    const Instruction& i = instruction(b, r);
    switch (i.kind) {
      case In::kGather:
      case In::kGatherAxis:
      case In::kGatherRows:
      case In::kToReal:
        return;
      case In::kOuter:
        return taken_over(b, r, static_cast<std::size_t>(blocks_[b].parent), i.arguments[0]);
      case In::kSpread:
      case In::kRepeat:
        return taken_over(b, r, static_cast<std::size_t>(i.child), i.other);
      case In::kReduce:
        return alike(b, r, static_cast<std::size_t>(i.child), blocks_[i.child].result);
      default:
        for (const int a : i.arguments)
          if (a >= 0) alike(b, r, b, a);
    }
  }

  bool is_narrow(std::size_t b, int r) {
    return instruction(b, r).integer && instruction(b, r).kind != In::kConstant && needs_[b][r] < kWide;
  }
  // The width of narrow registers; 0: there are none.
  int narrow_bits() {
    int width = 0;
    for_each_live([&](std::size_t b, int r) {
      if (is_narrow(b, r)) width = std::max(width, needs_[b][r]);
    });
    const int root = blocks_[0].result;
    return is_constant(0, root) && is_result_narrow(0) ? std::max(width, needs_[0][root]) : width;
  }

  void mark() {
    const int width = narrow_bits(), root = blocks_[0].result;
    if (width == 0) return;
    plan_.narrow = unsigned_     ? DataType::kUint8
                   : width == 8  ? DataType::kInt8
                   : width == 16 ? DataType::kInt16
                                 : DataType::kInt32;
    for_each_live([&](std::size_t b, int r) {
      if (is_narrow(b, r)) instruction(b, r).narrow = true;
    });
    plan_.stores_as_held = is_result_narrow(0) && static_cast<int>(byte_size(output_type_)) * 8 == width &&
                           (output_type_ != DataType::kBool || (intervals_[0][root].low >= 0 && intervals_[0][root].high <= 1));
    for (std::size_t b = 0; b < blocks_.size(); ++b) copy_constants(b);
  }

  // Constants have the width of those that use them: one for each.
  void copy_constants(std::size_t b) {
    std::vector<int> copies(blocks_[b].instructions.size(), -1);
    const auto count = static_cast<int>(copies.size());
    for (int r = 0; r < count; ++r) {
      if (!plan_.blocks[b].live[r] || instruction(b, r).kind == In::kOuter) continue;
      for (int k = 0; k < 4 && instruction(b, r).narrow; ++k) {
        const int a = instruction(b, r).arguments[k];
        if (a < 0 || !is_constant(b, a) || !instruction(b, a).integer) continue;
        const int narrow = copy(b, a, copies);
        instruction(b, r).arguments[k] = narrow;
      }
    }
    if (blocks_[b].result >= 0 && is_constant(b, blocks_[b].result) && is_result_narrow(b))
      blocks_[b].result = copy(b, blocks_[b].result, copies);
  }
  bool is_result_narrow(std::size_t b) {
    if (b == 0) return needs_[0][blocks_[0].result] < kWide && instruction(0, blocks_[0].result).integer;
    const std::vector<Instruction>& parent = blocks_[blocks_[b].parent].instructions;
    return std::any_of(parent.begin(), parent.end(), [&](const Instruction& i) {
      return i.kind == In::kReduce && i.child == static_cast<int>(b) && i.narrow;
    });
  }
  int copy(std::size_t b, int constant, std::vector<int>& copies) {
    if (copies[constant] < 0) {
      Instruction narrow = instruction(b, constant);
      narrow.narrow = true;
      copies[constant] = static_cast<int>(blocks_[b].instructions.size());
      blocks_[b].instructions.push_back(std::move(narrow));
      plan_.blocks[b].live.push_back(true);
    }
    return copies[constant];
  }

  BoxPlan& plan_;
  std::vector<Block>& blocks_;
  DataType output_type_;
  const std::vector<DataType>& operand_types_;
  int reals_;  // bits of truth values beside reals
  bool changed_ = true, unsigned_ = false;
  std::vector<std::vector<Interval>> intervals_;
  std::vector<std::vector<int>> needs_;
};

}  // namespace

void narrow_integers(BoxPlan& plan, DataType output_type, const std::vector<DataType>& operand_types, bool in_double) {
  Narrowing(plan, output_type, operand_types, in_double).run();
}

}  // namespace rewright::cpu
