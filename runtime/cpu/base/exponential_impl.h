// The exponential's polynomial, for loops that are compiled for each instruction set.
#pragma once

namespace rewright::cpu {
namespace {

// exp(r) = 1 + r + r^2 * exp_polynomial(r) for |r| <= ln(2) / 2, as in Cephes' expf.
inline float exp_polynomial(float r) {
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  return p * r + 5.0000001201e-1f;
}

}  // namespace
}  // namespace rewright::cpu
