// The loops of loops.h; see rewright_loops in CMakeLists.txt. The compiler vectorizes plain loops.
#include <cstring>
#include <limits>
#include <type_traits>

#include "expressions/tensor.h"
#include "runtime/cpu/base/transpose_impl.h"
#include "runtime/cpu/tile/conversion_loops_impl.h"
#include "runtime/cpu/tile/elementwise_impl.h"
#include "runtime/cpu/tile/function_loops_impl.h"
#include "runtime/cpu/tile/integer_loops_impl.h"
#include "runtime/cpu/tile/loops.h"
#include "runtime/cpu/tile/row_folds_impl.h"

namespace rewright::cpu {
namespace {

template <class T>
void add(T* d, const T* a, const T* b, Count n) {
  if constexpr (std::is_integral_v<T>)
    zip(d, a, b, n, [](T x, T y) { return T(Bits<T>(x) + Bits<T>(y)); });
  else
    zip(d, a, b, n, [](T x, T y) { return x + y; });
}
template <class T>
void subtract(T* d, const T* a, const T* b, Count n) {
  if constexpr (std::is_integral_v<T>)
    zip(d, a, b, n, [](T x, T y) { return T(Bits<T>(x) - Bits<T>(y)); });
  else
    zip(d, a, b, n, [](T x, T y) { return x - y; });
}
template <class T>
void multiply(T* d, const T* a, const T* b, Count n) {
  if constexpr (std::is_integral_v<T>)
    zip(d, a, b, n, [](T x, T y) { return T(Bits<T>(x) * Bits<T>(y)); });
  else
    zip(d, a, b, n, [](T x, T y) { return x * y; });
}
template <class T>
void divide(T* d, const T* a, const T* b, Count n) {
  if constexpr (std::is_integral_v<T>)
    divide_integers(d, a, b, n);
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
template <class T>
void multiply_add_integers(T* d, const T* a, const T* b, const T* c, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = T(Bits<T>(a[i]) * Bits<T>(b[i]) + Bits<T>(c[i]));
}
template <class T, class M>
void select(T* d, const M* condition, const T* a, const T* b, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = condition[i] ? a[i] : b[i];
}
template <class T>
void fill(T* d, T value, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = value;
}
template <class T>
void spread(T* d, const T* values, Count rows, Count n) {
  constexpr Count kSize = REWRIGHT_VECTOR_BYTES / sizeof(T);
  const Count stored = (n + kSize - 1) / kSize * kSize;
  Count r = 0;
  for (; n > 0 && r * n + stored <= rows * n; ++r) {  // the next rows overwrite what is too much
    T vector[kSize];
    for (T& element : vector) element = values[r];
    for (Count e = 0; e < n; e += kSize) __builtin_memcpy(d + r * n + e, vector, sizeof vector);
  }
  for (; r < rows; ++r) fill(d + r * n, values[r], n);
}

// Folds columns, kWidth at once: terms of all columns, which then are in the first-level cache, and then of these.
constexpr Count kTerms = 32;
template <Count kWidth, class T, class F>
inline void fold_columns_at_once(T* d, const T* s, Count stride, Count terms, bool is_first, F f) {
  T total[kWidth];
  for (Count l = 0; l < kWidth; ++l) total[l] = s[l];
  for (Count k = 1; k < terms; ++k)
    for (Count l = 0; l < kWidth; ++l) total[l] = f(total[l], s[k * stride + l]);
  for (Count l = 0; l < kWidth; ++l) d[l] = is_first ? total[l] : f(d[l], total[l]);
}
template <class T, class F>
inline void fold_wide_columns(T* d, const T* s, Count stride, Count steps, Count n, F f) {
  constexpr Count kWidth = 4 * REWRIGHT_VECTOR_BYTES / sizeof(T);
  for (Count first = 0; first < steps; first += kTerms, s += kTerms * stride) {
    const Count terms = steps - first < kTerms ? steps - first : kTerms;
    const bool is_first = first == 0;
    Count i = 0;
    for (; i + kWidth <= n; i += kWidth) fold_columns_at_once<kWidth>(d + i, s + i, stride, terms, is_first, f);
    for (; i + kWidth / 4 <= n; i += kWidth / 4) fold_columns_at_once<kWidth / 4>(d + i, s + i, stride, terms, is_first, f);
    for (; i < n; ++i) fold_columns_at_once<1>(d + i, s + i, stride, terms, is_first, f);
  }
}
// All columns of a matrix with few of them: kTerms rows as one vector.
constexpr Count kFewColumns = 16;
template <class T, class F>
inline void fold_few_columns(T* d, const T* s, Count steps, Count n, F f) {
  T total[kTerms * kFewColumns];
  const Count width = kTerms * n, all = steps * n;
  for (Count i = 0; i < width; ++i) total[i] = s[i];
  Count at = width;
  for (; at + width <= all; at += width)
#pragma GCC ivdep
    for (Count i = 0; i < width; ++i) total[i] = f(total[i], s[at + i]);
  for (Count i = 0; at + i < all; ++i) total[i] = f(total[i], s[at + i]);
  for (Count half = width / 2; half >= n; half /= 2)
#pragma GCC ivdep
    for (Count i = 0; i < half; ++i) total[i] = f(total[i], total[i + half]);
  for (Count i = 0; i < n; ++i) d[i] = total[i];
}
// Parts of kPartSteps, so that no sum is a long chain; the way does not depend on the width of vectors.
template <class T, class F>
inline void fold_columns(T* d, const T* s, Count stride, Count steps, Count n, F f) {
  constexpr Count kPartSteps = kTerms * kTerms, kPartColumns = 512;
  if (steps <= kPartSteps && !(stride == n && n <= kFewColumns && steps >= 2 * kTerms))
    return fold_wide_columns(d, s, stride, steps, n, f);
  for (Count i = 0; i < n; i += kPartColumns) {
    const Count columns = n - i < kPartColumns ? n - i : kPartColumns;
    T part[kPartColumns];
    for (Count first = 0; first < steps; first += kPartSteps) {
      const Count terms = steps - first < kPartSteps ? steps - first : kPartSteps;
      T* const to = first == 0 ? d + i : part;
      if (stride == n && n <= kFewColumns && terms >= kTerms)
        fold_few_columns(to, s + first * stride, terms, n, f);
      else
        fold_wide_columns(to, s + first * stride + i, stride, terms, columns, f);
      if (first > 0)
        for (Count c = 0; c < columns; ++c) d[i + c] = f(d[i + c], part[c]);
    }
  }
}
template <class T, class F>
void fold_each_column(T* d, const T* s, Count stride, Count steps, Count n) {
  fold_columns(d, s, stride, steps, n, F());
}

template <Count kElements, class T>
void gather_short_rows(T* d, const T* source, const I* starts, Count rows) {
  for (Count r = 0; r < rows; ++r) __builtin_memcpy(d + r * kElements, source + starts[r], kElements * sizeof(T));
}
// Copies vectors of known size: calling memcpy takes as long as copying a short row.
constexpr Count kAhead = 8;  // rows
template <class T>
void gather_rows(T* d, const T* source, const I* starts, Count rows, Count n) {
  constexpr Count kWidth = REWRIGHT_VECTOR_BYTES;
  const Count bytes = n * static_cast<Count>(sizeof(T));
  if (bytes < kWidth) {
    if (n == 2) return gather_short_rows<2>(d, source, starts, rows);
    if (n == 3) return gather_short_rows<3>(d, source, starts, rows);
    if (n == 4) return gather_short_rows<4>(d, source, starts, rows);
    if (n == 5) return gather_short_rows<5>(d, source, starts, rows);
    if (n == 6) return gather_short_rows<6>(d, source, starts, rows);
    if (n == 7) return gather_short_rows<7>(d, source, starts, rows);
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

// In pieces of known size, of which the last one overlaps the one before it.
template <Count kPiece>
inline void copy_rows_by(unsigned char* d, Count d_stride, const unsigned char* s, Count s_stride, Count rows, Count bytes) {
  for (Count r = 0; r < rows; ++r, d += d_stride, s += s_stride) {
    Count b = 0;
    for (; b + kPiece <= bytes; b += kPiece) __builtin_memcpy(d + b, s + b, kPiece);
    if (b < bytes) __builtin_memcpy(d + bytes - kPiece, s + bytes - kPiece, kPiece);
  }
}
void copy_rows(void* to, Count d_stride, const void* from, Count s_stride, Count rows, Count bytes) {
  constexpr Count kLong = 2048;
  auto* const d = static_cast<unsigned char*>(to);
  const auto* const s = static_cast<const unsigned char*>(from);
  if (bytes >= kLong)
    for (Count r = 0; r < rows; ++r) std::memcpy(d + r * d_stride, s + r * s_stride, static_cast<std::size_t>(bytes));
  else if (bytes >= REWRIGHT_VECTOR_BYTES)
    copy_rows_by<REWRIGHT_VECTOR_BYTES>(d, d_stride, s, s_stride, rows, bytes);
  else if (bytes >= 32)
    copy_rows_by<32>(d, d_stride, s, s_stride, rows, bytes);
  else if (bytes >= 16)
    copy_rows_by<16>(d, d_stride, s, s_stride, rows, bytes);
  else if (bytes >= 8)
    copy_rows_by<8>(d, d_stride, s, s_stride, rows, bytes);
  else if (bytes >= 4)
    copy_rows_by<4>(d, d_stride, s, s_stride, rows, bytes);
  else if (bytes >= 2)
    copy_rows_by<2>(d, d_stride, s, s_stride, rows, bytes);
  else
    copy_rows_by<1>(d, d_stride, s, s_stride, rows, bytes);
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
constexpr Count kLongCopy = 512;  // bytes
template <class T>
void scatter_rows(Combination how, T* y, const I* to, const T* x, const I* from, Count rows, Count n) {
  switch (how) {
    case Combination::kReplace:
      if (n * static_cast<Count>(sizeof(T)) < kLongCopy) return combine_rows(y, to, x, from, rows, n, [](T, T b) { return b; });
      for (Count r = 0; r < rows; ++r) std::memcpy(y + to[r], x + from[r], static_cast<std::size_t>(n) * sizeof(T));
      return;
    case Combination::kAdd:
      return combine_rows(y, to, x, from, rows, n, [](T a, T b) {
        if constexpr (std::is_integral_v<T>) return T(Bits<T>(a) + Bits<T>(b));
        return T(a + b);
      });
    case Combination::kMultiply:
      return combine_rows(y, to, x, from, rows, n, [](T a, T b) {
        if constexpr (std::is_integral_v<T>) return T(Bits<T>(a) * Bits<T>(b));
        return T(a * b);
      });
    case Combination::kMaximum:
      return combine_rows(y, to, x, from, rows, n, [](T a, T b) { return a < b ? b : a; });
    case Combination::kMinimum:
      return combine_rows(y, to, x, from, rows, n, [](T a, T b) { return b < a ? b : a; });
  }
}
// Some rows, so that totals are read and written once for all of them.
template <Count kRows, class T, class F>
inline void accumulate_rows(T* y, const T* x, Count stride, typename Arithmetic<T>::Total* totals, bool exclusive, Count n,
                            F f) {
  if (exclusive) {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) {
      auto total = totals[i];
      for (Count r = 0; r < kRows; ++r) {
        const auto next = f(total, x[r * stride + i]);
        y[r * stride + i] = static_cast<T>(total);
        total = next;
      }
      totals[i] = total;
    }
  } else {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) {
      auto total = totals[i];
      for (Count r = 0; r < kRows; ++r) {
        total = f(total, x[r * stride + i]);
        y[r * stride + i] = static_cast<T>(total);
      }
      totals[i] = total;
    }
  }
}
template <class T, class F>
inline void accumulate(T* y, const T* x, Count stride, Count rows, typename Arithmetic<T>::Total* totals, bool exclusive,
                       Count n, F f) {
  constexpr Count kTogether = 4;
  Count r = 0;
  for (; r + kTogether <= rows; r += kTogether)
    accumulate_rows<kTogether>(y + r * stride, x + r * stride, stride, totals, exclusive, n, f);
  for (; r < rows; ++r) accumulate_rows<1>(y + r * stride, x + r * stride, stride, totals, exclusive, n, f);
}
// Totals of floats stay in registers for all rows, some columns at a time; returns how many columns are done.
template <bool kProduct, bool kExclusive, Count kVectors>
inline Count accumulate_some_floats(float* y, const float* x, Count stride, Count rows, double* totals, Count n) {
  constexpr Count kWidth = REWRIGHT_VECTOR_BYTES / sizeof(double);
  typedef double Totals __attribute__((vector_size(kWidth * sizeof(double)), aligned(8), may_alias));
  typedef float Floats __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias));
  Count c = 0;
  for (; c + kVectors * kWidth <= n; c += kVectors * kWidth) {
    Totals total[kVectors];
#pragma GCC unroll 16
    for (Count k = 0; k < kVectors; ++k) total[k] = *reinterpret_cast<const Totals*>(totals + c + k * kWidth);
    for (Count r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (Count k = 0; k < kVectors; ++k) {
        const Count at = r * stride + c + k * kWidth;
        const Totals next = __builtin_convertvector(*reinterpret_cast<const Floats*>(x + at), Totals), before = total[k];
        total[k] = kProduct ? before * next : before + next;
        *reinterpret_cast<Floats*>(y + at) = __builtin_convertvector(kExclusive ? before : total[k], Floats);
      }
#pragma GCC unroll 16
    for (Count k = 0; k < kVectors; ++k) *reinterpret_cast<Totals*>(totals + c + k * kWidth) = total[k];
  }
  return c;
}
template <bool kProduct, bool kExclusive, Count kVectors = REWRIGHT_VECTOR_BYTES == 64 ? 16 : 8>
inline Count accumulate_floats(float* y, const float* x, Count stride, Count rows, double* totals, Count n) {
  const Count done = accumulate_some_floats<kProduct, kExclusive, kVectors>(y, x, stride, rows, totals, n);
  if constexpr (kVectors > 1)
    return done +
           accumulate_floats<kProduct, kExclusive, kVectors / 2>(y + done, x + done, stride, rows, totals + done, n - done);
  return done;
}
template <class T>
void run_on(T* y, const T* x, Count stride, Count rows, typename Arithmetic<T>::Total* totals, bool product, bool exclusive,
            Count n) {
  using Total = typename Arithmetic<T>::Total;
  if constexpr (std::is_same_v<T, float>) {
    const auto in_registers = product     ? exclusive ? accumulate_floats<true, true> : accumulate_floats<true, false>
                                  : exclusive ? accumulate_floats<false, true>
                                          : accumulate_floats<false, false>;
    const Count done = in_registers(y, x, stride, rows, totals, n);
    y += done, x += done, totals += done, n -= done;
  }
  const auto run = [&](auto f) { accumulate(y, x, stride, rows, totals, exclusive, n, f); };
  if constexpr (std::is_integral_v<T>) {
    if (product) return run([](I a, I b) { return I(std::uint64_t(a) * std::uint64_t(b)); });
    return run([](I a, I b) { return I(std::uint64_t(a) + std::uint64_t(b)); });
  } else {
    if (product) return run([](Total a, T b) { return a * Total(b); });
    return run([](Total a, T b) { return a + Total(b); });
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
template <class T, class M>
void compare_equal(M* d, const T* a, const T* b, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = a[i] == b[i];
}
template <class T, class M>
void compare_less(M* d, const T* a, const T* b, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = a[i] < b[i];
}
template <class T, class M>
void compare_less_equal(M* d, const T* a, const T* b, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = a[i] <= b[i];
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

// Squares of elements of one, two or four bytes are transposed in registers.
template <class T>
void transpose(T* d, const T* s, Count stride, Count rows, Count columns) {
  if (columns == 2) return interleave<2>(d, s, stride, rows);
  if (columns == 3) return interleave<3>(d, s, stride, rows);
  if (columns == 4) return interleave<4>(d, s, stride, rows);
  if (rows == 2 && stride == 2) return separate<2>(d, s, columns);
  if (rows == 3 && stride == 3) return separate<3>(d, s, columns);
  if (rows == 4 && stride == 4) return separate<4>(d, s, columns);
  Count whole_rows = 0, whole_columns = 0;
  if constexpr (sizeof(T) <= 4) {
    constexpr Count kSide = sizeof(T) == 4 ? kSquare : kSmallSquare;
    using Square = std::conditional_t<sizeof(T) == 4, float, std::conditional_t<sizeof(T) == 2, std::int16_t, std::int8_t>>;
    whole_rows = rows / kSide * kSide;
    whole_columns = columns / kSide * kSide;
    for (Count r = 0; r < whole_rows; r += kSide)
      for (Count c = 0; c < whole_columns; c += kSide)
        transpose_square(reinterpret_cast<Square*>(d + r * columns + c), columns,
                         reinterpret_cast<const Square*>(s + r + c * stride), stride);
  }
  for (Count r = 0; r < rows; ++r)
    for (Count c = r < whole_rows ? whole_columns : 0; c < columns; ++c) d[r * columns + c] = s[r + c * stride];
}

template <class T, class M>
constexpr void set_elements(Elements<T, M>& t) {
  t.add = add<T>;
  t.subtract = subtract<T>;
  t.multiply = multiply<T>;
  t.divide = divide<T>;
  t.maximum = maximum<T>;
  t.minimum = minimum<T>;
  if constexpr (std::is_integral_v<T>)
    t.multiply_add = multiply_add_integers<T>;
  else
    t.multiply_add = multiply_add<T>;
  t.select = select<T, M>;
  t.fill = fill<T>;
  t.spread = spread<T>;
  t.sum = fold_row<T, Plus>;
  t.row_sum = fold_rows<T, Plus>;
  t.product = fold_row<T, Times>;
  t.row_product = fold_rows<T, Times>;
  t.largest = fold_row<T, Larger>;
  t.row_largest = fold_rows<T, Larger>;
  t.smallest = fold_row<T, Smaller>;
  t.row_smallest = fold_rows<T, Smaller>;
  t.column_sum = fold_each_column<T, Plus>;
  t.column_product = fold_each_column<T, Times>;
  t.column_largest = fold_each_column<T, Larger>;
  t.column_smallest = fold_each_column<T, Smaller>;
  t.load = load<T>;
  t.store = store<T>;
  t.gather = gather<T>;
  t.gather_axis = gather_axis<T>;
  t.gather_rows = gather_rows<T>;
  t.scatter_rows = scatter_rows<T>;
  t.transpose = transpose<T>;
  t.compare_equal = compare_equal<T, M>;
  t.compare_less = compare_less<T, M>;
  t.compare_less_equal = compare_less_equal<T, M>;
}
template <class T>
constexpr void set_arithmetic(Arithmetic<T>& t) {
  set_elements(t);
  t.run_on = run_on<T>;
  t.find_best = find_best<T>;
}
template <class T>
constexpr void set_functions(IntegerFunctions<T>& t) {
  t.unary = find_integer_unary<T>;
  t.binary = find_integer_binary<T>;
  t.floor_divide = floor_divide<T>;
  t.floor_modulo = floor_modulo<T>;
  t.iota = iota<T>;
}
template <class N>
constexpr void set_narrow(NarrowLoops<N>& t) {
  set_elements(t);
  set_functions(t);
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
}

constexpr LoopTables make_tables() {
  LoopTables t{};
  set_real(t.f32);
  set_real(t.f64);
  set_arithmetic(t.i64);
  set_functions(t.i64);
  t.i64.are_inside = are_inside;
  t.i64.positions = positions;
  set_narrow(t.u8);
  set_narrow(t.i8);
  set_narrow(t.i16);
  set_narrow(t.i32);
  t.copy_rows = copy_rows;
  t.masks.select = select<float, std::int32_t>;
  t.masks.compare_equal = compare_equal<float, std::int32_t>;
  t.masks.compare_less = compare_less<float, std::int32_t>;
  t.masks.compare_less_equal = compare_less_equal<float, std::int32_t>;
  t.masks.from_integer = from_narrow;
  return t;
}
constexpr LoopTables kTables = make_tables();

}  // namespace

const LoopTables& LoopTables::REWRIGHT_ISA() { return kTables; }

}  // namespace rewright::cpu
