// The exponential's polynomial, for loops that are compiled for each instruction set.
#pragma once

namespace rewright::cpu {
namespace {

// x * y + z, rounded once wherever the instruction set can: whether a compiler contracts the expression depends on its
// optimization, and results would depend on it, too.
inline float multiply_add(float x, float y, float z) {
#ifdef __FMA__
  return __builtin_fmaf(x, y, z);
#else
  return x * y + z;
#endif
}

// exp(r) = 1 + r + r^2 * exp_polynomial(r) for |r| <= ln(2) / 2, as in Cephes' expf; the highest power first.
constexpr float kExpCoefficients[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                      4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
// Written out: GCC 12 does not vectorize loops around a loop over the coefficients.
inline float exp_polynomial(float r) {
  float p = multiply_add(kExpCoefficients[0], r, kExpCoefficients[1]);
  p = multiply_add(p, r, kExpCoefficients[2]);
  p = multiply_add(p, r, kExpCoefficients[3]);
  p = multiply_add(p, r, kExpCoefficients[4]);
  return multiply_add(p, r, kExpCoefficients[5]);
}

}  // namespace
}  // namespace rewright::cpu
