// The loops of loops.h; see rewright_loops in CMakeLists.txt. The compiler vectorizes plain loops; elementary functions are
// SLEEF's, except exp, sigmoid, tanh and erf on floats, which are hot and have short polynomials.
#include <immintrin.h>
#include <sleef.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "expressions/power_of_two.h"
#include "expressions/tensor.h"
#include "runtime/cpu/base/error_function_impl.h"
#include "runtime/cpu/base/transpose_impl.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {
namespace {

using I = std::int64_t;

template <class T, class F>
inline void zip(T* d, const T* a, const T* b, Count n, F f) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = f(a[i], b[i]);
}
template <class T>
void add(T* d, const T* a, const T* b, Count n) {
  if constexpr (std::is_integral_v<T>)
    zip(d, a, b, n, [](T x, T y) { return T(std::uint64_t(x) + std::uint64_t(y)); });
  else
    zip(d, a, b, n, [](T x, T y) { return x + y; });
}
template <class T>
void subtract(T* d, const T* a, const T* b, Count n) {
  if constexpr (std::is_integral_v<T>)
    zip(d, a, b, n, [](T x, T y) { return T(std::uint64_t(x) - std::uint64_t(y)); });
  else
    zip(d, a, b, n, [](T x, T y) { return x - y; });
}
template <class T>
void multiply(T* d, const T* a, const T* b, Count n) {
  if constexpr (std::is_integral_v<T>)
    zip(d, a, b, n, [](T x, T y) { return T(std::uint64_t(x) * std::uint64_t(y)); });
  else
    zip(d, a, b, n, [](T x, T y) { return x * y; });
}
// Are all values above -2^31 and below 2^31?
inline bool fit_32_bits(const I* a, Count n) {
  I outside = 0;
  for (Count i = 0; i < n; ++i) outside |= (a[i] > 0x7FFFFFFF) | (a[i] < -0x7FFFFFFF);
  return outside == 0;
}
// Calls small(i) for elements whose operands fit into 32 bits and large(i) for others, part by part: there are no vectors of
// quotients of integers, but quotients of such integers in double are wrong in no digit before the point.
constexpr Count kPart = 256;
template <class Small, class Large>
inline void by_width(const I* a, const I* b, Count n, Small small, Large large) {
  for (Count first = 0; first < n; first += kPart) {
    const Count last = first + kPart < n ? first + kPart : n;
    if (fit_32_bits(a + first, last - first) && fit_32_bits(b + first, last - first)) {
#pragma GCC ivdep
      for (Count i = first; i < last; ++i) small(i);
    } else {
      for (Count i = first; i < last; ++i) large(i);
    }
  }
}
inline double as_double(I v) { return static_cast<std::int32_t>(v); }
inline I as_integer(double v) { return static_cast<std::int32_t>(v); }

template <class T>
void divide(T* d, const T* a, const T* b, Count n) {
  if constexpr (std::is_integral_v<T>)
    by_width(
        a, b, n,
        [=](Count i) {
          const double y = as_double(b[i]);
          d[i] = as_integer(y == 0 ? 0.0 : as_double(a[i]) / y);
        },
        [=](Count i) { d[i] = b[i] == 0    ? I(0)
                              : b[i] == -1 ? I(-std::uint64_t(a[i]))
                                           : a[i] / b[i]; });
  else
    zip(d, a, b, n, [](T x, T y) { return x / y; });
}
template <class T>
void maximum(T* d, const T* a, const T* b, Count n) {
  zip(d, a, b, n, [](T x, T y) { return x > y || x != x ? x : y; });
}
template <class T>
void minimum(T* d, const T* a, const T* b, Count n) {
  zip(d, a, b, n, [](T x, T y) { return x < y || x != x ? x : y; });
}
template <class T>
void multiply_add(T* d, const T* a, const T* b, const T* c, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = a[i] * b[i] + c[i];
}
void multiply_add_integers(I* d, const I* a, const I* b, const I* c, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = I(std::uint64_t(a[i]) * std::uint64_t(b[i]) + std::uint64_t(c[i]));
}
template <class T>
void select(T* d, const I* condition, const T* a, const T* b, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = condition[i] ? a[i] : b[i];
}
template <class T>
void fill(T* d, T value, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = value;
}

// Reductions keep kLanes partial results, so that they vectorize and do not depend on the instruction set.
constexpr Count kLanes = 32;
template <class T, class F>
inline T fold(const T* a, Count n, T identity, F f) {
  T lanes[kLanes];
  for (T& lane : lanes) lane = identity;
  Count i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (Count l = 0; l < kLanes; ++l) lanes[l] = f(lanes[l], a[i + l]);
  for (Count l = 0; i < n; ++i, ++l) lanes[l] = f(lanes[l], a[i]);
  for (Count width = kLanes / 2; width > 0; width /= 2)
    for (Count l = 0; l < width; ++l) lanes[l] = f(lanes[l], lanes[l + width]);
  return lanes[0];
}
template <class T>
T sum(const T* a, Count n) {
  if constexpr (std::is_integral_v<T>)
    return fold(a, n, T(0), [](T x, T y) { return T(std::uint64_t(x) + std::uint64_t(y)); });
  else
    return fold(a, n, T(0), [](T x, T y) { return x + y; });
}
template <class T>
T product(const T* a, Count n) {
  if constexpr (std::is_integral_v<T>)
    return fold(a, n, T(1), [](T x, T y) { return T(std::uint64_t(x) * std::uint64_t(y)); });
  else
    return fold(a, n, T(1), [](T x, T y) { return x * y; });
}
template <class T>
T largest(const T* a, Count n) {
  return fold(a, n, a[0], [](T x, T y) { return x > y || x != x ? x : y; });
}
template <class T>
T smallest(const T* a, Count n) {
  return fold(a, n, a[0], [](T x, T y) { return x < y || x != x ? x : y; });
}

// Calls f with a value of the C++ type of a tensor's elements; half types are std::uint16_t with a converter.
// They are converted here and not by half_to_float and its like, whose calls the compiler does not vectorize.
struct HalfBits {
  std::uint16_t bits;
  HalfBits() = default;
#ifdef __F16C__
  operator float() const { return _cvtsh_ss(bits); }
  explicit HalfBits(float v) : bits(_cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT)) {}
#else
  operator float() const { return half_to_float(bits); }
  explicit HalfBits(float v) : bits(float_to_half(v)) {}
#endif
};
struct Bfloat16Bits {
  std::uint16_t bits;
  operator float() const { return std::bit_cast<float>(std::uint32_t(bits) << 16); }
  Bfloat16Bits() = default;
  explicit Bfloat16Bits(float v) {
    const auto b = std::bit_cast<std::uint32_t>(v);
    const std::uint32_t rounded = b + 0x7fffu + ((b >> 16) & 1u);
    bits = static_cast<std::uint16_t>((v != v ? b | 0x400000u : rounded) >> 16);
  }
};
template <class F>
inline void with_type(DataType type, F f) {
  switch (type) {
    case DataType::kFloat:
      return f(float());
    case DataType::kDouble:
      return f(double());
    case DataType::kHalf:
      return f(HalfBits());
    case DataType::kBfloat16:
      return f(Bfloat16Bits());
    case DataType::kUint8:
      return f(std::uint8_t());
    case DataType::kBool:
      return f(bool());
    case DataType::kInt8:
      return f(std::int8_t());
    case DataType::kUint16:
      return f(std::uint16_t());
    case DataType::kInt16:
      return f(std::int16_t());
    case DataType::kUint32:
      return f(std::uint32_t());
    case DataType::kInt32:
      return f(std::int32_t());
    case DataType::kUint64:
    case DataType::kInt64:
      return f(std::int64_t());
    default:
      return;
  }
}

template <class T, class S>
inline T converted(S value) {
  if constexpr (std::is_same_v<S, HalfBits> || std::is_same_v<S, Bfloat16Bits>)
    return static_cast<T>(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, HalfBits> || std::is_same_v<T, Bfloat16Bits>)
    return T(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, bool>)
    return value != 0;
  else
    return static_cast<T>(value);
}
// Contiguous halves, as many as fill vectors; returns how many. The rest is converted one by one.
inline Count load_halves([[maybe_unused]] float* d, [[maybe_unused]] const HalfBits* s, [[maybe_unused]] Count n) {
  Count i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i))));
#endif
  return i;
}
inline Count store_halves([[maybe_unused]] HalfBits* d, [[maybe_unused]] const float* a, [[maybe_unused]] Count n) {
  Count i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(a + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  return i;
}

template <class T>
void load(T* d, const void* source, DataType type, Count stride, Count n) {
  with_type(type, [&](auto zero) {
    using S = decltype(zero);
    const S* s = static_cast<const S*>(source);
    if (stride == 0) {
      const T value = converted<T>(*s);
#pragma GCC ivdep
      for (Count i = 0; i < n; ++i) d[i] = value;
    } else if (stride == 1) {
      if constexpr (std::is_same_v<S, T>)
        std::memcpy(d, s, n * sizeof(T));
      else {
        Count i = 0;
        if constexpr (std::is_same_v<S, HalfBits> && std::is_same_v<T, float>) i = load_halves(d, s, n);
#pragma GCC ivdep
        for (; i < n; ++i) d[i] = converted<T>(s[i]);
      }
    } else if (stride == 2) {  // with a constant stride the compiler uses shuffles
#pragma GCC ivdep
      for (Count i = 0; i < n; ++i) d[i] = converted<T>(s[i * 2]);
    } else {
#pragma GCC ivdep
      for (Count i = 0; i < n; ++i) d[i] = converted<T>(s[i * stride]);
    }
  });
}
template <class T>
void store(void* destination, DataType type, Count stride, const T* a, Count n) {
  with_type(type, [&](auto zero) {
    using D = decltype(zero);
    D* d = static_cast<D*>(destination);
    if (stride == 1) {
      if constexpr (std::is_same_v<D, T>)
        std::memcpy(d, a, n * sizeof(T));
      else {
        Count i = 0;
        if constexpr (std::is_same_v<D, HalfBits> && std::is_same_v<T, float>) i = store_halves(d, a, n);
#pragma GCC ivdep
        for (; i < n; ++i) d[i] = converted<D>(a[i]);
      }
    } else {
#pragma GCC ivdep
      for (Count i = 0; i < n; ++i) d[i * stride] = converted<D>(a[i]);
    }
  });
}
template <class T>
void gather(T* d, const void* source, DataType type, const I* offsets, Count n) {
  with_type(type, [&](auto zero) {
    using S = decltype(zero);
    const S* s = static_cast<const S*>(source);
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) d[i] = converted<T>(s[offsets[i]]);
  });
}

template <class T>
bool gather_axis(T* d, const void* source, DataType type, const I* indices, I size, Count apart, Count step, Count n) {
  bool inside = true;
  with_type(type, [&](auto zero) {
    using S = decltype(zero);
    const S* const s = static_cast<const S*>(source);
    const auto read = [&](auto address) {
      std::uint64_t outside = 0;
#pragma GCC ivdep
      for (Count i = 0; i < n; ++i) {
        const I at = indices[i] < 0 ? indices[i] + size : indices[i];
        const bool here = static_cast<std::uint64_t>(at) < static_cast<std::uint64_t>(size);
        outside |= here ? 0 : 1;
        d[i] = converted<T>(s[address(here ? at : 0, i)]);
      }
      inside = outside == 0;
    };
    if (apart == 1 && step == 0)
      read([](I at, Count) { return at; });
    else
      read([=](I at, Count i) { return at * apart + i * step; });
  });
  return inside;
}

// Copies vectors of known size: calling memcpy takes as long as copying a short row.
constexpr Count kAhead = 8;  // rows
template <class T>
void gather_rows(T* d, const T* source, const I* starts, Count rows, Count n) {
  constexpr Count kWidth = REWRIGHT_VECTOR_BYTES;
  const Count bytes = n * static_cast<Count>(sizeof(T));
  if (bytes < kWidth) {
    for (Count r = 0; r < rows; ++r)
      for (Count e = 0; e < n; ++e) d[r * n + e] = source[starts[r] + e];
    return;
  }
  for (Count r = 0; r < rows; ++r) {
    const auto* const s = reinterpret_cast<const unsigned char*>(source + starts[r]);
    auto* const to = reinterpret_cast<unsigned char*>(d + r * n);
    if (r + kAhead < rows) __builtin_prefetch(source + starts[r + kAhead]);
    Count b = 0;
    for (; b + kWidth <= bytes; b += kWidth) __builtin_memcpy(to + b, s + b, kWidth);
    if (b < bytes)  // overlaps the previous one
      __builtin_memcpy(to + bytes - kWidth, s + bytes - kWidth, kWidth);
  }
}

template <class T, class F>
inline void combine_rows(T* y, const I* to, const T* x, const I* from, Count rows, Count n, F f) {
  if (n == 1) {
    for (Count r = 0; r < rows; ++r) y[to[r]] = f(y[to[r]], x[from[r]]);
    return;
  }
  for (Count r = 0; r < rows; ++r) {
    T* const d = y + to[r];
    const T* const s = x + from[r];
    if (r + kAhead < rows) __builtin_prefetch(y + to[r + kAhead]);
    zip(d, d, s, n, f);
  }
}
template <class T>
void scatter_rows(Combination how, T* y, const I* to, const T* x, const I* from, Count rows, Count n) {
  switch (how) {
    case Combination::kReplace:
      return combine_rows(y, to, x, from, rows, n, [](T, T b) { return b; });
    case Combination::kAdd:
      return combine_rows(y, to, x, from, rows, n, [](T a, T b) {
        if constexpr (std::is_integral_v<T>) return T(std::uint64_t(a) + std::uint64_t(b));
        return T(a + b);
      });
    case Combination::kMultiply:
      return combine_rows(y, to, x, from, rows, n, [](T a, T b) {
        if constexpr (std::is_integral_v<T>) return T(std::uint64_t(a) * std::uint64_t(b));
        return T(a * b);
      });
    case Combination::kMaximum:
      return combine_rows(y, to, x, from, rows, n, [](T a, T b) { return a < b ? b : a; });
    case Combination::kMinimum:
      return combine_rows(y, to, x, from, rows, n, [](T a, T b) { return b < a ? b : a; });
  }
}
template <class T, class F>
inline void accumulate(T* y, typename Arithmetic<T>::Total* totals, bool exclusive, Count n, F f) {
  if (exclusive) {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) {
      const auto before = totals[i];
      totals[i] = f(before, y[i]);
      y[i] = static_cast<T>(before);
    }
  } else {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) {
      totals[i] = f(totals[i], y[i]);
      y[i] = static_cast<T>(totals[i]);
    }
  }
}
template <class T>
void run_on(T* y, typename Arithmetic<T>::Total* totals, bool product, bool exclusive, Count n) {
  using Total = typename Arithmetic<T>::Total;
  if constexpr (std::is_integral_v<T>) {
    if (product) return accumulate(y, totals, exclusive, n, [](I a, I b) { return I(std::uint64_t(a) * std::uint64_t(b)); });
    return accumulate(y, totals, exclusive, n, [](I a, I b) { return I(std::uint64_t(a) + std::uint64_t(b)); });
  } else {
    if (product) return accumulate(y, totals, exclusive, n, [](Total a, T b) { return a * Total(b); });
    return accumulate(y, totals, exclusive, n, [](Total a, T b) { return a + Total(b); });
  }
}
template <class T, class F>
inline void replace_best(T* best, I* where, const T* x, I position, Count n, F better) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const T a = x[i], b = best[i];
    const bool is_better = better(a, b) | ((a != a) & (b == b));
    best[i] = is_better ? a : b;
    where[i] = is_better ? position : where[i];
  }
}
template <class T>
void find_best(T* best, I* where, const T* x, I position, bool largest, bool last, Count n) {
  if (largest && last) return replace_best(best, where, x, position, n, [](T a, T b) { return a >= b; });
  if (largest) return replace_best(best, where, x, position, n, [](T a, T b) { return a > b; });
  if (last) return replace_best(best, where, x, position, n, [](T a, T b) { return a <= b; });
  replace_best(best, where, x, position, n, [](T a, T b) { return a < b; });
}
template <class T>
void compare_equal(I* d, const T* a, const T* b, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = a[i] == b[i];
}
template <class T>
void compare_less(I* d, const T* a, const T* b, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = a[i] < b[i];
}
template <class T>
void compare_less_equal(I* d, const T* a, const T* b, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = a[i] <= b[i];
}

template <class T>
constexpr void set_arithmetic(Arithmetic<T>& t) {
  t.add = add<T>;
  t.subtract = subtract<T>;
  t.multiply = multiply<T>;
  t.divide = divide<T>;
  t.maximum = maximum<T>;
  t.minimum = minimum<T>;
  if constexpr (std::is_integral_v<T>)
    t.multiply_add = multiply_add_integers;
  else
    t.multiply_add = multiply_add<T>;
  t.select = select<T>;
  t.fill = fill<T>;
  t.sum = sum<T>;
  t.product = product<T>;
  t.largest = largest<T>;
  t.smallest = smallest<T>;
  t.load = load<T>;
  t.store = store<T>;
  t.gather = gather<T>;
  t.gather_axis = gather_axis<T>;
  t.gather_rows = gather_rows<T>;
  t.scatter_rows = scatter_rows<T>;
  t.run_on = run_on<T>;
  t.find_best = find_best<T>;
  t.compare_equal = compare_equal<T>;
  t.compare_less = compare_less<T>;
  t.compare_less_equal = compare_less_equal<T>;
}

// ---- Integers
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

template <class F>
inline void map(I* d, const I* a, Count n, F f) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = f(a[i]);
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
  } table[] = {{&fn::integer_divide, divide<I>},
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

// ---- Functions of floats. exp(x) = 2^k * exp(r), |r| <= ln(2) / 2; the polynomial is Cephes' expf. 2^k is applied in two
// halves, so that subnormal results and those next to the largest float are correct.
inline float exp_float(float x) {
  const float clamped = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;  // NaN passes
  const float shifted = clamped * 1.44269504088896341f + 12582912.0f;   // 1.5 * 2^23: rounds to an integer
  const float k = shifted - 12582912.0f;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - 0x4B400000;
  const float r = (clamped - k * 0.693359375f) - k * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const std::int32_t half = exponent >> 1;
  const float scale1 = std::bit_cast<float>((half + 127) << 23);
  const float scale2 = std::bit_cast<float>((exponent - half + 127) << 23);
  return p * scale1 * scale2;
}
void exp_f32(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = exp_float(a[i]);
}
void sigmoid_f32(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = 1.0f / (1.0f + exp_float(-a[i]));
}
// Near 0 an odd polynomial (Cephes' tanhf), elsewhere 1 - 2 / (exp(2|x|) + 1).
void tanh_f32(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const float x = a[i];
    const float magnitude = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu);
    const float far = 1.0f - 2.0f / (exp_float(2.0f * magnitude) + 1.0f);
    const float signed_far =
        std::bit_cast<float>(std::bit_cast<std::uint32_t>(far) | (std::bit_cast<std::uint32_t>(x) & 0x80000000u));
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float near = p * z * x + x;
    d[i] = magnitude < 0.625f ? near : signed_far;
  }
}

void erf_f32(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const float x = a[i];
    const float inside = error_function_within(x < -4.0f ? -4.0f : x > 4.0f ? 4.0f : x);  // NaN passes
    d[i] = x > 3.925f ? 1.0f : x < -3.925f ? -1.0f : inside;
  }
}

template <class R>
void absolute(R* d, const R* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = std::fabs(a[i]);
}
template <class R>
void sign(R* d, const R* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = a[i] > 0 ? R(1) : a[i] < 0 ? R(-1) : a[i];
}
template <class R>
void square_root(R* d, const R* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = std::sqrt(a[i]);
}
template <class R>
void inverse_square_root(R* d, const R* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = R(1) / std::sqrt(a[i]);
}
template <class R>
void round_even(R* d, const R* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = std::nearbyint(a[i]);
}
template <class R>
void round_down(R* d, const R* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = std::floor(a[i]);
}
template <class R>
void round_up(R* d, const R* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = std::ceil(a[i]);
}
template <class R>
void is_nan(I* d, const R* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = a[i] != a[i];
}
template <class R>
void is_infinite(I* d, const R* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = std::fabs(a[i]) == std::numeric_limits<R>::infinity();
}
// The remainder x - q * y with an integer q: towards zero, or rounded down. Quotients of floats below 2^24 are exact enough in
// double to be rounded, and their products exact.
template <bool kDown>
void modulo_f32(float* d, const float* a, const float* b, Count n) {
  for (Count first = 0; first < n; first += kPart) {
    const Count last = first + kPart < n ? first + kPart : n;
    I outside = 0;
    for (Count i = first; i < last; ++i)
      outside |= !(std::fabs(double(a[i])) < 0x1p24 * std::fabs(double(b[i])) && std::fabs(b[i]) < 0x1p127f);
    if (outside != 0) {
      const Function& f = kDown ? functions::floor_modulo : functions::truncated_modulo;
      for (Count i = first; i < last; ++i) {
        const double arguments[] = {a[i], b[i]};
        d[i] = static_cast<float>(f.real(arguments));
      }
      continue;
    }
#pragma GCC ivdep
    for (Count i = first; i < last; ++i) {
      const double x = a[i], y = b[i];
      const double r = x - (kDown ? std::floor(x / y) : std::trunc(x / y)) * y;
      d[i] = static_cast<float>(std::copysign(r, kDown ? y : x));
    }
  }
}
template <class R>
void nearest_float(R* d, const R* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = static_cast<float>(a[i]);
}
template <class R, class F>
inline void choose(R* d, const R* x, const R* y, const R* a, const R* b, Count n, F holds) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const R yes = a[i], no = b[i];
    d[i] = holds(x[i], y[i]) ? yes : no;
  }
}
template <class R>
void select_equal(R* d, const R* x, const R* y, const R* a, const R* b, Count n) {
  choose(d, x, y, a, b, n, [](R p, R q) { return p == q; });
}
template <class R>
void select_less(R* d, const R* x, const R* y, const R* a, const R* b, Count n) {
  choose(d, x, y, a, b, n, [](R p, R q) { return p < q; });
}
template <class R>
void select_less_equal(R* d, const R* x, const R* y, const R* a, const R* b, Count n) {
  choose(d, x, y, a, b, n, [](R p, R q) { return p <= q; });
}
template <class R>
void power_of_two(R* d, const R* a, Count n) {
  using Bits = std::conditional_t<sizeof(R) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<R>::infinity());
  constexpr R kUp = R(0x1p64), kDown = R(0x1p-64);  // subnormal numbers are scaled to normal ones
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const R x = std::fabs(a[i]), scaled = x < std::numeric_limits<R>::min() ? x * kUp : x;
    const R power = std::bit_cast<R>(std::bit_cast<Bits>(scaled) & kExponent);
    d[i] = x != x ? x : x < std::numeric_limits<R>::min() ? power * kDown : power;
  }
}

#if REWRIGHT_VECTOR_BYTES == 64
#define REWRIGHT_SLEEF_F32(name, bound) Sleef_##name##f16_##bound##avx512f
#define REWRIGHT_SLEEF_F64(name, bound) Sleef_##name##d8_##bound##avx512f
#define REWRIGHT_VECTOR_F32 __m512
#define REWRIGHT_VECTOR_F64 __m512d
#define REWRIGHT_LOAD_F32 _mm512_loadu_ps
#define REWRIGHT_LOAD_F64 _mm512_loadu_pd
#define REWRIGHT_STORE_F32 _mm512_storeu_ps
#define REWRIGHT_STORE_F64 _mm512_storeu_pd
#elif REWRIGHT_VECTOR_BYTES == 32
#define REWRIGHT_SLEEF_F32(name, bound) Sleef_##name##f8_##bound##avx2
#define REWRIGHT_SLEEF_F64(name, bound) Sleef_##name##d4_##bound##avx2
#define REWRIGHT_VECTOR_F32 __m256
#define REWRIGHT_VECTOR_F64 __m256d
#define REWRIGHT_LOAD_F32 _mm256_loadu_ps
#define REWRIGHT_LOAD_F64 _mm256_loadu_pd
#define REWRIGHT_STORE_F32 _mm256_storeu_ps
#define REWRIGHT_STORE_F64 _mm256_storeu_pd
#else
#define REWRIGHT_SLEEF_F32(name, bound) Sleef_##name##f4_##bound##sse2
#define REWRIGHT_SLEEF_F64(name, bound) Sleef_##name##d2_##bound##sse2
#define REWRIGHT_VECTOR_F32 __m128
#define REWRIGHT_VECTOR_F64 __m128d
#define REWRIGHT_LOAD_F32 _mm_loadu_ps
#define REWRIGHT_LOAD_F64 _mm_loadu_pd
#define REWRIGHT_STORE_F32 _mm_storeu_ps
#define REWRIGHT_STORE_F64 _mm_storeu_pd
#endif

// A loop over a SLEEF function; the last vector is padded.
#define REWRIGHT_SLEEF_LOOP_OF(T, S, name, bound)                                                                              \
  void sleef_##name(T* d, const T* a, Count n) {                                                                               \
    constexpr Count kWidth = sizeof(REWRIGHT_VECTOR_##S) / sizeof(T);                                                          \
    Count i = 0;                                                                                                               \
    for (; i + kWidth <= n; i += kWidth) REWRIGHT_STORE_##S(d + i, REWRIGHT_SLEEF_##S(name, bound)(REWRIGHT_LOAD_##S(a + i))); \
    if (i == n) return;                                                                                                        \
    T rest[kWidth] = {};                                                                                                       \
    std::memcpy(rest, a + i, (n - i) * sizeof(T));                                                                             \
    REWRIGHT_STORE_##S(rest, REWRIGHT_SLEEF_##S(name, bound)(REWRIGHT_LOAD_##S(rest)));                                        \
    std::memcpy(d + i, rest, (n - i) * sizeof(T));                                                                             \
  }
#define REWRIGHT_SLEEF_LOOP(name, bound)          \
  REWRIGHT_SLEEF_LOOP_OF(float, F32, name, bound) \
  REWRIGHT_SLEEF_LOOP_OF(double, F64, name, bound)
REWRIGHT_SLEEF_LOOP_OF(double, F64, exp, u10)
REWRIGHT_SLEEF_LOOP_OF(double, F64, tanh, u10)
REWRIGHT_SLEEF_LOOP(log, u10)
REWRIGHT_SLEEF_LOOP_OF(double, F64, erf, u10)
REWRIGHT_SLEEF_LOOP(asin, u10)
REWRIGHT_SLEEF_LOOP(acos, u10)
REWRIGHT_SLEEF_LOOP(atan, u10)
REWRIGHT_SLEEF_LOOP(sinh, u10)
REWRIGHT_SLEEF_LOOP(cosh, u10)
REWRIGHT_SLEEF_LOOP(asinh, u10)
REWRIGHT_SLEEF_LOOP(acosh, u10)
REWRIGHT_SLEEF_LOOP(atanh, u10)
REWRIGHT_SLEEF_LOOP(sin, u10)
REWRIGHT_SLEEF_LOOP(cos, u10)
REWRIGHT_SLEEF_LOOP(tan, u10)
REWRIGHT_SLEEF_LOOP(log1p, u10)

#define REWRIGHT_SLEEF_POWER(T, S)                                                                                 \
  void sleef_power(T* d, const T* a, const T* b, Count n) {                                                        \
    constexpr Count kWidth = sizeof(REWRIGHT_VECTOR_##S) / sizeof(T);                                              \
    Count i = 0;                                                                                                   \
    for (; i + kWidth <= n; i += kWidth)                                                                           \
      REWRIGHT_STORE_##S(d + i, REWRIGHT_SLEEF_##S(pow, u10)(REWRIGHT_LOAD_##S(a + i), REWRIGHT_LOAD_##S(b + i))); \
    if (i == n) return;                                                                                            \
    T base[kWidth] = {}, exponent[kWidth] = {};                                                                    \
    std::memcpy(base, a + i, (n - i) * sizeof(T));                                                                 \
    std::memcpy(exponent, b + i, (n - i) * sizeof(T));                                                             \
    REWRIGHT_STORE_##S(base, REWRIGHT_SLEEF_##S(pow, u10)(REWRIGHT_LOAD_##S(base), REWRIGHT_LOAD_##S(exponent)));  \
    std::memcpy(d + i, base, (n - i) * sizeof(T));                                                                 \
  }
REWRIGHT_SLEEF_POWER(float, F32)
REWRIGHT_SLEEF_POWER(double, F64)

// max(x, 0) + log(1 + exp(-|x|))
template <class R>
void softplus(R* d, const R* a, Count n) {
  for (Count first = 0; first < n; first += kPart) {
    const Count count = first + kPart < n ? kPart : n - first;
    R small[kPart];
    for (Count i = 0; i < count; ++i) small[i] = -std::fabs(a[first + i]);
    if constexpr (std::is_same_v<R, float>)
      exp_f32(small, small, count);
    else
      sleef_exp(small, small, count);
    sleef_log1p(small, small, count);
#pragma GCC ivdep
    for (Count i = 0; i < count; ++i) d[first + i] = (a[first + i] < 0 ? R(0) : a[first + i]) + small[i];
  }
}

void sigmoid_f64(double* d, const double* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = -a[i];
  sleef_exp(d, d, n);
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = 1.0 / (1.0 + d[i]);
}

// Few columns, or contiguous rows: with a constant count the compiler uses shuffles.
template <Count kColumns, class R>
void interleave(R* d, const R* s, Count stride, Count rows) {
#pragma GCC ivdep
  for (Count r = 0; r < rows; ++r)
    for (Count c = 0; c < kColumns; ++c) d[r * kColumns + c] = s[r + c * stride];
}
template <Count kRows, class R>
void separate(R* d, const R* s, Count columns) {
#pragma GCC ivdep
  for (Count c = 0; c < columns; ++c)
    for (Count r = 0; r < kRows; ++r) d[r * columns + c] = s[r + c * kRows];
}

template <class R>
void transpose(R* d, const R* s, Count stride, Count rows, Count columns) {
  if (columns == 2) return interleave<2>(d, s, stride, rows);
  if (columns == 3) return interleave<3>(d, s, stride, rows);
  if (columns == 4) return interleave<4>(d, s, stride, rows);
  if (rows == 2 && stride == 2) return separate<2>(d, s, columns);
  if (rows == 3 && stride == 3) return separate<3>(d, s, columns);
  if (rows == 4 && stride == 4) return separate<4>(d, s, columns);
  Count whole_rows = 0, whole_columns = 0;
  if constexpr (std::is_same_v<R, float>) {
    whole_rows = rows / kSquare * kSquare;
    whole_columns = columns / kSquare * kSquare;
    for (Count r = 0; r < whole_rows; r += kSquare)
      for (Count c = 0; c < whole_columns; c += kSquare)
        transpose_square(d + r * columns + c, columns, s + r + c * stride, stride);
  }
  for (Count r = 0; r < rows; ++r)
    for (Count c = r < whole_rows ? whole_columns : 0; c < columns; ++c) d[r * columns + c] = s[r + c * stride];
}

template <class R>
typename RealLoops<R>::Unary find_unary(const Function& f) {
  using Unary = typename RealLoops<R>::Unary;
  namespace fn = functions;
  constexpr bool kFloat = std::is_same_v<R, float>;
  if constexpr (kFloat) {
    if (&f == &fn::exp) return exp_f32;
    if (&f == &fn::sigmoid) return sigmoid_f32;
    if (&f == &fn::tanh) return tanh_f32;
    if (&f == &fn::erf) return erf_f32;
  } else {
    if (&f == &fn::exp) return static_cast<Unary>(sleef_exp);
    if (&f == &fn::sigmoid) return sigmoid_f64;
    if (&f == &fn::tanh) return static_cast<Unary>(sleef_tanh);
    if (&f == &fn::erf) return static_cast<Unary>(sleef_erf);
  }
  const struct {
    const Function* function;
    Unary loop;
  } table[] = {{&fn::log, sleef_log},
               {&fn::asin, sleef_asin},
               {&fn::acos, sleef_acos},
               {&fn::atan, sleef_atan},
               {&fn::sinh, sleef_sinh},
               {&fn::cosh, sleef_cosh},
               {&fn::asinh, sleef_asinh},
               {&fn::acosh, sleef_acosh},
               {&fn::atanh, sleef_atanh},
               {&fn::sin, sleef_sin},
               {&fn::cos, sleef_cos},
               {&fn::tan, sleef_tan},
               {&fn::abs, absolute<R>},
               {&fn::sign, sign<R>},
               {&fn::sqrt, square_root<R>},
               {&fn::rsqrt, inverse_square_root<R>},
               {&fn::round_even, round_even<R>},
               {&fn::floor, round_down<R>},
               {&fn::ceil, round_up<R>},
               {&fn::softplus, softplus<R>},
               {&fn::nearest_float, nearest_float<R>},
               {&fn::power_of_two, power_of_two<R>}};
  for (const auto& entry : table)
    if (entry.function == &f) return entry.loop;
  return nullptr;
}

template <class R>
typename RealLoops<R>::Binary find_binary(const Function& f) {
  using Binary = typename RealLoops<R>::Binary;
  if (&f == &functions::pow) return static_cast<Binary>(sleef_power);
  if constexpr (std::is_same_v<R, float>) {
    if (&f == &functions::floor_modulo) return modulo_f32<true>;
    if (&f == &functions::truncated_modulo) return modulo_f32<false>;
  }
  return nullptr;
}
template <class R>
typename RealLoops<R>::Predicate find_predicate(const Function& f) {
  return &f == &functions::is_nan ? is_nan<R> : &f == &functions::is_infinite ? is_infinite<R> : nullptr;
}

template <class R>
constexpr void set_real(RealLoops<R>& t) {
  set_arithmetic(t);
  t.unary = find_unary<R>;
  t.binary = find_binary<R>;
  t.predicate = find_predicate<R>;
  t.to_integer = to_integer<R>;
  t.from_integer = from_integer<R>;
  t.select_equal = select_equal<R>;
  t.select_less = select_less<R>;
  t.select_less_equal = select_less_equal<R>;
  t.transpose = transpose<R>;
}

constexpr LoopTables make_tables() {
  LoopTables t{};
  set_real(t.f32);
  set_real(t.f64);
  set_arithmetic(t.i64);
  t.i64.unary = find_integer_unary;
  t.i64.binary = find_integer_binary;
  t.i64.floor_divide = floor_divide;
  t.i64.floor_modulo = floor_modulo;
  t.i64.are_inside = are_inside;
  t.i64.positions = positions;
  t.i64.iota = iota;
  return t;
}
constexpr LoopTables kTables = make_tables();

}  // namespace

const LoopTables& LoopTables::REWRIGHT_ISA() { return kTables; }

}  // namespace rewright::cpu
