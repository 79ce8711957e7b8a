// Discrete Fourier transforms of any length in n log n operations: by factors up to 31, and by Bluestein's algorithm
// (convolution with a chirp) where a larger prime divides the length. https://en.wikipedia.org/wiki/Chirp_Z-transform
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace rewright::operators {

class Fourier {
 public:
  static constexpr std::int64_t kLanes = 8;  // signals that are transformed at once

  explicit Fourier(std::int64_t length);  // >= 1

  // y[k] = sum(n) x[n] * exp(-2 pi i k n / length), of each lane; entry n of lane l stands at n * kLanes + l. Exchange the two
  // arrays for exp(+2 pi i ...).
  void transform(std::vector<double>& real, std::vector<double>& imaginary) const;

 private:
  void by_convolution(std::vector<double>& real, std::vector<double>& imaginary) const;

  std::int64_t length_;
  std::vector<std::int64_t> factors_;
  std::vector<std::complex<double>> roots_;  // exp(-2 pi i n / length)
  // Bluestein's algorithm: the chirp exp(-pi i n^2 / length), the transform of its conjugate, and the length of the
  // convolution.
  std::vector<std::complex<double>> chirp_, filter_;
  std::unique_ptr<const Fourier> padded_;
};

}  // namespace rewright::operators
