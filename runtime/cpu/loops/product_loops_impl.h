// The loops of product_loops.h; see rewright_loops in CMakeLists.txt.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "runtime/cpu/base/error_function_impl.h"
#include "runtime/cpu/base/tanh_impl.h"
#include "runtime/cpu/base/transpose_impl.h"
#include "runtime/cpu/base/vectors_impl.h"
#include "runtime/cpu/loops/product_loops.h"
#include "runtime/cpu/loops/weights_ahead.h"

namespace rewright::cpu {
namespace {

typedef std::int32_t VI __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
// By the vectors in a panel's row. A block's sums leave registers for the panel's row and an element of a.
#if REWRIGHT_VECTOR_BYTES == 64
#define REWRIGHT_BLOCK_ROWS \
  { 0, 14, 12, 8, 6 }
#elif REWRIGHT_VECTOR_BYTES == 32
#define REWRIGHT_BLOCK_ROWS \
  { 0, 8, 6, 4, 2 }
#else
#define REWRIGHT_BLOCK_ROWS \
  { 0, 8, 4, 4, 2 }
#endif
constexpr Count kMostRows[] = REWRIGHT_BLOCK_ROWS;

inline V splat(float x) { return x - V{}; }

// ---- Products. The start value is added at the end: terms of a long sum round relative to the sum so far, so parts of it are
// summed separately.
constexpr Count kSummed = 192;

constexpr Count kLine = 64;  // bytes

// Asks for the lines of a row that will come.
template <Count kBytes>
inline void ask_for(const void* row) {
  const char* const at = static_cast<const char*>(row) + stream_ahead;
#pragma GCC unroll 4
  for (Count b = 0; b < kBytes; b += kLine) __builtin_prefetch(at + b);
}

// Rows of a panel, one after the other.
template <Count kVectors>
struct FloatRows {
  static constexpr bool kAsksForOneRow = false;  // floats come as fast without
  explicit FloatRows(const ProductBlock& b) : at(b.panel) {}
  void read(V (&w)[kVectors], Count beyond = 0) const {
#pragma GCC unroll 4
    for (Count v = 0; v < kVectors; ++v) w[v] = load(at + beyond + v * kLanes);
  }
  void go_on() { at += kVectors * kLanes; }
  void ask_ahead(Count beyond) const { ask_for<kVectors * kLanes * Count{sizeof(float)}>(at + beyond); }
  const float* at;
};

// As ProductLoops::widen has them.
template <Count kVectors>
struct ShortRows {
  static constexpr bool kAsksForOneRow = true;
  typedef std::uint32_t Words __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
  typedef std::uint16_t Halves __attribute__((vector_size(REWRIGHT_VECTOR_BYTES / 2)));

  explicit ShortRows(const std::uint16_t* from) : at(from) {}
  explicit ShortRows(const ProductBlock& b) : at(b.short_panel) {}
  void read(V (&w)[kVectors], Count beyond = 0) const {
#pragma GCC unroll 2
    for (Count v = 0; v + 1 < kVectors; v += 2) {
      Words pair;
      std::memcpy(&pair, at + beyond + v * kLanes, sizeof pair);
      w[v] = (V)(pair << 16);
      w[v + 1] = (V)(pair & 0xffff0000u);
    }
    if constexpr (kVectors % 2 == 1) w[kVectors - 1] = alone(at + beyond + (kVectors - 1) * kLanes);
  }
  void go_on() { at += kVectors * kLanes; }
  void ask_ahead(Count beyond) const { ask_for<kVectors * kLanes * Count{sizeof(std::uint16_t)}>(at + beyond); }
  const std::uint16_t* at;

 private:
  static V alone(const std::uint16_t* from) {
#if REWRIGHT_VECTOR_BYTES == 64
    // GCC 12 warns about what it leaves undefined without a mask.
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return (V)_mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, halves), 16);
#elif REWRIGHT_VECTOR_BYTES == 32
    return (V)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))), 16);
#else
    Halves halves;
    std::memcpy(&halves, from, sizeof halves);
    return (V)(__builtin_convertvector(halves, Words) << 16);
#endif
  }
};

template <Count kRows, Count kVectors, class Rows>
void multiply_block(const ProductBlock& b) {
  V sum[kRows][kVectors];
#pragma GCC unroll 16
  for (Count r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (Count v = 0; v < kVectors; ++v) sum[r][v] = V{};
  const float* a = b.a;
  Rows panel(b);
  const char* ahead = b.ahead;
  const Count rows = b.a_rows, columns = b.a_columns, step = b.ahead_step;
  // The result's lines arrive while the sums are computed: rows lie in different pages, which no processor reads ahead.
#pragma GCC unroll 16
  for (Count r = 0; r < kRows; ++r)
    for (Count v = 0; v < kVectors * kLanes; v += 16) __builtin_prefetch(b.y + r * b.y_stride + v, 1);
  for (Count k = 0; k < b.depth; ++k) {
    V w[kVectors];
    panel.read(w);
#pragma GCC unroll 4
    for (Count v = 0; v < kVectors; ++v) keep_in_register(w[v]);
    if (ahead == nullptr) {
      panel.ask_ahead(0);
    } else {
      __builtin_prefetch(ahead, 0, 2);
      if (step > kLine) __builtin_prefetch(ahead + kLine, 0, 2);
    }
#pragma GCC unroll 16
    for (Count r = 0; r < kRows; ++r) {
      const V x = splat(a[r * rows]);
#pragma GCC unroll 4
      for (Count v = 0; v < kVectors; ++v) sum[r][v] += x * w[v];
    }
    a += columns;
    panel.go_on();
    ahead += step;
  }
  if (b.start != nullptr) {
#pragma GCC unroll 16
    for (Count r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (Count v = 0; v < kVectors; ++v) sum[r][v] += load(b.start + r * b.start_stride + v * kLanes);
  }
#pragma GCC unroll 16
  for (Count r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (Count v = 0; v < kVectors; ++v) store(b.y + r * b.y_stride + v * kLanes, sum[r][v]);
}

using Multiply = void (*)(const ProductBlock&);
template <Count kVectors, class Rows, std::size_t... kIndices>
constexpr std::array<Multiply, sizeof...(kIndices)> multiplications(std::index_sequence<kIndices...>) {
  return {&multiply_block<static_cast<Count>(kIndices) + 1, kVectors, Rows>...};
}
template <Count kVectors, template <Count> class Rows>
constexpr auto kMultiplications = multiplications<kVectors, Rows<kVectors>>(std::make_index_sequence<kMostRows[kVectors]>());

template <template <Count> class Rows>
void multiply_part(const ProductBlock& block, Count rows, Count vectors) {
  const auto r = static_cast<std::size_t>(rows - 1);
  switch (vectors) {
    case 1:
      return kMultiplications<1, Rows>[r](block);
    case 2:
      return kMultiplications<2, Rows>[r](block);
    case 3:
      return kMultiplications<3, Rows>[r](block);
    default:
      return kMultiplications<4, Rows>[r](block);
  }
}

// Calls `multiply` for each part of the depth.
template <class Multiply>
inline void in_parts(const ProductBlock& block, Count vectors, const Multiply& multiply) {
  if (block.depth <= kSummed + kSummed / 2) return multiply(block);
  const Count parts = (block.depth + kSummed / 2) / kSummed;
  ProductBlock part = block;
  for (Count p = 0; p < parts; ++p) {
    const Count k = block.depth * p / parts;
    part.depth = block.depth * (p + 1) / parts - k;
    part.a = block.a + k * block.a_columns;
    if (block.short_panel == nullptr)
      part.panel = block.panel + k * vectors * kLanes;
    else
      part.short_panel = block.short_panel + k * vectors * kLanes;
    part.ahead = block.ahead + k * block.ahead_step;
    multiply(part);
    part.start = block.y;
    part.start_stride = block.y_stride;
  }
}

void multiply(const ProductBlock& block, Count rows, Count vectors) {
  in_parts(block, vectors, [&](const ProductBlock& part) {
    block.short_panel == nullptr ? multiply_part<FloatRows>(part, rows, vectors)
                                 : multiply_part<ShortRows>(part, rows, vectors);
  });
}

#define REWRIGHT_ROW_PANELS \
  { 0, 8, 4, 2, 2 }
constexpr Count kRowPanels[] = REWRIGHT_ROW_PANELS;

template <Count kVectors, class Rows>
void multiply_row_part(const ProductBlock& b, Count panel_floats) {
  constexpr Count kPanels = kRowPanels[kVectors];
  V sum[kPanels][kVectors] = {};
  const float* a = b.a;
  Rows panel(b);
  for (Count k = 0; k < b.depth; ++k) {
    const V x = splat(*a);
#pragma GCC unroll 8
    for (Count p = 0; p < kPanels; ++p) {
      V w[kVectors];
      if (Rows::kAsksForOneRow && b.ahead == nullptr) panel.ask_ahead(p * panel_floats);
      panel.read(w, p * panel_floats);
#pragma GCC unroll 4
      for (Count v = 0; v < kVectors; ++v) sum[p][v] += x * w[v];
    }
    a += b.a_columns;
    panel.go_on();
  }
#pragma GCC unroll 8
  for (Count p = 0; p < kPanels; ++p)
#pragma GCC unroll 4
    for (Count v = 0; v < kVectors; ++v) {
      const Count at = (p * kVectors + v) * kLanes;
      if (b.start != nullptr) sum[p][v] += load(b.start + at);
      store(b.y + at, sum[p][v]);
    }
}

template <template <Count> class Rows>
void multiply_row_of(const ProductBlock& part, Count vectors, Count panel_floats) {
  switch (vectors) {
    case 1:
      return multiply_row_part<1, Rows<1>>(part, panel_floats);
    case 2:
      return multiply_row_part<2, Rows<2>>(part, panel_floats);
    case 3:
      return multiply_row_part<3, Rows<3>>(part, panel_floats);
    default:
      return multiply_row_part<4, Rows<4>>(part, panel_floats);
  }
}

void multiply_row(const ProductBlock& block, Count vectors, Count panel_floats) {
  in_parts(block, vectors, [&](const ProductBlock& part) {
    block.short_panel == nullptr ? multiply_row_of<FloatRows>(part, vectors, panel_floats)
                                 : multiply_row_of<ShortRows>(part, vectors, panel_floats);
  });
}

template <Count kVectors>
void widen_rows(float* to, const std::uint16_t* from, Count rows) {
  ShortRows<kVectors> panel(from);
  for (Count k = 0; k < rows; ++k, panel.go_on(), to += kVectors * kLanes) {
    V w[kVectors];
    panel.read(w);
    for (Count v = 0; v < kVectors; ++v) store(to + v * kLanes, w[v]);
  }
}

void widen(float* to, const std::uint16_t* from, Count rows, Count vectors) {
  switch (vectors) {
    case 1:
      return widen_rows<1>(to, from, rows);
    case 2:
      return widen_rows<2>(to, from, rows);
    case 3:
      return widen_rows<3>(to, from, rows);
    default:
      return widen_rows<4>(to, from, rows);
  }
}

// ---- Functions. In this order each bound is one instruction, and NaN passes through. (GCC would turn around the comparison
// with a constant, and two instructions are needed then.)
inline V at_least(V low, V x) {
  keep_in_register(low);
  return low > x ? low : x;
}
inline V at_most(V high, V x) {
  keep_in_register(high);
  return high < x ? high : x;
}
inline V magnitude(V x) { return (V)((VI)x & 0x7fffffff); }

// exp(x) = 2^k (1 + fraction), fraction = exp(r) - 1, |r| <= ln(2) / 2; the polynomial is Cephes' expf. 0 below -87.7, infinite
// from 88.4 on.
struct Exponential {
  V fraction, scale;  // scale: 2^k
};
inline Exponential exponential_of(V x) {
  const V clamped = at_most(splat(89.0f), at_least(splat(-88.0f), x));
  const V shifted = clamped * 1.44269504088896341f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer
  const V k = shifted - 12582912.0f;
  const V r = (clamped - k * 0.693359375f) - k * -2.12194440e-4f;
  V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return {p * (r * r) + r, (V)(((VI)shifted << 23) + (127 << 23))};
}
inline V exponential(V x) {
  const Exponential e = exponential_of(x);
  return (e.fraction + 1.0f) * e.scale;
}
// exp(x) - 1, which loses nothing near 0.
inline V exponential_less_one(V x) {
  const Exponential e = exponential_of(x);
  return e.fraction * e.scale + (e.scale - 1.0f);
}
inline V logistic(V x) { return 1.0f / (1.0f + exponential(-x)); }

// x * y + z, rounded once wherever the instruction set can, as in exponential_impl.h.
inline V multiply_add(V x, V y, V z) {
#if REWRIGHT_VECTOR_BYTES == 64
  return (V)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
#elif REWRIGHT_VECTOR_BYTES == 32 && defined(__FMA__)
  return (V)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
#else
  return x * y + z;
#endif
}

// The bits of the tile engine's (runtime/cpu/tile/function_loops_impl.h), whatever nodes are computed together.
inline V hyperbolic_tangent(V given) {
  const V x = at_most(splat(kTanhEnd), at_least(splat(-kTanhEnd), given)), z = x * x;
  V p = splat(kTanhAbove[0]), q = splat(kTanhBelow[0]);
  for (std::size_t i = 1; i < std::size(kTanhAbove); ++i) {
    p = multiply_add(p, z, splat(kTanhAbove[i]));
    q = multiply_add(q, z, splat(kTanhBelow[i]));
  }
  return at_most(splat(1.0f), at_least(splat(-1.0f), p * x / q));
}

inline V error_function(V x) {
  const V inside = error_function_within(at_most(splat(4.0f), at_least(splat(-4.0f), x)));
  return x > 3.925f ? splat(1.0f) : x < -3.925f ? splat(-1.0f) : inside;
}

template <class F>
inline void over_rows(float* y, Count stride, Count rows, Count n, F f) {
  for (Count r = 0; r < rows; ++r) {
    float* const row = y + r * stride;
    Count c = 0;
    for (; c + kLanes <= n; c += kLanes) store(row + c, f(load(row + c)));
    if (c < n) store_some(row + c, f(load_some(row + c, n - c)), n - c);
  }
}

void apply(RowFunction f, float alpha, float beta, float* y, Count stride, Count rows, Count n) {
  const V a = splat(alpha), b = splat(beta);
  const auto each = [&](auto g) { over_rows(y, stride, rows, n, g); };
  const auto hard = [&](V x) { return at_most(splat(1.0f), at_least(V{}, x * a + b)); };
  switch (f) {
    case RowFunction::kRelu:
      if (alpha == 0) return each([](V x) { return at_least(V{}, x); });
      return each([&](V x) { return x > 0 ? x : x * a; });
    case RowFunction::kClip:
      return each([&](V x) { return at_most(b, at_least(a, x)); });
    case RowFunction::kLinear:
      return each([&](V x) { return x * a + b; });
    case RowFunction::kAbsolute:
      return each([](V x) { return magnitude(x); });
    case RowFunction::kLogistic:
      return each([](V x) { return logistic(x); });
    case RowFunction::kSwish:
      return each([&](V x) { return x / (1.0f + exponential(-(x * a))); });
    case RowFunction::kHardSigmoid:
      return each(hard);
    case RowFunction::kHardSwish:
      return each([&](V x) { return x * hard(x); });
    case RowFunction::kElu:
      return each([&](V x) { return x > 0 ? x : exponential_less_one(x) * a; });
    case RowFunction::kTanh:
      return each([](V x) { return hyperbolic_tangent(x); });
    case RowFunction::kGelu:
      return each([](V x) { return 0.5f * x * (1.0f + error_function(x * 0.70710678118654752f)); });
    case RowFunction::kGeluTanh:  // (1 + tanh u) / 2 = 1 / (1 + exp(-2 u))
      return each([](V x) { return x / (1.0f + exponential(x * (-2 * 0.79788456080286536f) * (1.0f + 0.044715f * (x * x)))); });
  }
}

void add(float* y, Count stride, const float* x, Count x_stride, Count rows, Count n) {
  for (Count r = 0; r < rows; ++r) {
    float* const d = y + r * stride;
    const float* const s = x + r * x_stride;
    Count c = 0;
    for (; c + kLanes <= n; c += kLanes) store(d + c, load(d + c) + load(s + c));
    for (; c < n; ++c) d[c] += s[c];
  }
}

// Few columns at a time, so that their lines stay in the first-level cache even if they share a set.
void transpose(float* d, Count d_stride, const float* s, Count s_stride, Count rows, Count columns) {
  Count c = 0;
  for (; c + kSquare <= columns; c += kSquare) {
    Count r = 0;
    for (; r + kSquare <= rows; r += kSquare) transpose_square(d + r * d_stride + c, d_stride, s + r + c * s_stride, s_stride);
    for (; r < rows; ++r)
      for (Count k = c; k < c + kSquare; ++k) d[r * d_stride + k] = s[r + k * s_stride];
  }
  for (Count r = 0; r < rows && c < columns; ++r)
    for (Count k = c; k < columns; ++k) d[r * d_stride + k] = s[r + k * s_stride];
}

// The first n lanes, n < kLanes; the others are set.
inline V first_lanes(V v, Count n, float others) {
#if REWRIGHT_VECTOR_BYTES == 64
  return (V)_mm512_mask_mov_ps(_mm512_set1_ps(others), lanes_below(n), (__m512)v);
#elif REWRIGHT_VECTOR_BYTES == 32
  return (V)_mm256_blendv_ps(_mm256_set1_ps(others), (__m256)v, _mm256_castsi256_ps(lanes_below(n)));
#else
  for (Count l = n; l < kLanes; ++l) v[l] = others;
  return v;
#endif
}

// Applies f, a function of vectors, to all elements of a vector, by halves.
template <class F>
inline float across(V v, F f) {
#if REWRIGHT_VECTOR_BYTES == 64
  v = f(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  v = f(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  v = f(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  v = f(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
#elif REWRIGHT_VECTOR_BYTES == 32
  v = f(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
  v = f(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
  v = f(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
#else
  v = f(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
  v = f(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));
#endif
  return v[0];
}
inline float total(V v) {
  return across(v, [](V x, V y) { return x + y; });
}

// ---- Softmax
inline V larger(V x, V y) { return x > y ? x : y; }

// The exponentials of x - *largest go to y, which may be x, or nowhere; returns their sum. NaN is never the largest; its
// exponential makes the sum NaN.
template <bool kWritten>
inline float exponentials_of(const float* x, float* y, Count n, float* largest) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  V top[4];
  for (V& t : top) t = splat(kLowest);
  Count c = 0;
  for (; c + 4 * kLanes <= n; c += 4 * kLanes)
    for (Count k = 0; k < 4; ++k) top[k] = larger(load(x + c + k * kLanes), top[k]);
  for (; c + kLanes <= n; c += kLanes) top[0] = larger(load(x + c), top[0]);
  if (c < n) top[1] = larger(first_lanes(load_some(x + c, n - c), n - c, kLowest), top[1]);
  float most = across(larger(larger(top[0], top[1]), larger(top[2], top[3])), [](V a, V b) { return a > b ? a : b; });
  most = *largest > most ? *largest : most;
  *largest = most;
  const float subtracted = most == kLowest ? 0.0f : most;
  V sums{};
  for (c = 0; c + kLanes <= n;) {
    const Count end = std::min(n, c + kSummed * kLanes);
    V part{};
    for (; c + kLanes <= end; c += kLanes) {
      const V e = exponential(load(x + c) - subtracted);
      if (kWritten) store(y + c, e);
      part += e;
    }
    sums += part;
  }
  if (c < n) {
    const V e = exponential(load_some(x + c, n - c) - subtracted);
    if (kWritten) store_some(y + c, e, n - c);
    sums += first_lanes(e, n - c, 0.0f);
  }
  return total(sums);
}

float exponentials(float* row, Count n, float* largest) { return exponentials_of<true>(row, row, n, largest); }

void scale(float* y, Count n, float factor) {
  over_rows(y, n, 1, n, [&](V x) { return x * factor; });
}

// ---- Rows
void softmax(float* y, const float* x, Count n) {
  float largest = -std::numeric_limits<float>::infinity();
  const float sum = exponentials_of<true>(x, y, n, &largest);
  scale(y, n, 1.0f / sum);
}

void log_softmax(float* y, const float* x, Count n) {
  float largest = -std::numeric_limits<float>::infinity();
  const float logarithm = std::log(exponentials_of<false>(x, y, n, &largest));
  Count c = 0;
  for (; c + kLanes <= n; c += kLanes) store(y + c, load(x + c) - largest - logarithm);
  for (; c < n; ++c) y[c] = x[c] - largest - logarithm;
}

// kVectors vectors of columns; or `some` columns, less than a vector, if not 0.
template <Count kVectors>
inline void softmax_of_columns(float* y, const float* x, Count n, Count stride, Count some, bool logarithm) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const auto read = [&](const float* s) { return some > 0 ? load_some(s, some) : load(s); };
  const auto write = [&](float* d, V v) { some > 0 ? store_some(d, v, some) : store(d, v); };
  V top[kVectors], sums[kVectors] = {};
  for (V& t : top) t = splat(kLowest);
  for (Count r = 0; r < n; ++r)
    for (Count k = 0; k < kVectors; ++k) top[k] = larger(read(x + r * stride + k * kLanes), top[k]);
  for (V& t : top) t = t == splat(kLowest) ? splat(0.0f) : t;
  for (Count r = 0; r < n;) {
    V part[kVectors] = {};
    for (const Count end = std::min(n, r + kSummed); r < end; ++r)
      for (Count k = 0; k < kVectors; ++k) {
        const V e = exponential(read(x + r * stride + k * kLanes) - top[k]);
        if (!logarithm) write(y + r * stride + k * kLanes, e);
        part[k] += e;
      }
    for (Count k = 0; k < kVectors; ++k) sums[k] += part[k];
  }
  for (V& s : sums) {
    if (logarithm)
      for (Count l = 0; l < kLanes; ++l) s[l] = std::log(s[l]);
    else
      s = 1.0f / s;
  }
  for (Count r = 0; r < n; ++r)
    for (Count k = 0; k < kVectors; ++k) {
      float* const d = y + r * stride + k * kLanes;
      write(d, logarithm ? read(x + r * stride + k * kLanes) - top[k] - sums[k] : read(d) * sums[k]);
    }
}

void softmax_columns(float* y, const float* x, Count n, Count stride, Count columns, bool logarithm) {
  Count c = 0;
  for (; c + 4 * kLanes <= columns; c += 4 * kLanes) softmax_of_columns<4>(y + c, x + c, n, stride, 0, logarithm);
  for (; c + kLanes <= columns; c += kLanes) softmax_of_columns<1>(y + c, x + c, n, stride, 0, logarithm);
  if (c < columns) softmax_of_columns<1>(y + c, x + c, n, stride, columns - c, logarithm);
}

// The sum of f over a row, by parts of it, each in four vectors.
template <class F>
inline float sum_of(const float* x, Count n, F f) {
  V sums{};
  Count c = 0;
  do {
    const Count end = std::min(n, c + kSummed * kLanes);
    V part[4] = {};
    for (; c + 4 * kLanes <= end; c += 4 * kLanes)
      for (Count k = 0; k < 4; ++k) part[k] += f(load(x + c + k * kLanes));
    for (; c + kLanes <= end; c += kLanes) part[0] += f(load(x + c));
    sums += (part[0] + part[1]) + (part[2] + part[3]);
  } while (c + kLanes <= n);
  if (c < n) sums += first_lanes(f(load_some(x + c, n - c)), n - c, 0.0f);
  return total(sums);
}

void normalize(float* y, const float* x, Count n, bool centered, float epsilon, const float* factors, const float* shift) {
  const auto count = static_cast<float>(n);
  const float mean = centered ? sum_of(x, n, [](V v) { return v; }) / count : 0.0f;
  const float variance = sum_of(x, n, [&](V v) { return (v - mean) * (v - mean); }) / count;
  const float inverse = 1.0f / __builtin_sqrtf(variance + epsilon);
  Count c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    V v = (load(x + c) - mean) * inverse;
    if (factors != nullptr) v *= load(factors + c);
    if (shift != nullptr) v += load(shift + c);
    store(y + c, v);
  }
  if (c == n) return;
  V v = (load_some(x + c, n - c) - mean) * inverse;
  if (factors != nullptr) v *= load_some(factors + c, n - c);
  if (shift != nullptr) v += load_some(shift + c, n - c);
  store_some(y + c, v, n - c);
}

constexpr ProductLoops kTable{
    kLanes,    REWRIGHT_BLOCK_ROWS, multiply, multiply_row, REWRIGHT_ROW_PANELS, widen,           apply,    add,
    transpose, exponentials,        scale,    softmax,      log_softmax,         softmax_columns, normalize};

}  // namespace

const ProductLoops& ProductLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
