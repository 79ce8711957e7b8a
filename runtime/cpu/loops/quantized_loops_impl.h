// The loops of quantized_loops.h; see rewright_loops in CMakeLists.txt.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/cpu/loops/quantized_loops.h"
#ifdef REWRIGHT_AMX
#include "runtime/cpu/loops/tile_registers_impl.h"
#endif

namespace rewright::cpu {
namespace {

using Count = QuantizedLoops::Count;
typedef std::int32_t Vector __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
constexpr Count kLanes = REWRIGHT_VECTOR_BYTES / 4, kMaxVectors = 2;
#ifdef REWRIGHT_AMX
constexpr Count kMaxRows = 2 * kTileRows, kMostStep = kTileWords;
#else
constexpr Count kMaxRows = REWRIGHT_VECTOR_BYTES == 64 ? 14 : 6, kMostStep = 1;
#endif
#ifdef REWRIGHT_VNNI
constexpr Count kUnit = 4;
#else
constexpr Count kUnit = 2;
#endif

inline Vector load(const std::int32_t* s) {
  Vector v;
  std::memcpy(&v, s, sizeof v);
  return v;
}
inline void store(std::int32_t* d, Vector v) { std::memcpy(d, &v, sizeof v); }
inline Vector dot(Vector sum, Vector x, Vector w) {
#ifdef REWRIGHT_VNNI
  return (Vector)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
#elif REWRIGHT_VECTOR_BYTES == 64
  return sum + (Vector)_mm512_madd_epi16((__m512i)x, (__m512i)w);
#elif REWRIGHT_VECTOR_BYTES == 32
  return sum + (Vector)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#else
  return sum + (Vector)_mm_madd_epi16((__m128i)x, (__m128i)w);
#endif
}

// ---- Sums
#ifdef REWRIGHT_AMX
// Products of tiles: of one or two tiles of pixels by one or two of outputs.
template <bool kTwoRows, bool kTwoVectors>
void tile(const QuantizedLoops::Tile& t) {
  constexpr Count kVectors = kTwoVectors ? 2 : 1, kStride = kVectors * kTileBytes, kSumsStride = kMaxVectors * kTileBytes;
  _tile_zero(0);
  if constexpr (kTwoVectors) _tile_zero(1);
  if constexpr (kTwoRows) _tile_zero(2);
  if constexpr (kTwoRows && kTwoVectors) _tile_zero(3);
  const auto* w = reinterpret_cast<const std::byte*>(t.w);
  const char* ahead = t.ahead;
  const Count stride = t.x_stride, step = t.step, length = t.length * 4;
  for (Count i = 0; i < t.height; ++i)
    for (Count j = 0; j < t.width; ++j) {
      const std::byte* const x = t.x + i * t.row_stride + j * t.column_stride;
      for (Count k = 0; k < length; k += step * 4, w += step * kStride) {
        _tile_loadd(6, w, kStride);
        _tile_loadd(4, x + k, stride);
        _tile_dpbusd(0, 4, 6);
        if constexpr (kTwoRows) {
          _tile_loadd(5, x + k + kTileRows * stride, stride);
          _tile_dpbusd(2, 5, 6);
        }
        if constexpr (kTwoVectors) {
          _tile_loadd(7, w + kTileBytes, kStride);
          _tile_dpbusd(1, 4, 7);
          if constexpr (kTwoRows) _tile_dpbusd(3, 5, 7);
        }
        if (t.ahead_step == 0) continue;
        for (Count s = 0; s < step; ++s, ahead += t.ahead_step) __builtin_prefetch(ahead, 0, 2);
      }
    }
  std::int32_t* const lower = t.sums + kTileRows * kMaxVectors * kLanes;
  _tile_stored(0, t.sums, kSumsStride);
  if constexpr (kTwoVectors) _tile_stored(1, t.sums + kLanes, kSumsStride);
  if constexpr (kTwoRows) _tile_stored(2, lower, kSumsStride);
  if constexpr (kTwoRows && kTwoVectors) _tile_stored(3, lower + kLanes, kSumsStride);
}

void run_tile(const QuantizedLoops::Tile& t) {
  if (t.registers->rows != t.rows || t.registers->step != t.step) {
    configure_tiles(t.rows, t.step);
    *t.registers = {t.rows, t.step};
  }
  __asm__ volatile("" ::: "memory");  // GCC does not know that tiles are read from memory
  if (t.rows > kTileRows)
    (t.vectors == 1 ? tile<true, false> : tile<true, true>)(t);
  else
    (t.vectors == 1 ? tile<false, false> : tile<false, true>)(t);
}

void release(QuantizedLoops::Registers& registers) {
  if (registers.rows > 0) _tile_release();
  registers = {};
}
#else
template <Count kRows, Count kVectors>
void tile(const QuantizedLoops::Tile& t) {
  Vector sum[kRows][kVectors] = {};
  const std::int32_t* w = t.w;
  const char* ahead = t.ahead != nullptr ? t.ahead : reinterpret_cast<const char*>(w);
  const Count stride = t.x_stride;
  for (Count i = 0; i < t.height; ++i)
    for (Count j = 0; j < t.width; ++j) {
      const std::byte* x = t.x + i * t.row_stride + j * t.column_stride;
      for (const std::byte* const end = x + t.length * 4; x != end; x += 4) {
        Vector b[kVectors];
        for (Count v = 0; v < kVectors; ++v) b[v] = load(w + v * kLanes);
        w += kVectors * kLanes;
        __builtin_prefetch(ahead, 0, 2);
        ahead += t.ahead_step;
#pragma GCC unroll 16
        for (Count r = 0; r < kRows; ++r) {
          std::int32_t word;
          std::memcpy(&word, x + r * stride, sizeof word);
          const Vector a = word - Vector{};
          for (Count v = 0; v < kVectors; ++v) sum[r][v] = dot(sum[r][v], a, b[v]);
        }
      }
    }
#pragma GCC unroll 16
  for (Count r = 0; r < kRows; ++r)
    for (Count v = 0; v < kVectors; ++v) store(t.sums + (r * kMaxVectors + v) * kLanes, sum[r][v]);
}

template <Count kVectors, std::size_t... kRows>
constexpr std::array<void (*)(const QuantizedLoops::Tile&), sizeof...(kRows)> tiles(std::index_sequence<kRows...>) {
  return {&tile<static_cast<Count>(kRows) + 1, kVectors>...};
}
constexpr auto kOne = tiles<1>(std::make_index_sequence<kMaxRows>()), kTwo = tiles<2>(std::make_index_sequence<kMaxRows>());

void run_tile(const QuantizedLoops::Tile& t) { (t.vectors == 1 ? kOne : kTwo)[static_cast<std::size_t>(t.rows - 1)](t); }

void release(QuantizedLoops::Registers&) {}
#endif

template <Count kRows>
void channel_rows(const QuantizedLoops::ChannelTile& t, Count row) {
  for (Count v = 0; v < t.vectors; ++v) {
    Vector sum[kRows] = {};
    for (Count i = 0; i < t.height; ++i)
      for (Count j = 0; j < t.width; ++j) {
        const std::int32_t* const x = t.x[i] + t.first + row * t.x_stride + j * t.column_stride + v * kLanes;
        const Vector w = load(t.w + (i * t.width + j) * t.w_stride + v * kLanes);
#pragma GCC unroll 8
        for (Count r = 0; r < kRows; ++r) sum[r] = dot(sum[r], load(x + r * t.x_stride), w);
      }
#pragma GCC unroll 8
    for (Count r = 0; r < kRows; ++r) store(t.sums + (row + r) * t.sums_stride + v * kLanes, sum[r]);
  }
}

void run_channel_tile(const QuantizedLoops::ChannelTile& t) {
  constexpr Count kTogether = 4;
  Count row = 0;
  for (; row + kTogether <= t.rows; row += kTogether) channel_rows<kTogether>(t, row);
  for (; row < t.rows; ++row) channel_rows<1>(t, row);
}

// ---- Elements
void convert(std::byte* to, const std::byte* from, bool is_signed, int zero_point, Count n) {
  if constexpr (kUnit == 4) {
    const std::byte flip{static_cast<unsigned char>(is_signed ? 0x80 : 0)};
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) to[i] = from[i] ^ flip;
  } else {
    auto* const d = reinterpret_cast<std::int16_t*>(to);
    const auto widen = [&](auto* s) {
#pragma GCC ivdep
      for (Count i = 0; i < n; ++i) d[i] = static_cast<std::int16_t>(s[i] - zero_point);
    };
    if (is_signed)
      widen(reinterpret_cast<const std::int8_t*>(from));
    else
      widen(reinterpret_cast<const std::uint8_t*>(from));
  }
}

void interleave(std::int32_t* to, const std::byte* const* pixels, Count channels) {
  using Element = std::conditional_t<kUnit == 4, std::uint8_t, std::uint16_t>;
  const auto at = [&](Count p) { return reinterpret_cast<const Element*>(pixels[p]); };
  auto* const d = reinterpret_cast<std::uint32_t*>(to);
  if constexpr (kUnit == 4) {
    const Element *const a = at(0), *const b = at(1), *const c = at(2), *const e = at(3);
#pragma GCC ivdep
    for (Count i = 0; i < channels; ++i)
      d[i] = std::uint32_t{a[i]} | std::uint32_t{b[i]} << 8 | std::uint32_t{c[i]} << 16 | std::uint32_t{e[i]} << 24;
  } else {
    const Element *const a = at(0), *const b = at(1);
#pragma GCC ivdep
    for (Count i = 0; i < channels; ++i) d[i] = std::uint32_t{a[i]} | std::uint32_t{b[i]} << 16;
  }
}

#ifdef REWRIGHT_VNNI
// Transposes a matrix of 4 x 16 bytes.
inline Vector words_of_rows(const std::byte* const* rows) {
  const auto row = [&](int e) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[e])); };
  __m512i all = _mm512_zextsi128_si512(row(0));
  all = _mm512_inserti32x4(all, row(1), 1);
  all = _mm512_inserti32x4(all, row(2), 2);
  all = _mm512_inserti32x4(all, row(3), 3);
  const __m512i squares = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m128i transposed = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return (Vector)_mm512_shuffle_epi8(_mm512_maskz_permutexvar_epi32(0xFFFF, squares, all),
                                     _mm512_maskz_broadcast_i32x4(0xFFFF, transposed));
}

void pack_bytes(const QuantizedLoops::Pack& p) {
  const int zero = p.is_signed ? 0 : 0x80;  // becomes 0 below
  const Vector flips = (p.is_signed ? 0 : static_cast<std::int32_t>(0x80808080)) - Vector{}, ones = 0x01010101 - Vector{};
  for (Count c = 0; c < p.columns; c += kLanes) {
    const Count n = std::min(kLanes, p.columns - c);
    alignas(16) std::byte filled[4][kLanes];
    std::memset(filled, zero, sizeof filled);
    Vector sum{};
    for (Count w = 0; w < p.length; ++w) {
      const std::byte* rows[4];
      for (Count e = 0; e < 4; ++e) {
        rows[e] = filled[e];
        if (const Count row = 4 * w + e; row >= p.depth)
          std::memset(filled[e], zero, sizeof filled[e]);
        else if (n == kLanes)
          rows[e] = p.from + row * p.stride + c;
        else
          std::memcpy(filled[e], p.from + row * p.stride + c, static_cast<std::size_t>(n));
      }
      const Vector words = words_of_rows(rows) ^ flips;
      sum = dot(sum, ones, words);
      store(p.to + w * p.width + c, words);
    }
    store(p.sums + c, sum);
  }
}

std::int32_t sum_of_bytes(const std::byte* x, Count n) {
  const Vector ones = 0x01010101 - Vector{};
  Vector sum{};
  for (Count i = 0; i < n; i += REWRIGHT_VECTOR_BYTES) {
    Vector v{};
    if (n - i >= REWRIGHT_VECTOR_BYTES)
      std::memcpy(&v, x + i, sizeof v);
    else
      std::memcpy(&v, x + i, static_cast<std::size_t>(n - i));
    sum = dot(sum, v, ones);
  }
  std::int32_t all = 0;
  for (Count l = 0; l < kLanes; ++l) all += sum[l];
  return all;
}

// Sums wrap around, so they are unsigned.
void subtract(const QuantizedLoops::Correction& t) {
  typedef std::uint32_t Words __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
  for (Count r = 0; r < t.rows; ++r) {
    const Words zero = static_cast<std::uint32_t>(t.row_zeros[r]) - Words{},
                sum = static_cast<std::uint32_t>(t.row_sums[r]) - Words{};
    for (Count c = 0; c < t.columns; c += kLanes) {
      std::int32_t* const at = t.sums + r * t.sums_stride + c;
      store(at, (Vector)((Words)load(at) - zero * (Words)load(t.column_sums + c) - sum * (Words)load(t.column_zeros + c)));
    }
  }
}
#else
constexpr decltype(QuantizedLoops::pack_bytes) pack_bytes = nullptr;
constexpr decltype(QuantizedLoops::sum_of_bytes) sum_of_bytes = nullptr;
constexpr decltype(QuantizedLoops::subtract) subtract = nullptr;
#endif

// ---- Results
typedef float Floats __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
template <class T>
struct Narrow {
  typedef T Type __attribute__((vector_size(kLanes * sizeof(T))));
};

// All elements of a vector, or the first n.
template <class V, class T>
inline V load_first(const T* s, Count n) {
  V v{};
  if (n >= kLanes)
    std::memcpy(&v, s, sizeof v);
  else
    std::memcpy(&v, s, static_cast<std::size_t>(n) * sizeof(T));
  return v;
}
template <class V, class T>
inline void store_first(T* d, V v, Count n) {
  if (n >= kLanes)
    std::memcpy(d, &v, sizeof v);
  else
    std::memcpy(d, &v, static_cast<std::size_t>(n) * sizeof(T));
}

// Element by element: the compiler does not vectorize conversions between vectors of very different sizes.
inline Vector widened(Narrow<std::int8_t>::Type v) {
#if REWRIGHT_VECTOR_BYTES == 64
  return (Vector)_mm512_maskz_cvtepi8_epi32(0xFFFF, (__m128i)v);
#elif REWRIGHT_VECTOR_BYTES == 32
  return (Vector)_mm256_cvtepi8_epi32(_mm_cvtsi64_si128((long long)v));
#else
  return __builtin_convertvector(v, Vector);
#endif
}
inline Vector widened(Narrow<std::uint8_t>::Type v) {
#if REWRIGHT_VECTOR_BYTES == 64
  return (Vector)_mm512_maskz_cvtepu8_epi32(0xFFFF, (__m128i)v);
#elif REWRIGHT_VECTOR_BYTES == 32
  return (Vector)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)v));
#else
  return __builtin_convertvector(v, Vector);
#endif
}

// Rounds to the nearest integer, ties to even. Earlier bounds keep numbers small enough for the constants, 1.5 * 2^23 and 1.5 *
// 2^52.
inline Vector rounded(Floats t, std::int32_t plus) { return (Vector)(t + 12582912.0f) + (plus - 0x4B400000); }
inline Floats rounded_floats(Floats t) { return (t + 12582912.0f) - 12582912.0f; }
template <class T>
inline T bounded(T t, T low, T high) {
  const T above = low > t ? low : t;
  return high < above ? high : above;
}

using Finish = QuantizedLoops::Finish;

// Addend: void without a second rounding, float with one but no addend, otherwise its element type.
template <class Y, class Addend, bool kWhole>
void finish_columns(const Finish& f, Count c) {
  constexpr bool kIsInteger = std::is_same_v<Y, std::int32_t>, kHasSecond = !std::is_void_v<Addend>;
  const Count n = kWhole ? kLanes : f.columns - c;
  const Vector offset = load(f.offset + c);
  [[maybe_unused]] const std::int32_t zero_point = f.zero_point;
  Floats factor{}, shift{}, constant{};
  if constexpr (!kIsInteger) {
    factor = load_first<Floats>(f.factor + c, kLanes);
    shift = load_first<Floats>(f.shift + c, kLanes);
  }
  if constexpr (kHasSecond) constant = load_first<Floats>(f.constant + c, kLanes);
  const Floats low = f.low - Floats{}, high = f.high - Floats{};
  const Floats inner_low = f.inner_low - Floats{}, inner_high = f.inner_high - Floats{};
  const Floats carry = f.carry - Floats{}, by = f.addend_factor - Floats{};
  // Results may be bytes, which may alias everything, so operands of the loop are read before it.
  Y* y = reinterpret_cast<Y*>(f.y) + c;
  const std::int32_t* s = f.sums + c;
  [[maybe_unused]] const std::byte* addend = f.addend == nullptr ? nullptr : f.addend + c;
  const Count rows = f.rows, sums_stride = f.sums_stride, y_stride = f.y_stride;
  [[maybe_unused]] const Count addend_stride = f.addend_stride;
  for (Count r = 0; r < rows; ++r, s += sums_stride, y += y_stride) {
    const Vector sum = load(s) + offset;
    if constexpr (kIsInteger) {
      store_first(y, sum, n);
    } else {
      Floats t = __builtin_convertvector(sum, Floats) * factor + shift;
      if constexpr (kHasSecond) {
        t = rounded_floats(bounded(t, inner_low, inner_high)) * carry + constant;
        if constexpr (!std::is_same_v<Addend, float>) {
          const Vector a = widened(load_first<typename Narrow<Addend>::Type>(reinterpret_cast<const Addend*>(addend), n));
          t += __builtin_convertvector(a, Floats) * by;
          addend += addend_stride;
        }
      }
      t = bounded(t, low, high);
      if constexpr (std::is_same_v<Y, float>)
        store_first(y, t, n);
      else
        store_first(y, __builtin_convertvector(rounded(t, zero_point), typename Narrow<Y>::Type), n);
    }
  }
}

template <class Y, class Addend>
void finish_rows(const Finish& f) {
  Count c = 0;
  for (; c + kLanes <= f.columns; c += kLanes) finish_columns<Y, Addend, true>(f, c);
  if (c < f.columns) finish_columns<Y, Addend, false>(f, c);
}

// Is a number not below the limit, or NaN?
inline bool any_beyond(Floats t, float limit) {
#if REWRIGHT_VECTOR_BYTES == 64
  return _mm512_cmp_ps_mask(_mm512_abs_ps((__m512)t), _mm512_set1_ps(limit), _CMP_NLT_UQ) != 0;
#elif REWRIGHT_VECTOR_BYTES == 32
  const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), (__m256)t);
  return _mm256_movemask_ps(_mm256_cmp_ps(size, _mm256_set1_ps(limit), _CMP_NLT_UQ)) != 0;
#else
  const __m128 size = _mm_andnot_ps(_mm_set1_ps(-0.0f), (__m128)t);
  return _mm_movemask_ps(_mm_cmpnlt_ps(size, _mm_set1_ps(limit))) != 0;
#endif
}

// In double: round(clamp(factor[i] * sum[i], low, high)).
inline Vector exact_results(Vector sum, const double* factor, double low, double high) {
  constexpr Count kHalf = kLanes / 2;
  typedef double Doubles __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
  typedef std::int64_t Long __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
  typedef std::int32_t Half __attribute__((vector_size(REWRIGHT_VECTOR_BYTES / 2)));
  std::int32_t numbers[kLanes];
  store(numbers, sum);
#pragma GCC unroll 2
  for (Count i = 0; i < kLanes; i += kHalf) {
    Half s;
    Doubles by;
    std::memcpy(&s, numbers + i, sizeof s);
    std::memcpy(&by, factor + i, sizeof by);
    const Doubles t = bounded(__builtin_convertvector(s, Doubles) * by, low - Doubles{}, high - Doubles{});
    s = __builtin_convertvector((Long)(t + 6755399441055744.0), Half);
    std::memcpy(numbers + i, &s, sizeof s);
  }
  return load(numbers);
}

// Bounded products in floats are off by less than 255 * 3 * 2^-24 from those in double, which decide only near the middle
// between two integers.
template <class Y, bool kWhole>
void finish_columns_exactly(const Finish& f, Count c) {
  constexpr float kSure = 0.4999f;
  const Count n = kWhole ? kLanes : f.columns - c;
  const Vector offset = load(f.offset + c);
  const std::int32_t zero_point = f.zero_point;
  const double* const by = f.exact_factor + c;
  Floats factor{};
#pragma GCC unroll 16
  for (Count i = 0; i < kLanes; ++i) factor[i] = static_cast<float>(by[i]);
  const Floats low = f.low - Floats{}, high = f.high - Floats{};
  Y* y = reinterpret_cast<Y*>(f.y) + c;
  const std::int32_t* s = f.sums + c;
  const Count rows = f.rows, sums_stride = f.sums_stride, y_stride = f.y_stride;
  for (Count r = 0; r < rows; ++r, s += sums_stride, y += y_stride) {
    const Vector sum = load(s) + offset;
    const Floats t = bounded(__builtin_convertvector(sum, Floats) * factor, low, high), whole = rounded_floats(t);
    Vector result = rounded(t, zero_point);
    if (any_beyond(t - whole, kSure)) result = exact_results(sum, by, f.low, f.high) + zero_point;
    store_first(y, __builtin_convertvector(result, typename Narrow<Y>::Type), n);
  }
}

template <class Y>
void finish_exactly(const Finish& f) {
  Count c = 0;
  for (; c + kLanes <= f.columns; c += kLanes) finish_columns_exactly<Y, true>(f, c);
  if (c < f.columns) finish_columns_exactly<Y, false>(f, c);
}

template <class Y>
void finish_integers(const Finish& f) {
  if (f.exact_factor != nullptr) return finish_exactly<Y>(f);
  if (f.constant == nullptr) return finish_rows<Y, void>(f);
  if (f.addend == nullptr) return finish_rows<Y, float>(f);
  if (f.addend_signed) return finish_rows<Y, std::int8_t>(f);
  finish_rows<Y, std::uint8_t>(f);
}

void finish(const Finish& f) {
  switch (f.type) {
    case QuantizedLoops::Type::kInt32:
      return finish_rows<std::int32_t, void>(f);
    case QuantizedLoops::Type::kFloat:
      return finish_rows<float, void>(f);
    case QuantizedLoops::Type::kUint8:
      return finish_integers<std::uint8_t>(f);
    case QuantizedLoops::Type::kInt8:
      return finish_integers<std::int8_t>(f);
  }
}

// ---- Windows
using Window = QuantizedLoops::Window;

template <class F>
inline void for_each_pixel(const Window& w, const F& f) {
  for (Count z = 0; z < w.slices; ++z)
    for (Count r = 0; r < w.rows; ++r) {
      const std::byte* x = w.x + z * w.slice_stride + r * w.row_stride;
      for (Count q = 0; q < w.columns; ++q, x += w.column_stride) f(x);
    }
}

template <class E, Count kBytes>
inline void maximum_of_columns(const Window& w, Count c, std::byte* y) {
  typedef E Bytes __attribute__((vector_size(kBytes)));
  Bytes most = std::numeric_limits<E>::lowest() - Bytes{};
  for_each_pixel(w, [&](const std::byte* x) {
    Bytes v;
    std::memcpy(&v, x + c, sizeof v);
    most = v > most ? v : most;
  });
  std::memcpy(y + c, &most, sizeof most);
}

template <class E>
void window_maximum_of(const Window& w, Count n, std::byte* y) {
  constexpr Count kLong = REWRIGHT_VECTOR_BYTES, kShort = 16;
  Count c = 0;
  for (; c + kLong <= n; c += kLong) maximum_of_columns<E, kLong>(w, c, y);
  for (; c + kShort <= n; c += kShort) maximum_of_columns<E, kShort>(w, c, y);
  if (c < n && n >= kShort) return maximum_of_columns<E, kShort>(w, n - kShort, y);  // some of them twice
  for (; c < n; ++c) maximum_of_columns<E, 1>(w, c, y);
}

// kVectors at a time, to use whole cache lines.
template <class E, Count kVectors>
inline void window_sums(const Window& w, Count n, Count c, std::int32_t* sums) {
  Vector sum[kVectors] = {};
  for_each_pixel(w, [&](const std::byte* x) {
    for (Count v = 0; v < kVectors; ++v)
      sum[v] +=
          widened(load_first<typename Narrow<E>::Type>(reinterpret_cast<const E*>(x) + c + v * kLanes, n - c - v * kLanes));
  });
  for (Count v = 0; v < kVectors; ++v) store(sums + c + v * kLanes, sum[v]);
}

template <class E>
void window_sum_of(const Window& w, Count n, std::int32_t* sums) {
  Count c = 0;
  for (; c + 4 * kLanes <= n; c += 4 * kLanes) window_sums<E, 4>(w, n, c, sums);
  for (; c < n; c += kLanes) window_sums<E, 1>(w, n, c, sums);
}

void window_maximum(const Window& w, Count n, std::byte* y) {
  (w.is_signed ? window_maximum_of<std::int8_t> : window_maximum_of<std::uint8_t>)(w, n, y);
}
void window_sum(const Window& w, Count n, std::int32_t* sums) {
  (w.is_signed ? window_sum_of<std::int8_t> : window_sum_of<std::uint8_t>)(w, n, sums);
}

constexpr QuantizedLoops kTable{kLanes,   kMaxRows,         kMaxVectors,    kUnit,      kMostStep,  run_tile,
                                release,  run_channel_tile, convert,        interleave, pack_bytes, sum_of_bytes,
                                subtract, finish,           window_maximum, window_sum};

}  // namespace

const QuantizedLoops& QuantizedLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
