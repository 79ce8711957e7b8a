// The loops of fourier_loops.h; see rewright_loops in CMakeLists.txt.
#include <algorithm>
#include <array>
#include <utility>

#include "runtime/cpu/base/vectors_impl.h"
#include "runtime/cpu/loops/fourier_loops.h"

namespace rewright::cpu {
namespace {

constexpr Count kMaxRows = REWRIGHT_VECTOR_BYTES == 64 ? 12 : REWRIGHT_VECTOR_BYTES == 32 ? 6 : 4;

struct Complex {
  V re, im;
};
inline Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
inline Complex times_minus_i(Complex a) { return {a.im, -a.re}; }
inline Complex swapped(Complex a) { return {a.im, a.re}; }

// ---- Transforms of n numbers: Stockham's algorithm, which leaves them in order, in passes of radix 3, 4 and 2

// exp(-2 pi i p / n)
template <Count n>
struct Roots {
  std::array<float, n> re{}, im{};
  constexpr Roots() {
    for (Count p = 0; p < n; ++p) {
      // Taylor series of the exponential function converge fast on the half circle around zero.
      const double angle = -2 * 3.14159265358979323846 * static_cast<double>(2 * p > n ? p - n : p) / static_cast<double>(n);
      double term = 1, cosine = 0, sine = 0;
      for (int k = 0; k < 40; ++k) {
        (k % 2 == 0 ? cosine : sine) += k / 2 % 2 == 0 ? term : -term;
        term *= angle / (k + 1);
      }
      re[static_cast<std::size_t>(p)] = static_cast<float>(cosine);
      im[static_cast<std::size_t>(p)] = static_cast<float>(sine);
    }
  }
};
template <Count n>
constexpr Roots<n> kRoots;

inline void butterfly(Complex (&a)[2]) {
  const Complex sum = a[0] + a[1], difference = a[0] - a[1];
  a[0] = sum;
  a[1] = difference;
}
inline void butterfly(Complex (&a)[3]) {
  constexpr float kSine = 0.86602540378443864676f;
  const Complex sum = a[1] + a[2], turned = times_minus_i(a[1] - a[2]);
  const Complex middle{a[0].re - 0.5f * sum.re, a[0].im - 0.5f * sum.im}, side{kSine * turned.re, kSine * turned.im};
  a[0] = a[0] + sum;
  a[1] = middle + side;
  a[2] = middle - side;
}
inline void butterfly(Complex (&a)[4]) {
  const Complex even = a[0] + a[2], odd = a[1] + a[3], even_difference = a[0] - a[2];
  const Complex odd_difference = times_minus_i(a[1] - a[3]);
  a[0] = even + odd;
  a[1] = even_difference + odd_difference;
  a[2] = even - odd;
  a[3] = even_difference - odd_difference;
}

// The first pass of s transforms of n numbers.
template <Count n, Count s, Count kRadix>
inline void pass(const Complex* x, Complex* y) {
  constexpr Count m = n / kRadix;
  constexpr const Roots<n>& roots = kRoots<n>;
#pragma GCC unroll 32
  for (Count p = 0; p < m; ++p)
#pragma GCC unroll 32
    for (Count q = 0; q < s; ++q) {
      Complex a[kRadix];
      for (Count k = 0; k < kRadix; ++k) a[k] = x[q + s * (p + m * k)];
      butterfly(a);
      y[q + s * kRadix * p] = a[0];
      for (Count j = 1; j < kRadix; ++j) {
        const float re = roots.re[static_cast<std::size_t>(p * j)], im = roots.im[static_cast<std::size_t>(p * j)];
        y[q + s * (kRadix * p + j)] = p == 0 ? a[j] : Complex{a[j].re * re - a[j].im * im, a[j].im * re + a[j].re * im};
      }
    }
}

// Transforms the numbers in x into x or y; returns which.
template <Count n, Count s = 1>
inline Complex* transform(Complex* x, Complex* y) {
  if constexpr (n == 1) {
    return x;
  } else {
    constexpr Count kRadix = n % 3 == 0 ? 3 : n % 4 == 0 ? 4 : 2;
    pass<n, s, kRadix>(x, y);
    return transform<n / kRadix, s * kRadix>(y, x);
  }
}

// Not inlined for large n.
template <Count n>
__attribute__((noinline)) const Complex* long_transform(Complex* x, Complex* y) {
  return transform<n>(x, y);
}
template <Count n>
inline const Complex* whole_transform(Complex* x, Complex* y) {
  if constexpr (n > 16)
    return long_transform<n>(x, y);
  else
    return transform<n>(x, y);
}

// ---- Images
// Two rows of real numbers are transformed as one row of complex numbers. Between rows and columns a tile is [size][size / 2]
// complex numbers; the first of each row holds the two real ones. Rows are an odd number of cache lines apart, so that those of
// a column do not share sets of the first-level cache.

template <Count kSize>
struct Image {
  static constexpr Count kHalf = kSize / 2, kRow = (kSize + 2) * kLanes;
  static float* at(float* work, Count row, Count column) { return work + row * kRow + column * 2 * kLanes; }
  static Complex get(float* work, Count row, Count column) {
    const float* const s = at(work, row, column);
    return {load(s), load(s + kLanes)};
  }
  static void put(float* work, Count row, Count column, Complex c) {
    float* const d = at(work, row, column);
    store(d, c.re);
    store(d + kLanes, c.im);
  }
};

template <Count kSize, bool kWhole>
void input_rows(const FourierLoops::Input& t) {
  using P = Image<kSize>;
  constexpr Count kHalf = P::kHalf;
  const auto pixel = [&](Count row, Count column) {
    if (row < t.first_row || row >= t.end_row) return V{};
    const float* const s = t.x + row * t.row_stride + column * t.column_stride;
    return kWhole ? load(s) : load_some(s, t.channels);
  };
  for (Count row = 0; row < kSize; row += 2) {
    if (row + 1 < t.first_row || row >= t.end_row) {
      for (float* s = P::at(t.work, row, 0); s != P::at(t.work, row + 2, 0); s += kLanes) store(s, V{});
      continue;
    }
    Complex x[kSize], y[kSize];
    for (Count q = 0; q < t.first_column; ++q) x[q] = Complex{};
    for (Count q = t.first_column; q < t.end_column; ++q) x[q] = {pixel(row, q), pixel(row + 1, q)};
    for (Count q = t.end_column; q < kSize; ++q) x[q] = Complex{};
    const Complex* const z = whole_transform<kSize>(x, y);
    P::put(t.work, row, 0, {2.0f * z[0].re, 2.0f * z[kHalf].re});
    P::put(t.work, row + 1, 0, {2.0f * z[0].im, 2.0f * z[kHalf].im});
#pragma GCC unroll 8
    for (Count k = 1; k < kHalf; ++k) {
      const Complex a = z[k], b = z[kSize - k];
      P::put(t.work, row, k, {a.re + b.re, a.im - b.im});
      P::put(t.work, row + 1, k, {a.im + b.im, b.re - a.re});
    }
  }
}

template <Count kSize>
void input_columns(const FourierLoops::Input& t) {
  using P = Image<kSize>;
  constexpr Count kHalf = P::kHalf;
  const auto point = [&](Count p, V re, V im) {
    float* const d = t.v + p * t.point_stride;
    store(d, re);
    store(d + t.imaginary, im);
  };
  Complex x[kSize], y[kSize];
  for (Count k = 1; k < kHalf; ++k) {
    for (Count r = 0; r < kSize; ++r) x[r] = P::get(t.work, r, k);
    const Complex* const z = whole_transform<kSize>(x, y);
    for (Count i = 0; i < kSize; ++i) point((k - 1) * kSize + i, z[i].re, z[i].im);
  }
  for (Count r = 0; r < kSize; ++r) x[r] = P::get(t.work, r, 0);
  const Complex* const z = whole_transform<kSize>(x, y);
  constexpr Count kFirst = (kHalf - 1) * kSize, kLast = kFirst + kHalf + 1;
  for (Count i = 0; i <= kHalf; ++i) {
    const Complex a = z[i], b = z[(kSize - i) % kSize];
    point(kFirst + i, a.re + b.re, a.im - b.im);
    point(kLast + i, a.im + b.im, b.re - a.re);
  }
}

template <Count kSize>
void input(const FourierLoops::Input& t) {
  (t.channels == kLanes ? input_rows<kSize, true> : input_rows<kSize, false>)(t);
  input_columns<kSize>(t);
}

// The inverse transform is the forward one with real and imaginary parts swapped before and after.
template <Count kSize>
void output_columns(const FourierLoops::Output& t) {
  using P = Image<kSize>;
  constexpr Count kHalf = P::kHalf;
  const auto point = [&](Count p) {
    const float* const s = t.m + p * t.point_stride;
    return Complex{load(s), load(s + t.imaginary)};
  };
  const Count rows = t.rows + t.rows % 2;
  Complex x[kSize], y[kSize];
  for (Count k = 1; k < kHalf; ++k) {
    for (Count i = 0; i < kSize; ++i) x[i] = swapped(point((k - 1) * kSize + i));
    const Complex* const z = whole_transform<kSize>(x, y);
    for (Count r = 0; r < rows; ++r) P::put(t.work, r, k, swapped(z[r]));
  }
  constexpr Count kFirst = (kHalf - 1) * kSize, kLast = kFirst + kHalf + 1;
  for (Count i = 0; i <= kHalf; ++i) {
    const Complex a = point(kFirst + i), b = point(kLast + i);
    x[i] = {a.im + b.re, a.re - b.im};
    if (i > 0 && i < kHalf) x[kSize - i] = {b.re - a.im, a.re + b.im};
  }
  const Complex* const z = whole_transform<kSize>(x, y);
  for (Count r = 0; r < rows; ++r) P::put(t.work, r, 0, swapped(z[r]));
}

template <Count kSize, bool kWhole>
void output_rows(const FourierLoops::Output& t) {
  using P = Image<kSize>;
  constexpr Count kHalf = P::kHalf;
  const V low = t.low - V{}, high = t.high - V{}, bias = load(t.bias);
  const auto finish = [&](Count row, Count column, V sum) {
    float* const y = t.y + row * t.row_stride + column * t.column_stride;
    sum += bias;
    if (t.addend != nullptr) {
      const float* const addend = t.addend + row * t.addend_row_stride + column * t.addend_column_stride;
      sum += kWhole ? load(addend) : load_some(addend, t.channels);
    }
    // In this order NaN passes through.
    const V above = low > sum ? low : sum, result = high < above ? high : above;
    if constexpr (kWhole)
      store(y, result);
    else
      store_some(y, result, t.channels);
  };
  for (Count row = 0; row < t.rows; row += 2) {
    Complex x[kSize], y[kSize];
    const Complex first = P::get(t.work, row, 0), second = P::get(t.work, row + 1, 0);
    x[0] = {second.re, first.re};
    x[kHalf] = {second.im, first.im};
#pragma GCC unroll 8
    for (Count k = 1; k < kHalf; ++k) {
      const Complex a = P::get(t.work, row, k), b = P::get(t.work, row + 1, k);
      x[k] = {a.im + b.re, a.re - b.im};
      x[kSize - k] = {b.re - a.im, a.re + b.im};
    }
    const Complex* const z = whole_transform<kSize>(x, y);
    for (Count q = 0; q < t.columns; ++q) finish(row, q, z[q].im);
    if (row + 1 < t.rows)
      for (Count q = 0; q < t.columns; ++q) finish(row + 1, q, z[q].re);
  }
}

template <Count kSize>
void output(const FourierLoops::Output& t) {
  output_columns<kSize>(t);
  (t.channels == kLanes ? output_rows<kSize, true> : output_rows<kSize, false>)(t);
}

template <std::size_t... kAt>
void input_of(Count size, const FourierLoops::Input& t, std::index_sequence<kAt...>) {
  ((FourierLoops::kSizes[kAt] == size ? input<FourierLoops::kSizes[kAt]>(t) : void()), ...);
}
template <std::size_t... kAt>
void output_of(Count size, const FourierLoops::Output& t, std::index_sequence<kAt...>) {
  ((FourierLoops::kSizes[kAt] == size ? output<FourierLoops::kSizes[kAt]>(t) : void()), ...);
}
constexpr auto kEachSize = std::make_index_sequence<FourierLoops::kSizes.size()>();

// ---- Products
// The terms of a long sum are rounded as the sum so far, so that parts of it are added up by themselves, and then these.
constexpr Count kSummed = 64;

template <Count kRows>
void product(const FourierLoops::Product& t) {
  Complex sum[kRows]{};
  alignas(64) float parts[kRows * 2 * kLanes];  // the sum of those that are finished
  float* finished = parts;
  __asm__("" : "+r"(finished));  // in memory, as registers are for the sums
  const float* w = t.w;
  const char* ahead = t.ahead != nullptr ? t.ahead : reinterpret_cast<const char*>(w);
  const Count stride = t.x_stride, imaginary = t.x_imaginary;
  const float *x = t.x, *const last = x + t.length;
  bool is_first = true;
  while (true) {
    for (const float* const end = x + std::min<Count>(kSummed, last - x); x != end;
         ++x, w += 2 * kLanes, ahead += t.ahead_step) {
      const V re = load(w), im = load(w + kLanes);
      __builtin_prefetch(ahead, 0, 2);
#pragma GCC unroll 16
      for (Count r = 0; r < kRows; ++r) {
        const V a = x[r * stride] - V{}, b = x[r * stride + imaginary] - V{};
        sum[r].re += a * re;
        sum[r].im += a * im;
        sum[r].re -= b * im;
        sum[r].im += b * re;
      }
    }
    if (x == last) break;
#pragma GCC unroll 16
    for (Count r = 0; r < kRows; ++r) {
      float* const at = finished + r * 2 * kLanes;
      store(at, is_first ? sum[r].re : load(at) + sum[r].re);
      store(at + kLanes, is_first ? sum[r].im : load(at + kLanes) + sum[r].im);
      sum[r] = Complex{};
    }
    is_first = false;
  }
#pragma GCC unroll 16
  for (Count r = 0; r < kRows; ++r) {
    const float* const before = finished + r * 2 * kLanes;
    float *const re = t.y + r * t.y_stride, *const im = re + t.y_imaginary;
    store(re, is_first ? sum[r].re : load(before) + sum[r].re);
    store(im, is_first ? sum[r].im : load(before + kLanes) + sum[r].im);
  }
}

template <std::size_t... kRows>
constexpr std::array<void (*)(const FourierLoops::Product&), sizeof...(kRows)> products(std::index_sequence<kRows...>) {
  return {&product<static_cast<Count>(kRows) + 1>...};
}
constexpr auto kProducts = products(std::make_index_sequence<kMaxRows>());

void scale(const float* w, Count points, float* v) {
  for (const float* const end = v + points * 2 * kLanes; v != end; v += 2 * kLanes, w += 2 * kLanes) {
    const V re = load(w), im = load(w + kLanes), a = load(v), b = load(v + kLanes);
    store(v, a * re - b * im);
    store(v + kLanes, a * im + b * re);
  }
}

constexpr FourierLoops kTable{kLanes,
                              kMaxRows,
                              [](Count size, const FourierLoops::Input& t) { input_of(size, t, kEachSize); },
                              [](Count size, const FourierLoops::Output& t) { output_of(size, t, kEachSize); },
                              [](const FourierLoops::Product& t) { kProducts[static_cast<std::size_t>(t.rows - 1)](t); },
                              scale};

}  // namespace

const FourierLoops& FourierLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
