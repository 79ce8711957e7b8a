// The derivatives of the scalar functions, stated like the laws in function.cc, as expressions.
#include <cmath>
#include <map>
#include <numbers>

#include "operators/gradient.h"

namespace rewright::operators {

namespace {

namespace fn = functions;
using X = std::span<const Element>;  // the arguments
using Y = const Element&;            // the function's value
using Which = std::size_t;           // the argument
using Derivative = Element (*)(X x, Y y, Which which);

Element one() { return real(1); }
Element square(const Element& e) { return e * e; }
Element zero(X, Y, Which) { return nullptr; }

// y = x[0] ** x[1]. At x[0] = 0 the derivative in a positive exponent is 0.
Element of_power(X x, Y y, Which which) {
  if (which == 0) return x[1] * apply(fn::pow, x[0], x[1] - one());
  const Element positive = apply(fn::less, real(0), x[0]);
  return select(positive, y * apply(fn::log, select(positive, x[0], one())), real(0));
}

// y = x[0] - q x[1], with an integer q.
Element of_remainder(X x, Y y, Which which) { return which == 0 ? one() : -((x[0] - y) / x[1]); }

const std::map<const Function*, Derivative>& derivatives() {
  static const std::map<const Function*, Derivative> all{
      {&fn::exp, [](X, Y y, Which) { return y; }},
      {&fn::log, [](X x, Y, Which) { return one() / x[0]; }},
      {&fn::sqrt, [](X, Y y, Which) { return real(0.5) / y; }},
      {&fn::rsqrt, [](X x, Y y, Which) { return real(-0.5) * y / x[0]; }},
      {&fn::erf, [](X x, Y, Which) { return real(2 / std::sqrt(std::numbers::pi)) * apply(fn::exp, -square(x[0])); }},
      {&fn::tanh, [](X, Y y, Which) { return one() - square(y); }},
      {&fn::sigmoid, [](X, Y y, Which) { return y * (one() - y); }},
      {&fn::softplus, [](X x, Y, Which) { return apply(fn::sigmoid, x[0]); }},
      {&fn::sin, [](X x, Y, Which) { return apply(fn::cos, x[0]); }},
      {&fn::cos, [](X x, Y, Which) { return -apply(fn::sin, x[0]); }},
      {&fn::tan, [](X, Y y, Which) { return one() + square(y); }},
      {&fn::asin, [](X x, Y, Which) { return one() / apply(fn::sqrt, one() - square(x[0])); }},
      {&fn::acos, [](X x, Y, Which) { return real(-1) / apply(fn::sqrt, one() - square(x[0])); }},
      {&fn::atan, [](X x, Y, Which) { return one() / (one() + square(x[0])); }},
      {&fn::sinh, [](X x, Y, Which) { return apply(fn::cosh, x[0]); }},
      {&fn::cosh, [](X x, Y, Which) { return apply(fn::sinh, x[0]); }},
      {&fn::asinh, [](X x, Y, Which) { return one() / apply(fn::sqrt, square(x[0]) + one()); }},
      {&fn::acosh, [](X x, Y, Which) { return one() / apply(fn::sqrt, square(x[0]) - one()); }},
      {&fn::atanh, [](X x, Y, Which) { return one() / (one() - square(x[0])); }},
      {&fn::abs, [](X x, Y, Which) { return apply(fn::sign, x[0]); }},
      {&fn::pow, of_power},
      {&fn::floor_modulo, of_remainder},
      {&fn::truncated_modulo, of_remainder},
      {&fn::nearest_float, [](X, Y, Which) { return one(); }},  // as a cast to float
      {&fn::sign, zero},
      {&fn::floor, zero},
      {&fn::ceil, zero},
      {&fn::round_even, zero},
      {&fn::equal, zero},
      {&fn::less, zero},
      {&fn::less_equal, zero},
      {&fn::logical_not, zero},
      {&fn::logical_and, zero},
      {&fn::logical_or, zero},
      {&fn::logical_xor, zero},
      {&fn::is_nan, zero},
      {&fn::is_infinite, zero},
  };
  return all;
}

}  // namespace

Element derivative(const Function& f, std::span<const Element> arguments, const Element& value, std::size_t which) {
  const auto at = derivatives().find(&f);
  if (at == derivatives().end())
    throw Error(ErrorCode::kUnsupported, "the function " + std::string(f.name) + " has no derivative");
  return at->second(arguments, value, which);
}

}  // namespace rewright::operators
