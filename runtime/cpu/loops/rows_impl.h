// The loops of rows.h; see rewright_loops in CMakeLists.txt.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "runtime/cpu/base/error_function_impl.h"
#include "runtime/cpu/base/exponential_impl.h"
#include "runtime/cpu/base/vectors_impl.h"
#include "runtime/cpu/loops/rows.h"

namespace rewright::cpu {
namespace {

// In this order each operation is one instruction, and NaN passes through.
inline float at_least(float low, float x) { return low > x ? low : x; }
inline float at_most(float high, float x) { return high < x ? high : x; }

// exp(x) = 2^k * exp(r), |r| <= ln(2) / 2; the polynomial is Cephes' expf. 0 below -87.7, infinite from 88.4 on.
inline float short_exp(float x) {
  const float clamped = at_most(89.0f, at_least(-88.0f, x));
  const float shifted = clamped * 1.44269504088896341f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer
  const float k = shifted - 12582912.0f;
  const float r = (clamped - k * 0.693359375f) - k * -2.12194440e-4f;
  const float power = exp_polynomial(r) * (r * r) + r + 1.0f;
  return power * std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + (127u << 23));
}

void swish(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = a[i] / (1.0f + short_exp(-a[i]));
}

// max(a, 0) + log(1 + t) with t = exp(-|a|), and log(1 + t) = 2 atanh(t / (2 + t)), whose argument is at most 1/3.
void softplus(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const float x = a[i], t = short_exp(x < 0 ? x : -x), s = t / (2.0f + t), z = s * s;
    float p = z * (1.0f / 15) + 1.0f / 13;
    p = p * z + 1.0f / 11;
    p = p * z + 1.0f / 9;
    p = p * z + 1.0f / 7;
    p = p * z + 1.0f / 5;
    p = p * z + 1.0f / 3;
    d[i] = (0.0f > x ? 0.0f : x) + 2.0f * (p * z * s + s);
  }
}

// tanh(log(1 + e)) = m / (m + 2) with e = exp(a) and m = e (e + 2), which avoids cancellation.
void mish(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const float x = a[i], e = short_exp(at_most(30.0f, x)), m = e * (e + 2.0f);
    d[i] = x * (m / (m + 2.0f));
  }
}

void gelu(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const float x = a[i], u = x * 0.70710678118654752f;
    const float inside = error_function_within(at_most(4.0f, at_least(-4.0f, u)));
    d[i] = 0.5f * x * (1.0f + (u > 3.925f ? 1.0f : u < -3.925f ? -1.0f : inside));
  }
}

// (1 + tanh u) / 2 = 1 / (1 + exp(-2 u))
void gelu_tanh(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const float x = a[i];
    d[i] = x / (1.0f + short_exp(x * (-2 * 0.79788456080286536f) * (1.0f + 0.044715f * (x * x))));
  }
}

void scale_row(float* d, const float* s, Count n, float scale, float shift, float low, float high) {
#pragma GCC ivdep
  for (Count c = 0; c < n; ++c) d[c] = at_most(high, at_least(low, s[c] * scale + shift));
}

// ---- Columns in vectors
inline V at_least(V low, V x) { return low > x ? low : x; }
inline V at_most(V high, V x) { return high < x ? high : x; }

void copy(float* d, Count d_stride, const float* s, Count s_stride, Count rows, Count n) {
  Count c = 0;
  for (; c + 4 * kLanes <= n; c += 4 * kLanes)
    for (Count r = 0; r < rows; ++r)
      for (Count k = 0; k < 4; ++k) store(d + r * d_stride + c + k * kLanes, load(s + r * s_stride + c + k * kLanes));
  for (; c + kLanes <= n; c += kLanes)
    for (Count r = 0; r < rows; ++r) store(d + r * d_stride + c, load(s + r * s_stride + c));
  if (c == n) return;
  for (Count r = 0; r < rows; ++r)
    std::memcpy(d + r * d_stride + c, s + r * s_stride + c, static_cast<std::size_t>(n - c) * sizeof(float));
}

template <Count kVectors>
inline void scale_vectors(float* d, Count d_stride, const float* s, Count s_stride, Count rows, const float* scale,
                          const float* shift, V low, V high) {
  V a[kVectors], b[kVectors];
  for (Count k = 0; k < kVectors; ++k) {
    a[k] = load(scale + k * kLanes);
    b[k] = load(shift + k * kLanes);
  }
  for (Count r = 0; r < rows; ++r)
    for (Count k = 0; k < kVectors; ++k)
      store(d + r * d_stride + k * kLanes, at_most(high, at_least(low, load(s + r * s_stride + k * kLanes) * a[k] + b[k])));
}

void scale_columns(float* d, Count d_stride, const float* s, Count s_stride, Count rows, Count n, const float* scale,
                   const float* shift, float low, float high) {
  const V lowest = V{} + low, highest = V{} + high;
  Count c = 0;
  for (; c + 4 * kLanes <= n; c += 4 * kLanes)
    scale_vectors<4>(d + c, d_stride, s + c, s_stride, rows, scale + c, shift + c, lowest, highest);
  for (; c + kLanes <= n; c += kLanes)
    scale_vectors<1>(d + c, d_stride, s + c, s_stride, rows, scale + c, shift + c, lowest, highest);
  if (c == n) return;
  for (Count r = 0; r < rows; ++r)
    for (Count i = c; i < n; ++i) d[r * d_stride + i] = at_most(high, at_least(low, s[r * s_stride + i] * scale[i] + shift[i]));
}

// Calls f with the number of vectors (a constant), the first column, and the number of columns; with 0 vectors for less than
// one.
template <Count kVectors>
struct Columns {
  static constexpr Count vectors = kVectors == 0 ? 1 : kVectors;
  static V load(const float* s, Count columns) {
    if constexpr (kVectors == 0) return load_some(s, columns);
    return cpu::load(s);
  }
  static void store(float* d, V v, Count columns) {
    if constexpr (kVectors == 0)
      store_some(d, v, columns);
    else
      cpu::store(d, v);
  }
};
template <class F>
inline void over_columns(Count n, F f) {
  Count c = 0;
  for (; c + 4 * kLanes <= n; c += 4 * kLanes) f(Columns<4>(), c, 4 * kLanes);
  for (; c + kLanes <= n; c += kLanes) f(Columns<1>(), c, kLanes);
  if (c < n) f(Columns<0>(), c, n - c);
}

// A NaN in y stays in a maximum with it second; one in x is put back. A mask of all keeps GCC 12 from warning.
inline V larger(V x, V y) {
#if REWRIGHT_VECTOR_BYTES == 64
  const auto both = (V)_mm512_maskz_max_ps(0xFFFF, (__m512)x, (__m512)y);
  return x != x ? x : both;
#else
  return ((x > y) | (x != x)) ? x : y;
#endif
}

// Operators applied to a pool's result.
template <class C>
inline V finished(V x, const RowLoops::Ending& e, const float* addend, Count columns) {
  if (addend != nullptr) x += C::load(addend, columns);
  return at_most(V{} + e.high, at_least(V{} + e.low, x));
}

template <class F>
inline void over_rows(const float* s, const RowLoops::Window& w, const F& f) {
  for (Count z = 0; z < w.slices; ++z)
    for (Count r = 0; r < w.rows; ++r) f(s + z * w.slice_stride + r * w.row_stride);
}

void window_maximum(float* d, const float* s, const RowLoops::Window& w, Count n, const RowLoops::Ending& e) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  over_columns(n, [&](auto c, Count first, Count columns) {
    using C = decltype(c);
    V largest[C::vectors];
    for (V& v : largest) v = V{} + kLowest;
    over_rows(s, w, [&](const float* row) {
      for (Count q = 0; q < w.columns; ++q)
        for (Count k = 0; k < C::vectors; ++k)
          largest[k] = larger(C::load(row + q * w.column_stride + first + k * kLanes, columns), largest[k]);
    });
    for (Count k = 0; k < C::vectors; ++k) {
      const Count at = first + k * kLanes;
      C::store(d + at, finished<C>(largest[k], e, e.addend == nullptr ? nullptr : e.addend + at, columns), columns);
    }
  });
}

// Sums each row, then the rows: the error grows with their lengths, not with the product of the two.
void window_sum(float* d, const float* s, const RowLoops::Window& w, Count n, float factor, const RowLoops::Ending& e) {
  over_columns(n, [&](auto c, Count first, Count columns) {
    using C = decltype(c);
    V total[C::vectors] = {};
    over_rows(s, w, [&](const float* from) {
      V row[C::vectors] = {};
      for (Count q = 0; q < w.columns; ++q)
        for (Count k = 0; k < C::vectors; ++k) row[k] += C::load(from + q * w.column_stride + first + k * kLanes, columns);
      for (Count k = 0; k < C::vectors; ++k) total[k] += row[k];
    });
    for (Count k = 0; k < C::vectors; ++k) {
      const Count at = first + k * kLanes;
      C::store(d + at, finished<C>(total[k] * factor, e, e.addend == nullptr ? nullptr : e.addend + at, columns), columns);
    }
  });
}

// Combines taps in some vectors of a row by sums.
template <Count kVectors>
struct Sums {
  V all[kVectors];
  explicit Sums(const V* first) { std::copy_n(first, kVectors, all); }
  void add(const V* x) {
    for (Count k = 0; k < kVectors; ++k) all[k] += x[k];
  }
  void add(const V* x, const V* y) { add(x), add(y); }
  V result(Count k) const { return all[k]; }
};
#if REWRIGHT_VECTOR_BYTES == 64
// Maxima without regard to NaN, and where there was one: two taps are asked at once.
template <Count kVectors>
struct Maxima {
  __m512 all[kVectors];
  __mmask16 unordered[kVectors] = {};
  explicit Maxima(const V* first) {
    for (Count k = 0; k < kVectors; ++k) all[k] = (__m512)first[k];
  }
  void add(const V* x) { add(x, x); }
  void add(const V* x, const V* y) {
    for (Count k = 0; k < kVectors; ++k) {
      const auto a = (__m512)x[k], b = (__m512)y[k];
      all[k] = _mm512_maskz_max_ps(0xFFFF, b, _mm512_maskz_max_ps(0xFFFF, a, all[k]));  // NaN in the second stays
      unordered[k] = _kor_mask16(unordered[k], _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q));
    }
  }
  V result(Count k) const {
    return (V)_mm512_mask_mov_ps(all[k], unordered[k], _mm512_set1_ps(std::numeric_limits<float>::quiet_NaN()));
  }
};
#else
template <Count kVectors>
struct Maxima {
  V all[kVectors];
  explicit Maxima(const V* first) { std::copy_n(first, kVectors, all); }
  void add(const V* x) {
    for (Count k = 0; k < kVectors; ++k) all[k] = larger(x[k], all[k]);
  }
  void add(const V* x, const V* y) { add(x), add(y); }
  V result(Count k) const { return all[k]; }
};
#endif

// Up to four vectors from column `first` on, of which the last one may begin earlier, so that it ends with the row.
template <template <Count> class Combined, Count kVectors, class Load, class Store>
inline void taps_of_vectors(Count first, Count last, Count taps, const Load& load, const Store& store) {
  Count at[kVectors];
  for (Count k = 0; k < kVectors; ++k) at[k] = std::min(first + k * kLanes, last);
  V x[kVectors], y[kVectors];
  const auto read = [&](Count t, V* to) {
    for (Count k = 0; k < kVectors; ++k) to[k] = load(t, at[k]);
  };
  read(0, x);
  Combined<kVectors> all(x);
  Count t = 1;
  for (; t + 2 <= taps; t += 2) read(t, x), read(t + 1, y), all.add(x, y);
  if (t < taps) read(t, x), all.add(x);
  for (Count k = 0; k < kVectors; ++k) store(at[k], all.result(k));
}
template <template <Count> class Combined>
inline void over_taps(float* d, const float* const* s, Count taps, Count n, const float* factor) {
  if (n < kLanes) {
    const auto read = [&](Count t, Count) { return load_some(s[t], n); };
    return taps_of_vectors<Combined, 1>(
        0, 0, taps, read, [&](Count, V v) { store_some(d, factor == nullptr ? v : v * load_some(factor, n), n); });
  }
  const auto read = [&](Count t, Count at) { return load(s[t] + at); };
  const auto write = [&](Count at, V v) { store(d + at, factor == nullptr ? v : v * load(factor + at)); };
  for (Count first = 0; first < n; first += 4 * kLanes) {
    const Count last = n - kLanes, left = n - first;
    if (left > 3 * kLanes)
      taps_of_vectors<Combined, 4>(first, last, taps, read, write);
    else if (left > 2 * kLanes)
      taps_of_vectors<Combined, 3>(first, last, taps, read, write);
    else if (left > kLanes)
      taps_of_vectors<Combined, 2>(first, last, taps, read, write);
    else
      taps_of_vectors<Combined, 1>(first, last, taps, read, write);
  }
}
void taps_maximum(float* d, const float* const* s, Count taps, Count n) { over_taps<Maxima>(d, s, taps, n, nullptr); }
void taps_sum(float* d, const float* const* s, Count taps, Count n, const float* factor) {
  over_taps<Sums>(d, s, taps, n, factor);
}

#if REWRIGHT_VECTOR_BYTES == 64
// Elements `from` to `from` + 15 of rows, those outside of a row as `filler`.
struct PartOfRow {
  Count from = 0;
  __mmask16 lanes = 0;
  PartOfRow(Count size, Count start) : from(start) {
    const Count low = std::clamp<Count>(-start, 0, kLanes), high = std::clamp<Count>(size - start, 0, kLanes);
    lanes = static_cast<__mmask16>(((1u << high) - 1) & ~((1u << low) - 1));
  }
  V load(const float* row, V filler) const {
    const auto address =
        reinterpret_cast<std::uintptr_t>(row) + static_cast<std::uintptr_t>(from * static_cast<Count>(sizeof(float)));
    return (V)_mm512_mask_loadu_ps((__m512)filler, lanes, reinterpret_cast<const float*>(address));
  }
};
template <bool kMaximum>
inline V combine(V x, V y) {
  if constexpr (kMaximum) return larger(x, y);
  return x + y;
}
template <bool kMaximum, Count kStride, Count kTaps>
void short_windows_of(float* y, const RowLoops::ShortWindows& w) {
  constexpr Count kParts = kStride == 1 ? kTaps : 2 * ((kTaps + 1) / 2);
  const V filler = V{} + (kMaximum ? -std::numeric_limits<float>::infinity() : 0.0f);
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  for (Count q = 0; q < w.n; q += kLanes) {
    const Count start = q * kStride - w.before, left = std::min(w.n - q, kLanes);
    const auto part = [&](Count k) { return PartOfRow(w.size, start + (kStride == 1 ? k : k / 2 * 2 + k % 2 * kLanes)); };
    const PartOfRow parts[4] = {part(0), part(1), part(2), part(3)};
    const auto written = static_cast<__mmask16>((1u << left) - 1);
    for (Count p = 0; p < w.rows; ++p) {
      const float* row = w.x + w.first[p] * w.size;
      V rows[kParts];
      for (Count k = 0; k < kParts; ++k) rows[k] = parts[k].load(row, filler);
      for (Count r = 1; r < w.counts[p]; ++r) {
        row += w.apart * w.size;
        for (Count k = 0; k < kParts; ++k) rows[k] = combine<kMaximum>(parts[k].load(row, filler), rows[k]);
      }
      const auto tap = [&](Count t) {
        if constexpr (kStride == 1)
          return rows[t];
        else
          return (V)_mm512_permutex2var_ps((__m512)rows[t / 2 * 2], t % 2 == 0 ? even : odd, (__m512)rows[t / 2 * 2 + 1]);
      };
      V all = tap(0);
      for (Count t = 1; t < kTaps; ++t) all = combine<kMaximum>(tap(t), all);
      if constexpr (!kMaximum) all *= (V)_mm512_maskz_loadu_ps(written, w.factors[w.counts[p]] + q);
      _mm512_mask_storeu_ps(y + p * w.n + q, written, (__m512)all);
    }
  }
}
template <bool kMaximum>
void short_windows_for(float* y, const RowLoops::ShortWindows& w) {
  if (w.taps == 1) return w.stride == 1 ? short_windows_of<kMaximum, 1, 1>(y, w) : short_windows_of<kMaximum, 2, 1>(y, w);
  if (w.taps == 2) return w.stride == 1 ? short_windows_of<kMaximum, 1, 2>(y, w) : short_windows_of<kMaximum, 2, 2>(y, w);
  w.stride == 1 ? short_windows_of<kMaximum, 1, 3>(y, w) : short_windows_of<kMaximum, 2, 3>(y, w);
}
void short_windows(float* y, const RowLoops::ShortWindows& w) {
  w.factors == nullptr ? short_windows_for<true>(y, w) : short_windows_for<false>(y, w);
}
#else
constexpr void (*short_windows)(float*, const RowLoops::ShortWindows&) = nullptr;
#endif

// Some rows of results of some outputs, from column `first` on, in registers.
template <Count kOutputs, Count kRows, Count kVectors>
inline void products_of_rows(const RowLoops::Windows& w, Count output, Count row, Count first) {
  V sums[kOutputs][kRows][kVectors];
  for (Count o = 0; o < kOutputs; ++o)
    for (auto& of_row : sums[o])
      for (V& v : of_row) v = V{} + w.bias[output + o];
  const float* const x = w.x + row * w.row_stride + first;
  const float* const weights = w.weights + output * w.taps;
  for (Count t = 0; t < w.taps; ++t) {
    const float* const from = x + w.offsets[t];
    V loaded[kRows][kVectors];
    for (Count r = 0; r < kRows; ++r)
      for (Count k = 0; k < kVectors; ++k) loaded[r][k] = load(from + r * w.row_stride + k * kLanes);
    for (Count o = 0; o < kOutputs; ++o) {
      const V weight = V{} + weights[o * w.taps + t];
      for (Count r = 0; r < kRows; ++r)
        for (Count k = 0; k < kVectors; ++k) sums[o][r][k] += weight * loaded[r][k];
    }
  }
  const V low = V{} + w.low, high = V{} + w.high;
  for (Count o = 0; o < kOutputs; ++o)
    for (Count r = 0; r < kRows; ++r)
      for (Count k = 0; k < kVectors; ++k) {
        const Count column = first + k * kLanes, left = w.columns - column;
        const Count at = (output + o) * w.plane + (row + r) * w.columns + column;
        V v = sums[o][r][k];
        if (w.addend != nullptr) v += left >= kLanes ? load(w.addend + at) : load_some(w.addend + at, left);
        v = at_most(high, at_least(low, v));
        if (left >= kLanes)
          store(w.y + at, v);
        else
          store_some(w.y + at, v, left);
      }
}
template <Count kOutputs, Count kVectors>
inline void products_of_outputs(const RowLoops::Windows& w, Count first, Count& output) {
  for (; output + kOutputs <= w.outputs; output += kOutputs)
    for (Count row = 0; row < w.rows; ++row) products_of_rows<kOutputs, 1, kVectors>(w, output, row, first);
}
template <Count kVectors>
inline void products_of_columns(const RowLoops::Windows& w, Count first) {
  constexpr Count kRows = kVectors > 2 ? 2 : 4;
  Count output = 0;
  if constexpr (REWRIGHT_VECTOR_BYTES == 64) products_of_outputs<6, kVectors>(w, first, output);
  products_of_outputs<4, kVectors>(w, first, output);
  products_of_outputs<2, kVectors>(w, first, output);
  for (; output < w.outputs; ++output) {
    Count row = 0;
    for (; row + kRows <= w.rows; row += kRows) products_of_rows<1, kRows, kVectors>(w, output, row, first);
    for (; row < w.rows; ++row) products_of_rows<1, 1, kVectors>(w, output, row, first);
  }
}
void window_products(const RowLoops::Windows& w) {
  constexpr Count kMost = REWRIGHT_VECTOR_BYTES == 64 ? 4 : 3;  // four outputs by so many vectors, and what they read
  for (Count first = 0; first < w.columns;) {
    const Count left = w.columns - first, vectors = (left + kLanes - 1) / kLanes;
    if (vectors > kMost && vectors < 2 * kMost) {  // two blocks of about one size
      (vectors + 1) / 2 == kMost ? products_of_columns<kMost>(w, first) : products_of_columns<kMost - 1>(w, first);
      first += (vectors + 1) / 2 == kMost ? kMost * kLanes : (kMost - 1) * kLanes;
      continue;
    }
    if (vectors >= kMost)
      products_of_columns<kMost>(w, first);
    else if (vectors == 3)
      products_of_columns<3>(w, first);
    else if (vectors == 2)
      products_of_columns<2>(w, first);
    else
      products_of_columns<1>(w, first);
    first += std::min(vectors, kMost) * kLanes;
  }
}

#if REWRIGHT_VECTOR_BYTES == 64
// The lanes from `first` on that are below `last`, of sixteen.
inline __mmask16 lanes_between(Count first, Count last) {
  const Count from = std::clamp<Count>(first, 0, kLanes), to = std::clamp<Count>(last, from, kLanes);
  return static_cast<__mmask16>((1u << to) - (1u << from));
}
void separate_padded(float* d, Count d_stride, const float* s, Count rows, Count width, Count before, Count n, float low) {
  const __m512 least = _mm512_set1_ps(low);
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  for (Count i = 0; i < n; i += kLanes) {
    const Count first = 2 * i - before;
    const __mmask16 here = lanes_between(-first, width - first), next = lanes_between(-first - kLanes, width - first - kLanes),
                    stored = lanes_between(0, n - i);
    // Lanes without an element are not read.
    const float* from = s + (here == 0 && next == 0 ? 0 : first);
    float* to = d + i;
    for (Count r = 0; r < rows; ++r, from += width, to += d_stride) {
      const __m512 a = _mm512_maskz_max_ps(here, least, _mm512_maskz_loadu_ps(here, from));  // of NaN the second operand
      const __m512 b = _mm512_maskz_max_ps(next, least, _mm512_maskz_loadu_ps(next, from + kLanes));
      _mm512_mask_storeu_ps(to, stored, _mm512_permutex2var_ps(a, even, b));
      _mm512_mask_storeu_ps(to + n, stored, _mm512_permutex2var_ps(a, odd, b));
    }
  }
}
#else
constexpr void (*separate_padded)(float*, Count, const float*, Count, Count, Count, Count, float) = nullptr;
#endif

template <Count kStep>
inline void separate_by(float* d, Count d_stride, const float* s, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i)
    for (Count p = 0; p < kStep; ++p) d[p * d_stride + i] = s[i * kStep + p];
}
void separate(float* d, Count d_stride, const float* s, Count step, Count n) {
  if (step == 2) return separate_by<2>(d, d_stride, s, n);
  if (step == 3) return separate_by<3>(d, d_stride, s, n);
  if (step == 4) return separate_by<4>(d, d_stride, s, n);
  for (Count p = 0; p < step; ++p)
    for (Count i = 0; i < n; ++i) d[p * d_stride + i] = s[i * step + p];
}

constexpr Count kChains = 12;  // enough to hide the latency of a multiply-add
float peak(float x, Count n) {
  const V factor = V{} + x, addend = V{} + (1 - x);
  V chains[kChains];
  for (Count k = 0; k < kChains; ++k) chains[k] = V{} + static_cast<float>(k);
  for (Count i = 0; i < n; ++i)
    for (Count k = 0; k < kChains; ++k) chains[k] = chains[k] * factor + addend;
  float total = 0;
  for (const V& chain : chains) total += chain[0];
  return total;
}

constexpr RowLoops kTable{swish,
                          softplus,
                          mish,
                          gelu,
                          gelu_tanh,
                          copy,
                          scale_columns,
                          scale_row,
                          window_maximum,
                          window_sum,
                          taps_maximum,
                          taps_sum,
                          short_windows,
                          window_products,
                          separate_padded,
                          separate,
                          peak,
                          2 * kChains* kLanes};

}  // namespace

const RowLoops& RowLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
