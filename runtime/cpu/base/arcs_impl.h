// Inverse trigonometric functions of floats, for loops that are compiled for each instruction set.
#pragma once

#include <cmath>

#include "runtime/cpu/base/exponential_impl.h"

namespace rewright::cpu {
namespace {

// Half of pi as a float and the rest of it.
constexpr float kQuarterTurn = 1.57079637f, kQuarterTurnRest = -4.37113883e-8f;

// asin(s) = s + s z P(z), z = s^2, fitted on 0 <= s <= 1/2 with relative errors of asin below 2^-27.
inline float arc_sine_within(float s, float z) {
  float p = multiply_add(4.207386214e-02f, z, 2.424175626e-02f);
  p = multiply_add(p, z, 4.545550390e-02f);
  p = multiply_add(p, z, 7.495444256e-02f);
  p = multiply_add(p, z, 1.666674761e-01f);
  return multiply_add(s * z, p, s);
}
// Beyond 1/2 by asin(s) = pi/2 - 2 asin(sqrt((1 - s) / 2)): that arc sine, of |x| within 1/2 and of the root beyond.
struct HalfArc {
  bool within;
  float arc;  // NaN if |x| > 1
};
inline HalfArc half_arc(float x) {
  const float size = std::fabs(x);
  const bool within = size <= 0.5f;
  const float beside = 0.5f * (1.0f - size), z = within ? size * size : beside;
  return {within, arc_sine_within(within ? size : std::sqrt(beside), z)};
}
inline float arc_sine(float x) {
  const HalfArc h = half_arc(x);
  const float beyond = kQuarterTurn - ((h.arc + h.arc) - kQuarterTurnRest);
  return std::copysign(h.within ? h.arc : beyond, x);
}
inline float arc_cosine(float x) {
  const HalfArc h = half_arc(x);
  const float within = kQuarterTurn - (std::copysign(h.arc, x) - kQuarterTurnRest), twice = h.arc + h.arc;
  const float beyond = x < 0 ? 2 * kQuarterTurn - (twice - 2 * kQuarterTurnRest) : twice;
  return h.within ? within : beyond;
}

// atan(t) = t + t z P(z), z = t^2, fitted on 0 <= t <= 1 with relative errors below 2^-28; beyond 1 it is pi/2 - atan(1 / t).
inline float arc_tangent(float x) {
  const float size = std::fabs(x);
  const bool beyond = size > 1.0f;
  const float t = beyond ? 1.0f / size : size, z = t * t;
  float p = multiply_add(-1.838175032e-03f, z, 1.111510695e-02f);
  p = multiply_add(p, z, -3.155370977e-02f);
  p = multiply_add(p, z, 5.833735829e-02f);
  p = multiply_add(p, z, -8.425788553e-02f);
  p = multiply_add(p, z, 1.095988515e-01f);
  p = multiply_add(p, z, -1.426572316e-01f);
  p = multiply_add(p, z, 1.999868841e-01f);
  p = multiply_add(p, z, -3.333330377e-01f);
  const float arc = multiply_add(t * z, p, t);
  return std::copysign(beyond ? kQuarterTurn - (arc - kQuarterTurnRest) : arc, x);
}

}  // namespace
}  // namespace rewright::cpu
