// The exponential's polynomial, for loops that are compiled for each instruction set.
#pragma once

namespace rewright::cpu {
namespace {

// exp(r) = 1 + r + r^2 * exp_polynomial(r) for |r| <= ln(2) / 2, as in Cephes' expf; the highest power first.
constexpr float kExpCoefficients[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                      4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
inline float exp_polynomial(float r) {
  float p = kExpCoefficients[0] * r + kExpCoefficients[1];
  p = p * r + kExpCoefficients[2];
  p = p * r + kExpCoefficients[3];
  p = p * r + kExpCoefficients[4];
  return p * r + kExpCoefficients[5];
}

}  // namespace
}  // namespace rewright::cpu
