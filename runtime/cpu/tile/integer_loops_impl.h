// Loops of functions of integers, and conversions between integers and reals.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/cpu/tile/elementwise_impl.h"

namespace rewright::cpu {
namespace {

// Quotients of integers of 8 and 16 bits by vectors of floats, of 32 bits by vectors of double: wrong in no digit before the
// point. Those of 64 bits as by_width has them.
template <class T, class Small, class Large>
inline void by_type(T* d, const T* a, const T* b, Count n, Small small, Large large) {
  if constexpr (sizeof(T) == 8) {
    by_width(
        a, b, n, [=](Count i) { d[i] = as_integer(small(as_double(a[i]), as_double(b[i]))); },
        [=](Count i) { d[i] = large(a[i], b[i]); });
  } else {
    using Real = std::conditional_t<sizeof(T) == 4, double, float>;
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) {
      const Real exact = small(static_cast<Real>(a[i]), static_cast<Real>(b[i]));
      d[i] = static_cast<T>(
          static_cast<std::int32_t>(exact > Real(0x7FFFFFFF) ? Real(-0x80000000LL) : exact));  // -2^31 / -1 wraps
    }
  }
}
template <class T>
void divide_integers(T* d, const T* a, const T* b, Count n) {
  by_type(
      d, a, b, n, [](auto x, auto y) { return y == 0 ? decltype(x)(0) : x / y; },
      [](I x, I y) { return y == 0    ? I(0)
                            : y == -1 ? I(-std::uint64_t(x))
                                      : x / y; });
}
template <class T>
void floor_divide(T* d, const T* a, const T* b, Count n) {
  by_type(
      d, a, b, n, [](auto x, auto y) { return y == 0 ? decltype(x)(0) : std::floor(x / y); },
      [](I x, I y) { return y == 0    ? I(0)
                            : y == -1 ? I(-std::uint64_t(x))
                                      : x / y - (x % y != 0 && (x < 0) != (y < 0)); });
}
template <class T>
void floor_modulo(T* d, const T* a, const T* b, Count n) {
  by_type(
      d, a, b, n, [](auto x, auto y) { return y == 0 ? decltype(x)(0) : x - std::floor(x / y) * y; },
      [](I x, I y) {
        const I r = y == 0 || y == -1 ? I(0) : x % y;
        return r != 0 && (r < 0) != (y < 0) ? r + y : r;
      });
}
template <class T>
void truncated_modulo(T* d, const T* a, const T* b, Count n) {
  by_type(
      d, a, b, n, [](auto x, auto y) { return y == 0 ? decltype(x)(0) : x - std::trunc(x / y) * y; },
      [](I x, I y) { return y == 0 || y == -1 ? I(0) : x % y; });
}
// Squares and products for all elements at once where they have one exponent.
void power(I* d, const I* a, const I* b, Count n) {
  for (Count first = 0; first < n; first += kPart) {
    const Count count = first + kPart < n ? kPart : n - first;
    const I exponent = b[first];
    I other = exponent < 0;
    for (Count i = 0; i < count; ++i) other |= b[first + i] ^ exponent;
    if (other != 0) {
      for (Count i = first; i < first + count; ++i) {
        const I arguments[] = {a[i], b[i]};
        d[i] = functions::pow.integer(arguments);
      }
      continue;
    }
    I factor[kPart], result[kPart];
    for (Count i = 0; i < count; ++i) factor[i] = a[first + i], result[i] = 1;
    for (I e = exponent; e != 0; e >>= 1) {
      if (e & 1)
        for (Count i = 0; i < count; ++i) result[i] = I(std::uint64_t(result[i]) * std::uint64_t(factor[i]));
      if (e > 1)
        for (Count i = 0; i < count; ++i) factor[i] = I(std::uint64_t(factor[i]) * std::uint64_t(factor[i]));
    }
    std::memcpy(d + first, result, count * sizeof(I));
  }
}

template <class T>
void absolute_integers(T* d, const T* a, Count n) {
  map(d, a, n, [](T x) { return T(x < 0 ? -std::uint64_t(x) : std::uint64_t(x)); });
}
template <class T>
void sign_integers(T* d, const T* a, Count n) {
  map(d, a, n, [](T x) { return T(T(x > 0) - T(x < 0)); });
}
template <class T>
void complement(T* d, const T* a, Count n) {
  map(d, a, n, [](T x) { return T(~x); });
}
template <class T>
void logical_xor(T* d, const T* a, const T* b, Count n) {
  zip(d, a, b, n, [](T x, T y) { return T((x != 0) != (y != 0)); });
}
template <class T>
void bit_and(T* d, const T* a, const T* b, Count n) {
  zip(d, a, b, n, [](T x, T y) { return T(x & y); });
}
template <class T>
void bit_or(T* d, const T* a, const T* b, Count n) {
  zip(d, a, b, n, [](T x, T y) { return T(x | y); });
}
template <class T>
void bit_xor(T* d, const T* a, const T* b, Count n) {
  zip(d, a, b, n, [](T x, T y) { return T(x ^ y); });
}
void shift_left(I* d, const I* a, const I* b, Count n) {
  zip(d, a, b, n, [](I x, I y) { return std::uint64_t(y) > 63 ? I(0) : I(std::uint64_t(x) << (y & 63)); });
}
void shift_right(I* d, const I* a, const I* b, Count n) {
  zip(d, a, b, n, [](I x, I y) { return x >> (std::uint64_t(y) > 63 ? 63 : y); });
}
void shift_right_unsigned(I* d, const I* a, const I* b, Count n) {
  zip(d, a, b, n, [](I x, I y) { return std::uint64_t(y) > 63 ? I(0) : I(std::uint64_t(x) >> (y & 63)); });
}
template <class T>
typename IntegerFunctions<T>::Unary find_integer_unary(const Function& f) {
  namespace fn = functions;
  if (&f == &fn::abs) return absolute_integers<T>;
  return &f == &fn::sign ? sign_integers<T> : &f == &fn::bit_not ? complement<T> : nullptr;
}
template <class T>
typename IntegerFunctions<T>::Binary find_integer_binary(const Function& f) {
  namespace fn = functions;
  using Binary = typename IntegerFunctions<T>::Binary;
  const struct {
    const Function* function;
    Binary loop;
  } table[] = {{&fn::integer_divide, divide_integers<T>},
               {&fn::floor_modulo, floor_modulo<T>},
               {&fn::truncated_modulo, truncated_modulo<T>},
               {&fn::logical_xor, logical_xor<T>},
               {&fn::bit_and, bit_and<T>},
               {&fn::bit_or, bit_or<T>},
               {&fn::bit_xor, bit_xor<T>}};
  for (const auto& entry : table)
    if (entry.function == &f) return entry.loop;
  if constexpr (std::is_same_v<T, I>) {
    if (&f == &fn::pow) return power;
    if (&f == &fn::shift_left) return shift_left;
    if (&f == &fn::shift_right) return shift_right;
    if (&f == &fn::shift_right_unsigned) return shift_right_unsigned;
  }
  return nullptr;
}

// 2 * size cannot overflow, since axes are smaller.
bool are_inside(const I* indices, I size, Count n) {
  bool all = true;
  for (Count i = 0; i < n; ++i)
    all &= static_cast<std::uint64_t>(indices[i]) + static_cast<std::uint64_t>(size) < 2 * static_cast<std::uint64_t>(size);
  return all;
}
void positions(I* d, const I* indices, I size, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const I at = indices[i] < 0 ? indices[i] + size : indices[i];
    d[i] = at < 0 || at >= size ? 0 : at;
  }
}
template <class T>
void iota(T* d, I start, I step, Count n) {
  const auto first = static_cast<T>(start), by = static_cast<T>(step);
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = static_cast<T>(first + static_cast<T>(i) * by);
}
// Through 32 bits where they are enough: there are instructions for vectors of these.
template <class R>
void to_integer(I* d, const R* a, Count n) {
  for (Count first = 0; first < n; first += kPart) {
    const Count last = first + kPart < n ? first + kPart : n;
    I outside = 0;
    for (Count i = first; i < last; ++i) outside |= !(std::fabs(a[i]) < R(0x7FFFFF80));
    if (outside == 0) {
#pragma GCC ivdep
      for (Count i = first; i < last; ++i) d[i] = static_cast<std::int32_t>(a[i]);
      continue;
    }
    for (Count i = first; i < last; ++i) {
      const double v = a[i];
      d[i] = v != v ? 0 : v >= 0x1p63 ? std::numeric_limits<I>::max() : v < -0x1p63 ? std::numeric_limits<I>::min() : I(v);
    }
  }
}
void from_narrow(float* d, const std::int32_t* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = static_cast<float>(a[i]);
}
template <class R>
void from_integer(R* d, const I* a, Count n) {
  for (Count first = 0; first < n; first += kPart) {
    const Count last = first + kPart < n ? first + kPart : n;
    if (fit_32_bits(a + first, last - first)) {
#pragma GCC ivdep
      for (Count i = first; i < last; ++i) d[i] = static_cast<R>(static_cast<std::int32_t>(a[i]));
    } else {
#pragma GCC ivdep
      for (Count i = first; i < last; ++i) d[i] = static_cast<R>(a[i]);
    }
  }
}

}  // namespace
}  // namespace rewright::cpu
