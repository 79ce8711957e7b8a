// The arithmetics of denotations: reals as doubles, or as residues modulo a prime. Integers have 64 bits in both.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/hash_mix.h"
#include "expressions/element.h"
#include "operators/readings/interpreter.h"

namespace rewright::operators {

// kChecksPositions: a position outside of its axis is an error. Else it is reduced modulo the size of the axis, so that an
// index of any value has a meaning.
struct DoubleArithmetic {
  static constexpr bool kChecksPositions = true;
  using Value = double;
  Value from(const Real& r) const {
    if (!r.symbol.empty()) throw Error(ErrorCode::kUnsupported, "the parameter " + r.symbol + " has no value");
    return r.value;
  }
  Value from_integer(std::int64_t v) const { return static_cast<double>(v); }
  std::int64_t to_integer(Value v) const {
    if (std::isnan(v)) return 0;
    if (v >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
    if (v < -0x1p63) return std::numeric_limits<std::int64_t>::min();
    return static_cast<std::int64_t>(v);
  }
  bool to_boolean(Value v) const { return v != 0; }
  Value zero() const { return 0; }
  Value one() const { return 1; }
  Value lowest() const { return -std::numeric_limits<double>::infinity(); }
  Value highest() const { return std::numeric_limits<double>::infinity(); }
  Value add(Value a, Value b) const { return a + b; }
  Value multiply(Value a, Value b) const { return a * b; }
  Value divide(Value a, Value b) const { return a / b; }
  Value maximum(Value a, Value b) const { return std::isnan(a) || a > b ? a : b; }
  Value minimum(Value a, Value b) const { return std::isnan(a) || a < b ? a : b; }
  Value apply(const Function& f, const Value* x) const {
    if (!f.real) throw Error(ErrorCode::kUnsupported, "function " + std::string(f.name) + " has no meaning on reals");
    return f.real(x);
  }
  bool test(const Function& f, const Value* x) const { return apply(f, x) != 0; }
};

struct FieldArithmetic {
  static constexpr bool kChecksPositions = false;
  using Value = std::uint64_t;
  // Two values outside of the field represent the infinities, the neutral elements of max and min.
  static constexpr Value kLowest = kFieldPrime, kHighest = kFieldPrime + 1;
  std::uint64_t key;

  // splitmix64's finalizer, which spreads better than base/hash_mix.h: these numbers order maxima, and fingerprints in the
  // generator's files hold them.
  static std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
    h ^= v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
    return h ^ (h >> 31);
  }
  static Value reduce(std::uint64_t v) {
    v = (v & kFieldPrime) + (v >> 61);
    return v >= kFieldPrime ? v - kFieldPrime : v;
  }
  Value from_integer(std::int64_t v) const {
    return v >= 0 ? reduce(static_cast<std::uint64_t>(v)) : negate(reduce(-static_cast<std::uint64_t>(v)));
  }
  static Value negate(Value a) { return a == 0 ? 0 : kFieldPrime - a; }
  Value from(const Real& r) const {
    if (r.symbol.empty()) {
      if (r.value == -std::numeric_limits<double>::infinity()) return kLowest;
      if (r.value == std::numeric_limits<double>::infinity()) return kHighest;
      if (std::fabs(r.value) < 0x1p60 && r.value == std::floor(r.value))
        return from_integer(static_cast<std::int64_t>(r.value));
      // Every finite double is a dyadic fraction and becomes its exact residue: 0.5 + 0.5 must be 1.
      int exponent;
      const double mantissa = std::frexp(r.value, &exponent);
      if (std::isfinite(r.value)) {
        const Value numerator = from_integer(static_cast<std::int64_t>(std::ldexp(mantissa, 53)));
        const int shift = exponent - 53;
        const Value two = power(2, static_cast<std::uint64_t>(std::abs(shift)));
        return multiply(numerator, shift < 0 ? inverse(two) : two);
      }
      return mix(key, 0x7ff8) % kFieldPrime;
    }
    return mix(key, hash_text(r.symbol)) % kFieldPrime;
  }
  std::int64_t to_integer(Value v) const { return static_cast<std::int64_t>(mix(key, v) >> 48); }
  bool to_boolean(Value v) const { return v != 0; }
  Value zero() const { return 0; }
  Value one() const { return 1; }
  Value lowest() const { return kLowest; }
  Value highest() const { return kHighest; }
  bool finite(Value a, Value b) const { return a < kFieldPrime && b < kFieldPrime; }
  Value outside(std::uint64_t op, Value a, Value b) const {
    return mix(mix(key ^ op, std::min(a, b)), std::max(a, b)) % kFieldPrime;
  }
  Value add(Value a, Value b) const {
    if (!finite(a, b)) return outside(1, a, b);
    a += b;
    return a >= kFieldPrime ? a - kFieldPrime : a;
  }
  Value multiply(Value a, Value b) const {
    if (!finite(a, b)) return outside(2, a, b);
    const unsigned __int128 m = static_cast<unsigned __int128>(a) * b;
    const std::uint64_t r = static_cast<std::uint64_t>(m & kFieldPrime) + static_cast<std::uint64_t>(m >> 61);
    return r >= kFieldPrime ? r - kFieldPrime : r;
  }
  Value power(Value a, std::uint64_t e) const {
    Value r = 1;
    for (; e; e >>= 1, a = multiply(a, a))
      if (e & 1) r = multiply(r, a);
    return r;
  }
  Value inverse(Value a) const { return a == 0 ? mix(key, 0xd1) % kFieldPrime : power(a, kFieldPrime - 2); }
  Value divide(Value a, Value b) const { return finite(a, b) ? multiply(a, inverse(b)) : outside(3, a, b); }
  // A keyed order in which the two infinities are lowest and highest: max and min are associative, commutative, idempotent.
  bool before(Value a, Value b) const {
    if (a == b) return false;
    if (a == kLowest || b == kHighest) return true;
    if (b == kLowest || a == kHighest) return false;
    const auto x = mix(key ^ 0x0d0d, a), y = mix(key ^ 0x0d0d, b);
    return x != y ? x < y : a < b;
  }
  Value maximum(Value a, Value b) const { return before(a, b) ? b : a; }
  Value minimum(Value a, Value b) const { return before(a, b) ? a : b; }
  Value apply(const Function& f, const Value* x) const {
    if (f.zero_at_zero && f.arity == 1 && x[0] == 0) return 0;
    std::uint64_t h = mix(key, hash_text(f.name));
    if (f.commutative && x[1] < x[0]) return mix(mix(h, x[1]), x[0]) % kFieldPrime;
    for (int i = 0; i < f.arity; ++i) h = mix(h, x[i]);
    return h % kFieldPrime;
  }
  bool test(const Function& f, const Value* x) const {
    if (&f == &functions::equal) return x[0] == x[1];
    if (&f == &functions::less) return before(x[0], x[1]);
    if (&f == &functions::less_equal) return !before(x[1], x[0]);
    if (&f == &functions::is_nan || &f == &functions::is_infinite) return x[0] >= kFieldPrime && &f == &functions::is_infinite;
    return (apply(f, x) & 1) != 0;
  }
};

}  // namespace rewright::operators
