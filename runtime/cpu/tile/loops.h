// The vector loops of tile programs, one table for each instruction set and real type.
//
// Every loop works on `n` elements. Real elements are float or double; integers and truth values are std::int64_t, or narrower
// where that is enough (narrow_integers in narrow.h). Destinations may equal sources.
#pragma once

#include <cstdint>
#include <type_traits>

#include "expressions/function.h"
#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

using Count = std::int64_t;

// How a scattered element is combined with the existing one. Maximum and minimum as std::max and std::min; integers wrap.
enum class Combination { kReplace, kAdd, kMultiply, kMaximum, kMinimum };

// Mask: the type of truth values.
template <class T, class Mask = std::int64_t>
struct Elements {
  using Binary = void (*)(T* d, const T* a, const T* b, Count n);
  Binary add, subtract, multiply, divide, maximum, minimum;
  void (*multiply_add)(T* d, const T* a, const T* b, const T* c, Count n);  // a * b + c
  void (*select)(T* d, const Mask* condition, const T* a, const T* b, Count n);
  void (*fill)(T* d, T value, Count n);
  void (*spread)(T* d, const T* values, Count rows, Count n);  // d[r * n + e] = values[r]
  T (*sum)(const T* a, Count n);
  T (*product)(const T* a, Count n);
  T (*largest)(const T* a, Count n);   // n >= 1; NaN if there is one
  T (*smallest)(const T* a, Count n);  // n >= 1
  // These of each row: of a[r * n], ..., a[r * n + n - 1] for r < rows, with the same bits
  using Rows = void (*)(T* d, const T* a, Count rows, Count n);
  Rows row_sum, row_product, row_largest, row_smallest;
  // Sum, product, largest and smallest of s[i], s[i + stride], ..., s[i + (steps - 1) * stride] for each i; steps >= 1
  using Columns = void (*)(T* d, const T* s, Count stride, Count steps, Count n);
  Columns column_sum, column_product, column_largest, column_smallest;
  // d[i] = source[i * stride], converted from the tensor's type; strides in elements.
  void (*load)(T* d, const void* source, DataType type, Count stride, Count n);
  void (*store)(void* d, DataType type, Count stride, const T* a, Count n);
  void (*gather)(T* d, const void* source, DataType type, const std::int64_t* offsets, Count n);
  // d[i] = source[p * apart + i * step], converted from the tensor's type, where p is the position of indices[i] on an axis of
  // this size (IntegerLoops::positions). Is every index one of that axis?
  bool (*gather_axis)(T* d, const void* source, DataType type, const std::int64_t* indices, std::int64_t size, Count apart,
                      Count step, Count n);
  // d[r * n + e] = source[starts[r] + e]
  void (*gather_rows)(T* d, const T* source, const std::int64_t* starts, Count rows, Count n);
  // y[to[r] + e] = y[to[r] + e] combined with x[from[r] + e], one row after the other
  void (*scatter_rows)(Combination how, T* y, const std::int64_t* to, const T* x, const std::int64_t* from, Count rows,
                       Count n);
  // d[r * columns + c] = s[r + c * stride]
  void (*transpose)(T* d, const T* s, Count stride, Count rows, Count columns);
  void (*compare_equal)(Mask* d, const T* a, const T* b, Count n);
  void (*compare_less)(Mask* d, const T* a, const T* b, Count n);
  void (*compare_less_equal)(Mask* d, const T* a, const T* b, Count n);
};

template <class T>
struct Arithmetic : Elements<T> {
  // Running sums or products down the columns of some rows, which are `stride` apart, of integers with wrapping and of reals in
  // double: the next total is that combined with x[i]; y[i], which may be x[i], becomes it, or the previous one if `exclusive`.
  using Total = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  void (*run_on)(T* y, const T* x, Count stride, Count rows, Total* totals, bool product, bool exclusive, Count n);
  // Where candidates x[i] are larger (or smaller) than best[i], or the first NaN, or equal if `last`: they become the best, and
  // where[i] the position.
  void (*find_best)(T* best, std::int64_t* where, const T* x, std::int64_t position, bool largest, bool last, Count n);
};

template <class R>
struct RealLoops : Arithmetic<R> {
  using Unary = void (*)(R* d, const R* a, Count n);
  using Predicate = void (*)(std::int64_t* d, const R* a, Count n);
  // A loop for the function, or null. Errors are below 2 units in the last place; for asin, tanh, sigmoid and softplus below 4,
  // for erf below 6.
  Unary (*unary)(const Function& function);
  typename Elements<R>::Binary (*binary)(const Function& function);
  Predicate (*predicate)(const Function& function);
  void (*to_integer)(std::int64_t* d, const R* a, Count n);  // towards zero, saturating; NaN gives 0
  void (*from_integer)(R* d, const std::int64_t* a, Count n);
  // d[i] = a[i] where x[i] and y[i] compare so, else b[i]
  using Choice = void (*)(R* d, const R* x, const R* y, const R* a, const R* b, Count n);
  Choice select_equal, select_less, select_less_equal;
};

// Functions of integers of type T.
template <class T>
struct IntegerFunctions {
  using Unary = void (*)(T* d, const T* a, Count n);
  using Binary = void (*)(T* d, const T* a, const T* b, Count n);
  Unary (*unary)(const Function& function);  // a loop for the function, or null
  Binary (*binary)(const Function& function);
  Binary floor_divide, floor_modulo;  // by 0: 0
  void (*iota)(T* d, std::int64_t start, std::int64_t step, Count n);
};

// Integers of 8, 16 or 32 bits, truth values among them. Results wrap. Tensors read and written are of integers.
template <class N>
struct NarrowLoops : Elements<N, N>, IntegerFunctions<N> {
  using typename IntegerFunctions<N>::Binary;
};

// Floats beside integers of 32 bits.
struct NarrowMasks {
  void (*select)(float* d, const std::int32_t* condition, const float* a, const float* b, Count n);
  using Compare = void (*)(std::int32_t* d, const float* a, const float* b, Count n);
  Compare compare_equal, compare_less, compare_less_equal;
  void (*from_integer)(float* d, const std::int32_t* a, Count n);
};

struct IntegerLoops : Arithmetic<std::int64_t>, IntegerFunctions<std::int64_t> {
  using IntegerFunctions<std::int64_t>::Binary;
  // Are all indices valid for an axis of this size (negative ones count from its end)? And their positions; 0 for invalid ones.
  bool (*are_inside)(const std::int64_t* indices, std::int64_t size, Count n);
  void (*positions)(std::int64_t* d, const std::int64_t* indices, std::int64_t size, Count n);
};

struct LoopTables {
  // The tables for each instruction set; loops_for<LoopTables>(isa) chooses.
  static const LoopTables &baseline(), &avx2(), &avx512();

  RealLoops<float> f32;
  RealLoops<double> f64;
  IntegerLoops i64;
  NarrowLoops<std::uint8_t> u8;
  NarrowLoops<std::int8_t> i8;
  NarrowLoops<std::int16_t> i16;
  NarrowLoops<std::int32_t> i32;
  NarrowMasks masks;
  // Copies rows of so many bytes; strides are in bytes.
  void (*copy_rows)(void* to, Count to_stride, const void* from, Count from_stride, Count rows, Count bytes);
};

template <class R>
const RealLoops<R>& real_loops(Isa isa) {
  if constexpr (std::is_same_v<R, float>)
    return loops_for<LoopTables>(isa).f32;
  else
    return loops_for<LoopTables>(isa).f64;
}

}  // namespace rewright::cpu
