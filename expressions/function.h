// Scalar functions that denotations apply to elements, each with its laws.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "expressions/data_type.h"

namespace rewright {

// The symmetry of a function: f(-x) in terms of f(x).
enum class Symmetry {
  kNone,
  kEven,        // f(-x) = f(x)
  kOdd,         // f(-x) = -f(x)
  kComplement,  // f(-x) = 1 - f(x)
};

// A scalar function: its values on doubles and on integers, and the laws that the prover and the fingerprint may use. Functions
// are constants of the program and compared by address: `e->function == &functions::exp`.
struct Function {
  std::string_view name;
  int arity;
  double (*real)(const double* arguments);                           // null if it has no meaning on reals
  std::int64_t (*integer)(const std::int64_t* arguments) = nullptr;  // null if it has no meaning on integers
  bool returns_argument_scalar = true;                               // the result is of the arguments' kind; else of `result`
  Scalar result = Scalar::kReal;
  // Laws.
  bool zero_at_zero = false;  // f(0) = 0
  bool monotone = false;      // x <= y implies f(x) <= f(y)
  bool idempotent = false;    // f(f(x)) = f(x)
  bool commutative = false;   // f(x, y) = f(y, x)
  bool partial = false;       // not defined for all reals
  Symmetry symmetry = Symmetry::kNone;
  bool homogeneous = false;          // f(c x) = c f(x) for c > 0
  bool exponential = false;          // f(x + y) = f(x) f(y), f(0) = 1, f(x) != 0
  const Function* undoes = nullptr;  // f(g(x)) = x for this g and all x
  int flops = 1;                     // operations that one evaluation counts as
};

namespace functions {
extern const Function exp, log, sqrt, rsqrt, erf, tanh, sigmoid, sin, cos, tan, asin, acos, atan, sinh, cosh, asinh, acosh,
    atanh, pow, abs, sign, floor, ceil, round_even, softplus, integer_divide, floor_modulo, truncated_modulo, equal, less,
    less_equal, logical_not, logical_and, logical_or, logical_xor, is_nan, is_infinite, bit_and, bit_or, bit_xor, bit_not,
    shift_left, shift_right, shift_right_unsigned, nearest_float;
}  // namespace functions

std::span<const Function* const> all_functions();
const Function* find_function(std::string_view name);  // null if there is none

}  // namespace rewright
