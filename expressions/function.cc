#include "expressions/function.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "expressions/identity.h"
#include "expressions/power_of_two.h"

namespace rewright {

namespace functions {

namespace {

std::int64_t wrapping(std::uint64_t v) { return static_cast<std::int64_t>(v); }

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  std::uint64_t result = 1, factor = static_cast<std::uint64_t>(base);
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1) result *= factor;
  return wrapping(result);
}

constexpr Function unary(std::string_view name, double (*f)(const double*), int flops = 10) {
  return {.name = name, .arity = 1, .real = f, .flops = flops};
}
constexpr Function monotone(std::string_view name, double (*f)(const double*), bool zero_at_zero, int flops = 10) {
  return {.name = name, .arity = 1, .real = f, .zero_at_zero = zero_at_zero, .monotone = true, .flops = flops};
}
constexpr Function partial(Function f) {
  f.partial = true;
  return f;
}
constexpr Function symmetric(Symmetry symmetry, Function f) {
  f.symmetry = symmetry;
  return f;
}
constexpr Function odd(Function f) { return symmetric(Symmetry::kOdd, f); }
constexpr Function exponential(Function f) {
  f.exponential = true;
  return f;
}
constexpr Function undoing(const Function* other, Function f) {
  f.undoes = other;
  return f;
}
constexpr Function predicate(std::string_view name, int arity, double (*f)(const double*),
                             std::int64_t (*g)(const std::int64_t*), bool commutative = false) {
  return {.name = name,
          .arity = arity,
          .real = f,
          .integer = g,
          .returns_argument_scalar = false,
          .result = Scalar::kBoolean,
          .commutative = commutative};
}
constexpr Function integral(std::string_view name, int arity, std::int64_t (*g)(const std::int64_t*),
                            bool commutative = false) {
  return {.name = name, .arity = arity, .real = nullptr, .integer = g, .commutative = commutative};
}

}  // namespace

using D = const double*;
using I = const std::int64_t*;

const Function exp = exponential(monotone(
    "exp", [](D x) { return std::exp(x[0]); }, false));
const Function log = undoing(&exp, partial(monotone(
                                       "log", [](D x) { return std::log(x[0]); }, false)));
const Function sqrt = partial(monotone(
    "sqrt", [](D x) { return std::sqrt(x[0]); }, true, 4));
const Function rsqrt = partial(unary(
    "rsqrt", [](D x) { return 1 / std::sqrt(x[0]); }, 5));
const Function erf = odd(monotone(
    "erf", [](D x) { return std::erf(x[0]); }, true, 20));
const Function tanh = odd(monotone(
    "tanh", [](D x) { return std::tanh(x[0]); }, true, 15));
const Function sigmoid =
    symmetric(Symmetry::kComplement, monotone(
                                         "sigmoid", [](D x) { return 1 / (1 + std::exp(-x[0])); }, false, 12));
const Function sin = odd(unary("sin", [](D x) { return std::sin(x[0]); }));
const Function cos = symmetric(Symmetry::kEven, unary("cos", [](D x) { return std::cos(x[0]); }));
const Function tan = odd(unary("tan", [](D x) { return std::tan(x[0]); }));
const Function asin = odd(partial(monotone(
    "asin", [](D x) { return std::asin(x[0]); }, true)));
const Function acos = partial(unary("acos", [](D x) { return std::acos(x[0]); }));
const Function atan = odd(monotone(
    "atan", [](D x) { return std::atan(x[0]); }, true));
const Function sinh = odd(monotone(
    "sinh", [](D x) { return std::sinh(x[0]); }, true));
const Function cosh = symmetric(Symmetry::kEven, unary("cosh", [](D x) { return std::cosh(x[0]); }));
const Function asinh = odd(monotone(
    "asinh", [](D x) { return std::asinh(x[0]); }, true));
const Function acosh = partial(monotone(
    "acosh", [](D x) { return std::acosh(x[0]); }, false));
const Function atanh = odd(partial(monotone(
    "atanh", [](D x) { return std::atanh(x[0]); }, true)));
const Function softplus = monotone(
    "softplus", [](D x) { return std::max(x[0], 0.0) + std::log1p(std::exp(-std::fabs(x[0]))); }, false, 20);
const Function pow = {.name = "pow",
                      .arity = 2,
                      .real = [](D x) { return std::pow(x[0], x[1]); },
                      .integer = [](I x) { return integer_power(x[0], x[1]); },
                      .partial = true,
                      .flops = 20};
const Function abs = {.name = "abs",
                      .arity = 1,
                      .real = [](D x) { return std::fabs(x[0]); },
                      .integer = [](I x) { return x[0] < 0 ? wrapping(-static_cast<std::uint64_t>(x[0])) : x[0]; },
                      .zero_at_zero = true,
                      .idempotent = true,
                      .symmetry = Symmetry::kEven,
                      .homogeneous = true};
const Function sign = {.name = "sign",
                       .arity = 1,
                       .real = [](D x) { return std::isnan(x[0]) ? x[0] : static_cast<double>((x[0] > 0) - (x[0] < 0)); },
                       .integer = [](I x) -> std::int64_t { return (x[0] > 0) - (x[0] < 0); },
                       .zero_at_zero = true,
                       .monotone = true,
                       .idempotent = true,
                       .symmetry = Symmetry::kOdd};
const Function floor = {.name = "floor",
                        .arity = 1,
                        .real = [](D x) { return std::floor(x[0]); },
                        .integer = [](I x) { return x[0]; },
                        .zero_at_zero = true,
                        .monotone = true,
                        .idempotent = true};
const Function ceil = {.name = "ceil",
                       .arity = 1,
                       .real = [](D x) { return std::ceil(x[0]); },
                       .integer = [](I x) { return x[0]; },
                       .zero_at_zero = true,
                       .monotone = true,
                       .idempotent = true};
const Function round_even = {.name = "round",
                             .arity = 1,
                             .real = [](D x) { return std::nearbyint(x[0]); },
                             .integer = [](I x) { return x[0]; },
                             .zero_at_zero = true,
                             .monotone = true,
                             .idempotent = true,
                             .symmetry = Symmetry::kOdd};
const Function nearest_float = {.name = "nearest_float",
                                .arity = 1,
                                .real = [](D x) { return static_cast<double>(static_cast<float>(x[0])); },
                                .zero_at_zero = true,
                                .monotone = true,
                                .idempotent = true,
                                .symmetry = Symmetry::kOdd};
const Function power_of_two = {.name = "power_of_two",
                               .arity = 1,
                               .real =
                                   [](D x) {
                                     const double magnitude = std::fabs(x[0]);
                                     if (magnitude == 0 || !std::isfinite(magnitude)) return magnitude;
                                     return std::ldexp(1.0, std::ilogb(magnitude));
                                   },
                               .zero_at_zero = true,
                               .idempotent = true,
                               .symmetry = Symmetry::kEven};
// The remainder with the divisor's sign (the quotient is rounded down), and the one with the dividend's (towards zero).
const Function floor_modulo = {.name = "modulo",
                               .arity = 2,
                               .real =
                                   [](D x) {
                                     const double r = std::fmod(x[0], x[1]);
                                     if (r == 0) return std::copysign(0.0, x[1]);
                                     return (r < 0) != (x[1] < 0) ? r + x[1] : r;
                                   },
                               .integer = [](I x) -> std::int64_t {
                                 if (x[1] == 0 || x[1] == -1) return 0;
                                 const std::int64_t r = x[0] % x[1];
                                 return r != 0 && (r < 0) != (x[1] < 0) ? r + x[1] : r;
                               },
                               .flops = 5};
const Function integer_divide = integral("divide", 2, [](I x) -> std::int64_t {
  if (x[1] == 0) return 0;
  return x[1] == -1 ? wrapping(-static_cast<std::uint64_t>(x[0])) : x[0] / x[1];
});
const Function truncated_modulo = {.name = "fmod",
                                   .arity = 2,
                                   .real = [](D x) { return std::fmod(x[0], x[1]); },
                                   .integer = [](I x) -> std::int64_t { return x[1] == 0 || x[1] == -1 ? 0 : x[0] % x[1]; },
                                   .flops = 5};
const Function equal = predicate(
    "equal", 2, [](D x) -> double { return x[0] == x[1]; }, [](I x) -> std::int64_t { return x[0] == x[1]; }, true);
const Function less = predicate(
    "less", 2, [](D x) -> double { return x[0] < x[1]; }, [](I x) -> std::int64_t { return x[0] < x[1]; });
const Function less_equal = predicate(
    "less_equal", 2, [](D x) -> double { return x[0] <= x[1]; }, [](I x) -> std::int64_t { return x[0] <= x[1]; });
const Function logical_not = predicate("not", 1, nullptr, [](I x) -> std::int64_t { return !x[0]; });
const Function logical_and = predicate(
    "and", 2, nullptr, [](I x) -> std::int64_t { return x[0] && x[1]; }, true);
const Function logical_or = predicate(
    "or", 2, nullptr, [](I x) -> std::int64_t { return x[0] || x[1]; }, true);
const Function logical_xor = predicate(
    "xor", 2, nullptr, [](I x) -> std::int64_t { return !x[0] != !x[1]; }, true);
const Function is_nan = predicate(
    "is_nan", 1, [](D x) -> double { return std::isnan(x[0]); }, nullptr);
const Function is_infinite = predicate(
    "is_infinite", 1, [](D x) -> double { return std::isinf(x[0]); }, nullptr);
const Function bit_and = integral(
    "bit_and", 2, [](I x) { return x[0] & x[1]; }, true);
const Function bit_or = integral(
    "bit_or", 2, [](I x) { return x[0] | x[1]; }, true);
const Function bit_xor = integral(
    "bit_xor", 2, [](I x) { return x[0] ^ x[1]; }, true);
const Function bit_not = integral("bit_not", 1, [](I x) { return ~x[0]; });
const Function shift_left = integral(
    "shift_left", 2, [](I x) { return x[1] < 0 || x[1] > 63 ? 0 : wrapping(static_cast<std::uint64_t>(x[0]) << x[1]); });
const Function shift_right =
    integral("shift_right", 2, [](I x) -> std::int64_t { return x[1] < 0 || x[1] > 63 ? (x[0] < 0 ? -1 : 0) : x[0] >> x[1]; });
const Function shift_right_unsigned = integral("shift_right_unsigned", 2, [](I x) {
  return x[1] < 0 || x[1] > 63 ? 0 : wrapping(static_cast<std::uint64_t>(x[0]) >> x[1]);
});

}  // namespace functions

std::span<const Function* const> all_functions() {
  using namespace functions;
  static const std::array<const Function*, 46> kAll = {&exp,
                                                       &log,
                                                       &sqrt,
                                                       &rsqrt,
                                                       &erf,
                                                       &tanh,
                                                       &sigmoid,
                                                       &sin,
                                                       &cos,
                                                       &tan,
                                                       &asin,
                                                       &acos,
                                                       &atan,
                                                       &sinh,
                                                       &cosh,
                                                       &asinh,
                                                       &acosh,
                                                       &atanh,
                                                       &softplus,
                                                       &pow,
                                                       &abs,
                                                       &sign,
                                                       &floor,
                                                       &ceil,
                                                       &round_even,
                                                       &floor_modulo,
                                                       &integer_divide,
                                                       &truncated_modulo,
                                                       &functions::equal,
                                                       &functions::less,
                                                       &functions::less_equal,
                                                       &logical_not,
                                                       &logical_and,
                                                       &logical_or,
                                                       &logical_xor,
                                                       &is_nan,
                                                       &is_infinite,
                                                       &bit_and,
                                                       &bit_or,
                                                       &bit_xor,
                                                       &bit_not,
                                                       &shift_left,
                                                       &shift_right,
                                                       &shift_right_unsigned,
                                                       &nearest_float,
                                                       &power_of_two};
  return kAll;
}

const Function* find_function(std::string_view name) {
  for (const Function* f : all_functions())
    if (f->name == name) return f;
  return nullptr;
}

std::optional<std::int64_t> right_identity(const Function& f) {
  if (&f == &functions::pow || &f == &functions::logical_and) return 1;
  const Function* const zero[] = {&functions::logical_or, &functions::logical_xor, &functions::bit_or, &functions::bit_xor};
  return std::find(std::begin(zero), std::end(zero), &f) == std::end(zero) ? std::nullopt : std::optional<std::int64_t>(0);
}

}  // namespace rewright
