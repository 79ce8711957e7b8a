// Loops of functions of integers, and conversions between integers and reals.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/cpu/tile/elementwise_impl.h"

namespace rewright::cpu {
namespace {

void divide_integers(I* d, const I* a, const I* b, Count n) {
  by_width(
      a, b, n,
      [=](Count i) {
        const double y = as_double(b[i]);
        d[i] = as_integer(y == 0 ? 0.0 : as_double(a[i]) / y);
      },
      [=](Count i) { d[i] = b[i] == 0    ? I(0)
                            : b[i] == -1 ? I(-std::uint64_t(a[i]))
                                         : a[i] / b[i]; });
}
void floor_divide(I* d, const I* a, const I* b, Count n) {
  by_width(
      a, b, n,
      [=](Count i) {
        const double y = as_double(b[i]);
        d[i] = as_integer(y == 0 ? 0.0 : std::floor(as_double(a[i]) / y));
      },
      [=](Count i) {
        const I x = a[i], y = b[i];
        d[i] = y == 0 ? I(0) : y == -1 ? I(-std::uint64_t(x)) : x / y - (x % y != 0 && (x < 0) != (y < 0));
      });
}
void floor_modulo(I* d, const I* a, const I* b, Count n) {
  by_width(
      a, b, n,
      [=](Count i) {
        const double x = as_double(a[i]), y = as_double(b[i]);
        d[i] = as_integer(y == 0 ? 0.0 : x - std::floor(x / y) * y);
      },
      [=](Count i) {
        const I y = b[i], r = y == 0 || y == -1 ? I(0) : a[i] % y;
        d[i] = r != 0 && (r < 0) != (y < 0) ? r + y : r;
      });
}
void truncated_modulo(I* d, const I* a, const I* b, Count n) {
  by_width(
      a, b, n,
      [=](Count i) {
        const double x = as_double(a[i]), y = as_double(b[i]);
        d[i] = as_integer(y == 0 ? 0.0 : x - std::trunc(x / y) * y);
      },
      [=](Count i) { d[i] = b[i] == 0 || b[i] == -1 ? I(0) : a[i] % b[i]; });
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

void absolute_integers(I* d, const I* a, Count n) {
  map(d, a, n, [](I x) { return x < 0 ? I(-std::uint64_t(x)) : x; });
}
void sign_integers(I* d, const I* a, Count n) {
  map(d, a, n, [](I x) { return I(x > 0) - I(x < 0); });
}
void complement(I* d, const I* a, Count n) {
  map(d, a, n, [](I x) { return ~x; });
}
void logical_xor(I* d, const I* a, const I* b, Count n) {
  zip(d, a, b, n, [](I x, I y) { return I((x != 0) != (y != 0)); });
}
void bit_and(I* d, const I* a, const I* b, Count n) {
  zip(d, a, b, n, [](I x, I y) { return x & y; });
}
void bit_or(I* d, const I* a, const I* b, Count n) {
  zip(d, a, b, n, [](I x, I y) { return x | y; });
}
void bit_xor(I* d, const I* a, const I* b, Count n) {
  zip(d, a, b, n, [](I x, I y) { return x ^ y; });
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
IntegerLoops::Unary find_integer_unary(const Function& f) {
  namespace fn = functions;
  return &f == &fn::abs ? absolute_integers : &f == &fn::sign ? sign_integers : &f == &fn::bit_not ? complement : nullptr;
}
IntegerLoops::Binary find_integer_binary(const Function& f) {
  namespace fn = functions;
  const struct {
    const Function* function;
    IntegerLoops::Binary loop;
  } table[] = {{&fn::integer_divide, divide_integers},
               {&fn::floor_modulo, floor_modulo},
               {&fn::truncated_modulo, truncated_modulo},
               {&fn::pow, power},
               {&fn::logical_xor, logical_xor},
               {&fn::bit_and, bit_and},
               {&fn::bit_or, bit_or},
               {&fn::bit_xor, bit_xor},
               {&fn::shift_left, shift_left},
               {&fn::shift_right, shift_right},
               {&fn::shift_right_unsigned, shift_right_unsigned}};
  for (const auto& entry : table)
    if (entry.function == &f) return entry.loop;
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
void iota(I* d, I start, I step, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = start + i * step;
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
