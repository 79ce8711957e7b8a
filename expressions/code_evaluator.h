// Evaluates a flattened denotation (expressions/flatten.h) at one position. The interpreter evaluates all positions of an
// output, graph/element_sampler.h a few.
//
// A is the arithmetic (operators/readings/number_system.h). Operands offers sizes(operand), and real(operand, at) and
// integer(operand, at) for the element at the row-major place `at`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "expressions/flatten.h"

namespace rewright {

template <class A, class Operands>
class CodeEvaluator {
  using Kind = ElementNode::Kind;

 public:
  using Value = typename A::Value;
  // `sparse`: few positions will be evaluated, so the values of reductions are kept in hash tables, not in arrays.
  CodeEvaluator(A arithmetic, Operands operands, bool sparse = false)
      : a_(std::move(arithmetic)), operands_(std::move(operands)), sparse_(sparse) {}

  std::vector<std::int64_t> slots;
  void set_memory_count(std::size_t count) { memories_.resize(count); }

  Value real(const Code& c) {
    switch (c.kind) {
      case Kind::kConstant:
        return a_.from(c.real);
      case Kind::kRead: {
        const std::int64_t at = locate(c);
        return at < 0 ? a_.zero() : operands_.real(c.operand, at);
      }
      case Kind::kAdd:
        return a_.add(real(*c.arguments[0]), real(*c.arguments[1]));
      case Kind::kMultiply:
        return a_.multiply(real(*c.arguments[0]), real(*c.arguments[1]));
      case Kind::kDivide:
        return a_.divide(real(*c.arguments[0]), real(*c.arguments[1]));
      case Kind::kMaximum:
        return a_.maximum(real(*c.arguments[0]), real(*c.arguments[1]));
      case Kind::kMinimum:
        return a_.minimum(real(*c.arguments[0]), real(*c.arguments[1]));
      case Kind::kApply: {
        Value x[4];
        for (std::size_t i = 0; i < c.arguments.size(); ++i) x[i] = real(*c.arguments[i]);
        return a_.apply(*c.function, x);
      }
      case Kind::kChoose:
        return real(*c.arguments[holds(c.guards) ? 0 : 1]);
      case Kind::kSelect:
        return real(*c.arguments[integer(*c.arguments[0]) ? 1 : 2]);
      case Kind::kConvert:
        return a_.from_integer(integer(*c.arguments[0]));
      case Kind::kReduce:
        return remembered(c, &Memory::reals, [&] { return reduce_real(c); });
      case Kind::kFromIndex:
        break;
    }
    throw Error(ErrorCode::kUnsupported, "an integer stands where a real is needed");
  }

  std::int64_t integer(const Code& c) {
    const auto wrap = [](std::uint64_t v) { return static_cast<std::int64_t>(v); };
    const auto bits = [&](std::size_t i) { return static_cast<std::uint64_t>(integer(*c.arguments[i])); };
    switch (c.kind) {
      case Kind::kConstant:
        return c.integer;
      case Kind::kFromIndex:
        return index(c.index);
      case Kind::kRead: {
        const std::int64_t at = locate(c);
        return at < 0 ? 0 : operands_.integer(c.operand, at);
      }
      case Kind::kAdd:
        return wrap(bits(0) + bits(1));
      case Kind::kMultiply:
        return wrap(bits(0) * bits(1));
      case Kind::kDivide: {
        const std::int64_t x[2] = {integer(*c.arguments[0]), integer(*c.arguments[1])};
        return functions::integer_divide.integer(x);
      }
      case Kind::kMaximum:
        return std::max(integer(*c.arguments[0]), integer(*c.arguments[1]));
      case Kind::kMinimum:
        return std::min(integer(*c.arguments[0]), integer(*c.arguments[1]));
      case Kind::kApply:
        return apply_integer(c);
      case Kind::kChoose:
        return integer(*c.arguments[holds(c.guards) ? 0 : 1]);
      case Kind::kSelect:
        return integer(*c.arguments[integer(*c.arguments[0]) ? 1 : 2]);
      case Kind::kConvert: {
        const Code& from = *c.arguments[0];
        if (from.scalar == Scalar::kReal) {
          const Value v = real(from);
          return c.scalar == Scalar::kBoolean ? a_.to_boolean(v) : a_.to_integer(v);
        }
        const std::int64_t v = integer(from);
        return c.scalar == Scalar::kBoolean ? v != 0 : v;
      }
      case Kind::kReduce:
        return remembered(c, &Memory::integers, [&] { return reduce_integer(c); });
    }
    return 0;
  }

 private:
  std::int64_t index(const IndexCode& code) {
    std::int64_t v = code.constant;
    for (const auto& [slot, c] : code.affine) v += c * slots[static_cast<std::size_t>(slot)];
    for (const IndexCode::Term& t : code.others) {
      std::int64_t p = t.coefficient;
      for (const IndexCode::Factor& f : t.factors) p *= factor(f);
      v += p;
    }
    return v;
  }

  std::int64_t factor(const IndexCode::Factor& f) {
    switch (f.kind) {
      case Atom::Kind::kBound:
        return slots[static_cast<std::size_t>(f.slot)];
      case Atom::Kind::kLoad:
        return integer(*f.load);
      default:
        break;
    }
    const std::int64_t a = index(f.arguments[0]), b = index(f.arguments[1]);
    if (f.kind == Atom::Kind::kMin) return std::min(a, b);
    if (f.kind == Atom::Kind::kMax) return std::max(a, b);
    if (f.kind == Atom::Kind::kPosition && A::kChecksPositions) return checked_index(a, b);
    if (b < 1) throw Error(ErrorCode::kBadInput, "an index is divided by " + std::to_string(b));
    const std::int64_t q = a / b - (a % b < 0 ? 1 : 0);
    return f.kind == Atom::Kind::kFloorDiv ? q : a - q * b;
  }

  bool holds(const Guard& g) {
    const std::int64_t v = index(g.value);
    return g.test == Guard::Test::kNotNegative ? v >= 0 : g.test == Guard::Test::kZero ? v == 0 : v != 0;
  }
  bool holds(const std::vector<Guard>& guards) {
    for (const Guard& g : guards)
      if (!holds(g)) return false;
    return true;
  }

  // The row-major place of a read; -1 for an element outside of the bounds that counts as 0.
  std::int64_t locate(const Code& c) {
    const Sizes& sizes = operands_.sizes(c.operand);
    std::int64_t at = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const std::int64_t i = index(c.position[d]);
      if (c.checked[d] && (i < 0 || i >= sizes[d])) {
        if (c.zero_outside) return -1;
        throw Error(ErrorCode::kBadInput,
                    "index " + std::to_string(i) + " is outside of an axis of size " + std::to_string(sizes[d]));
      }
      at = at * sizes[d] + i;
    }
    return at;
  }

  std::int64_t apply_integer(const Code& c) {
    if (c.arguments[0]->scalar == Scalar::kReal) {  // a predicate on reals
      Value x[4];
      for (std::size_t i = 0; i < c.arguments.size(); ++i) x[i] = real(*c.arguments[i]);
      return a_.test(*c.function, x);
    }
    if (!c.function->integer)
      throw Error(ErrorCode::kUnsupported, "function " + std::string(c.function->name) + " has no meaning on integers");
    std::int64_t x[4];
    for (std::size_t i = 0; i < c.arguments.size(); ++i) x[i] = integer(*c.arguments[i]);
    return c.function->integer(x);
  }

  // The range of the loop's variable that satisfies its linear guards.
  Interval range(const Code::Loop& loop) {
    std::int64_t low = 0, high = index(loop.bound) - 1;
    std::int64_t& variable = slots[static_cast<std::size_t>(loop.slot)];
    for (const Guard& g : loop.guards) {
      variable = 0;
      const std::int64_t rest = index(g.value), c = g.value.coefficient(loop.slot);  // rest + c * variable
      const auto floor_divide = [](std::int64_t a, std::int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); };
      if (g.test == Guard::Test::kZero) {
        if (rest % c != 0) return {0, -1};
        low = std::max(low, -rest / c);
        high = std::min(high, -rest / c);
      } else if (c > 0) {
        low = std::max(low, -floor_divide(rest, c));
      } else {
        high = std::min(high, floor_divide(rest, -c));
      }
    }
    return {low, high};
  }

  template <class Body>
  void for_each(const Code& c, std::size_t level, std::size_t end, const Body& body) {
    if (level == end) return body();
    const Code::Loop& loop = c.loops[level];
    const Interval r = range(loop);
    for (std::int64_t i = r.low; i <= r.high; ++i) {
      slots[static_cast<std::size_t>(loop.slot)] = i;
      if (holds(loop.late)) for_each(c, level + 1, end, body);
    }
  }

  Value sum_of_products(const Code& c) {
    Value total = a_.zero();
    const Code::Loop& last = c.loops.back();
    for_each(c, 0, c.loops.size() - 1, [&] {
      const Interval r = range(last);
      if (r.low > r.high) return;
      std::int64_t& variable = slots[static_cast<std::size_t>(last.slot)];
      variable = r.low;
      const std::int64_t n = r.high - r.low + 1;
      if (last.late.empty() && c.factors.size() == 2) {
        const auto x = reals(c.factors[0]->operand), y = reals(c.factors[1]->operand);
        const std::int64_t x0 = index(c.factors[0]->offset), y0 = index(c.factors[1]->offset);
        const std::int64_t sx = c.factors[0]->offset.coefficient(last.slot), sy = c.factors[1]->offset.coefficient(last.slot);
        Value part = a_.zero();
        for (std::int64_t i = 0; i < n; ++i) part = accumulated(part, a_.multiply(x[x0 + i * sx], y[y0 + i * sy]));
        total = accumulated(total, part);
        return;
      }
      for (std::int64_t i = 0; i < n; ++i) {
        variable = r.low + i;
        if (!holds(last.late)) continue;
        Value p = factor_value(*c.factors[0]);
        for (std::size_t f = 1; f < c.factors.size(); ++f) p = a_.multiply(p, factor_value(*c.factors[f]));
        total = accumulated(total, p);
      }
    });
    return summed(total);
  }

  // The elements of an operand by place: the operand's array if Operands offers one.
  struct Reals {
    Operands& operands;
    int operand;
    Value operator[](std::int64_t at) const { return operands.real(operand, at); }
  };
  auto reals(int operand) {
    if constexpr (requires { operands_.reals(operand); })
      return operands_.reals(operand);
    else
      return Reals{operands_, operand};
  }

  Value factor_value(const Code& read) { return operands_.real(read.operand, index(read.offset)); }

  // An arithmetic that tracks rounding errors treats sums differently from single additions.
  Value accumulated(const Value& total, const Value& term) {
    if constexpr (requires { a_.accumulate(total, term); })
      return a_.accumulate(total, term);
    else
      return a_.add(total, term);
  }
  Value summed(const Value& total) {
    if constexpr (requires { a_.summed(total); })
      return a_.summed(total);
    else
      return total;
  }

  Value reduce_real(const Code& c) {
    if (!c.factors.empty()) return sum_of_products(c);
    const Code& body = *c.arguments[0];
    Value r = c.reduction == Reduction::kSum       ? a_.zero()
              : c.reduction == Reduction::kProduct ? a_.one()
              : c.reduction == Reduction::kMax     ? a_.lowest()
                                                   : a_.highest();
    for_each(c, 0, c.loops.size(), [&] {
      const Value v = real(body);
      r = c.reduction == Reduction::kSum       ? accumulated(r, v)
          : c.reduction == Reduction::kProduct ? a_.multiply(r, v)
          : c.reduction == Reduction::kMax     ? a_.maximum(r, v)
                                               : a_.minimum(r, v);
    });
    return c.reduction == Reduction::kSum ? summed(r) : r;
  }

  std::int64_t reduce_integer(const Code& c) {
    const Code& body = *c.arguments[0];
    std::uint64_t r = c.reduction == Reduction::kSum       ? 0
                      : c.reduction == Reduction::kProduct ? 1
                      : c.reduction == Reduction::kMax ? static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::min())
                                                       : static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    for_each(c, 0, c.loops.size(), [&] {
      const std::int64_t v = integer(body), old = static_cast<std::int64_t>(r);
      r = c.reduction == Reduction::kSum       ? r + static_cast<std::uint64_t>(v)
          : c.reduction == Reduction::kProduct ? r * static_cast<std::uint64_t>(v)
          : c.reduction == Reduction::kMax     ? static_cast<std::uint64_t>(std::max(old, v))
                                               : static_cast<std::uint64_t>(std::min(old, v));
    });
    return static_cast<std::int64_t>(r);
  }

  // The values of a reduction, one for each combination of its free variables.
  struct Memory {
    std::vector<bool> known;
    std::vector<Value> reals;
    std::vector<std::int64_t> integers;
    std::unordered_map<std::int64_t, std::size_t> places;  // if sparse: position in `reals` or `integers`
  };

  template <class T, class F>
  T remembered(const Code& c, std::vector<T> Memory::*values, const F& compute) {
    if (c.memory < 0) return compute();
    Memory& memory = memories_[static_cast<std::size_t>(c.memory)];
    std::int64_t at = 0, count = 1;
    for (const auto& [slot, size] : c.memory_axes) {
      at = at * size + slots[static_cast<std::size_t>(slot)];
      count *= size;
    }
    if (sparse_) {
      if (const auto found = memory.places.find(at); found != memory.places.end()) return (memory.*values)[found->second];
      const T value = compute();
      memory.places.emplace(at, (memory.*values).size());
      (memory.*values).push_back(value);
      return value;
    }
    if (memory.known.empty()) {
      memory.known.resize(static_cast<std::size_t>(count));
      (memory.*values).resize(static_cast<std::size_t>(count));
    }
    const auto place = static_cast<std::size_t>(at);
    if (!memory.known[place]) {
      (memory.*values)[place] = compute();
      memory.known[place] = true;
    }
    return (memory.*values)[place];
  }

  A a_;
  Operands operands_;
  bool sparse_;
  std::vector<Memory> memories_;
};

}  // namespace rewright
