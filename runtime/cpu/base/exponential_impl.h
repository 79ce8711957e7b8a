// The exponential's polynomial, for loops that are compiled for each instruction set.
#pragma once

#include <cstddef>
#include <iterator>

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
inline float exp_polynomial(float r) {
  float p = kExpCoefficients[0];
  for (std::size_t i = 1; i < std::size(kExpCoefficients); ++i) p = multiply_add(p, r, kExpCoefficients[i]);
  return p;
}

}  // namespace
}  // namespace rewright::cpu
