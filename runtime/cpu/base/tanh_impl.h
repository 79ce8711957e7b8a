// The hyperbolic tangent of floats, for loops that are compiled for each instruction set.
#pragma once

namespace rewright::cpu {
namespace {

// tanh(x) = x P(x^2) / Q(x^2), fitted on |x| < 9.02, beyond which the nearest float is 1 or -1, and bounded, since roundings
// may exceed 1. Errors are below 3 units of 2^-23.
constexpr float kTanhEnd = 9.02f;
constexpr float kTanhAbove[] = {1.331747188e-08f, 2.058234628e-05f, 3.493967469e-03f, 1.337966247e-01f, 9.999999792e-01f};
constexpr float kTanhBelow[] = {7.761368826e-07f, 3.282981568e-04f, 2.587082087e-02f, 4.671297779e-01f, 1.0f};

}  // namespace
}  // namespace rewright::cpu
