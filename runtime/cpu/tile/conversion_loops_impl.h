// Loops that read tensors of any type into registers, and write them.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "expressions/tensor.h"
#include "runtime/cpu/tile/elementwise_impl.h"

namespace rewright::cpu {
namespace {

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
  else if constexpr (std::is_floating_point_v<S> && std::is_integral_v<T> && sizeof(T) < sizeof(std::int32_t))
    return static_cast<T>(value == value ? value : S(0));  // NaN has no integer; x86 gives 0 in the low bits
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

// Calls f with a value of the C++ type of a tensor's elements that are read into registers of type T: any for reals and
// integers of 64 bits, integers for narrower ones. Truth values are read as bytes.
template <class T, class F>
inline void with_source(DataType type, F f) {
  with_type(type == DataType::kBool ? DataType::kUint8 : type, [&](auto zero) {
    constexpr bool kNarrow = std::is_integral_v<T> && sizeof(T) < 8;
    if constexpr (!kNarrow || std::is_integral_v<decltype(zero)>) f(zero);
  });
}
// Do registers of type T hold elements of type S as memory does?
template <class T, class S>
constexpr bool kSameBits = std::is_same_v<T, S> || (std::is_integral_v<T> && std::is_integral_v<S> && sizeof(T) == sizeof(S));

template <class T>
void load(T* d, const void* source, DataType type, Count stride, Count n) {
  with_source<T>(type, [&](auto zero) {
    using S = decltype(zero);
    const S* s = static_cast<const S*>(source);
    if (stride == 0) {
      const T value = converted<T>(*s);
#pragma GCC ivdep
      for (Count i = 0; i < n; ++i) d[i] = value;
    } else if (stride == 1) {
      if constexpr (kSameBits<T, S>)
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
void store_truth(std::uint8_t* d, Count stride, const T* a, Count n) {
  if (stride == 1) {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) d[i] = a[i] != 0;
  } else {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) d[i * stride] = a[i] != 0;
  }
}
// Reals as integers of at most 32 bits: towards zero and saturating in 64 bits, of which the low ones are kept; NaN gives 0.
// There are instructions for vectors of those within 32 bits.
template <class D, class T>
void store_integers(D* d, Count stride, const T* a, Count n) {
  for (Count first = 0; first < n; first += kPart) {
    const Count last = first + kPart < n ? first + kPart : n;
    std::int32_t outside = 0;
    for (Count i = first; i < last; ++i) outside |= !(std::fabs(a[i]) < T(0x7FFFFF80));
    if (outside == 0 && stride == 1) {
#pragma GCC ivdep
      for (Count i = first; i < last; ++i) d[i] = static_cast<D>(static_cast<std::int32_t>(a[i]));
      continue;
    }
    for (Count i = first; i < last; ++i) {
      const double v = a[i];
      d[i * stride] = static_cast<D>(v != v        ? 0
                                     : v >= 0x1p63 ? std::numeric_limits<std::int64_t>::max()
                                     : v < -0x1p63 ? std::numeric_limits<std::int64_t>::min()
                                                   : static_cast<std::int64_t>(v));
    }
  }
}
template <class T>
void store(void* destination, DataType type, Count stride, const T* a, Count n) {
  if (type == DataType::kBool) return store_truth(static_cast<std::uint8_t*>(destination), stride, a, n);
  with_source<T>(type, [&](auto zero) {
    using D = decltype(zero);
    D* d = static_cast<D*>(destination);
    if constexpr (std::is_floating_point_v<T> && std::is_integral_v<D> && sizeof(D) <= sizeof(std::int32_t))
      return store_integers(d, stride, a, n);
    if (stride == 1) {
      if constexpr (kSameBits<T, D>)
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
  with_source<T>(type, [&](auto zero) {
    using S = decltype(zero);
    const S* s = static_cast<const S*>(source);
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) d[i] = converted<T>(s[offsets[i]]);
  });
}

// P: the type of addresses.
template <class P, class T, class S>
inline bool gather_positions(T* d, const S* s, const I* indices, I size, P apart, P step, Count n) {
  std::uint64_t outside = 0;
  const auto read = [&](auto address) {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) {
      const I at = indices[i] < 0 ? indices[i] + size : indices[i];
      const bool here = static_cast<std::uint64_t>(at) < static_cast<std::uint64_t>(size);
      outside |= here ? 0 : 1;
      d[i] = converted<T>(s[address(static_cast<P>(here ? at : 0), static_cast<P>(i))]);
    }
  };
  if (apart == 1 && step == 0)
    read([](P at, P) { return at; });
  else
    read([=](P at, P i) { return at * apart + i * step; });
  return outside == 0;
}

template <class T>
bool gather_axis(T* d, const void* source, DataType type, const I* indices, I size, Count apart, Count step, Count n) {
  constexpr I kNarrow = 0x7FFFFFFF;
  const bool is_near =
      size <= kNarrow && apart >= 0 && step >= 0 && n < kNarrow &&
      static_cast<double>(size) * static_cast<double>(apart) + static_cast<double>(n) * static_cast<double>(step) < kNarrow;
  bool inside = true;
  with_source<T>(type, [&](auto zero) {
    const auto* const s = static_cast<const decltype(zero)*>(source);
    inside = is_near
                 ? gather_positions(d, s, indices, size, static_cast<std::int32_t>(apart), static_cast<std::int32_t>(step), n)
                 : gather_positions(d, s, indices, size, apart, step, n);
  });
  return inside;
}

}  // namespace
}  // namespace rewright::cpu
