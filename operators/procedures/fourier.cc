#include "operators/procedures/fourier.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numbers>
#include <utility>

namespace rewright::operators {

namespace {

constexpr std::int64_t kLanes = Fourier::kLanes;
constexpr std::int64_t kMostRadix = 31;
using Complex = std::complex<double>;
using Lanes = std::array<double, kLanes>;

struct Numbers {
  Lanes re, im;
};
inline Numbers load(const double* re, const double* im, std::int64_t at) {
  Numbers x;
  for (std::int64_t l = 0; l < kLanes; ++l) x.re[l] = re[at * kLanes + l], x.im[l] = im[at * kLanes + l];
  return x;
}
inline void store(double* re, double* im, std::int64_t at, const Numbers& x) {
  for (std::int64_t l = 0; l < kLanes; ++l) re[at * kLanes + l] = x.re[l], im[at * kLanes + l] = x.im[l];
}
inline Numbers operator+(const Numbers& a, const Numbers& b) {
  Numbers x;
  for (std::int64_t l = 0; l < kLanes; ++l) x.re[l] = a.re[l] + b.re[l], x.im[l] = a.im[l] + b.im[l];
  return x;
}
inline Numbers operator-(const Numbers& a, const Numbers& b) {
  Numbers x;
  for (std::int64_t l = 0; l < kLanes; ++l) x.re[l] = a.re[l] - b.re[l], x.im[l] = a.im[l] - b.im[l];
  return x;
}
inline Numbers operator*(const Numbers& a, const Complex& w) {
  const double re = w.real(), im = w.imag();
  Numbers x;
  for (std::int64_t l = 0; l < kLanes; ++l) {
    x.re[l] = a.re[l] * re - a.im[l] * im;
    x.im[l] = a.re[l] * im + a.im[l] * re;
  }
  return x;
}
inline Numbers times_minus_i(const Numbers& a) {
  Numbers x;
  for (std::int64_t l = 0; l < kLanes; ++l) x.re[l] = a.im[l], x.im[l] = -a.re[l];
  return x;
}

// Transforms of kRadix numbers.
template <std::int64_t kRadix>
inline void butterfly(Numbers (&a)[kRadix]) {
  if constexpr (kRadix == 2) {
    const Numbers sum = a[0] + a[1];
    a[1] = a[0] - a[1];
    a[0] = sum;
  } else if constexpr (kRadix == 3) {
    const Numbers sum = a[1] + a[2], side = times_minus_i(a[1] - a[2]) * Complex(0.5 * std::numbers::sqrt3);
    const Numbers middle = a[0] - sum * Complex(0.5);
    a[0] = a[0] + sum;
    a[1] = middle + side;
    a[2] = middle - side;
  } else {
    static_assert(kRadix == 4);
    const Numbers even = a[0] + a[2], odd = a[1] + a[3], even_difference = a[0] - a[2];
    const Numbers odd_difference = times_minus_i(a[1] - a[3]);
    a[0] = even + odd;
    a[1] = even_difference + odd_difference;
    a[2] = even - odd;
    a[3] = even_difference - odd_difference;
  }
}

std::vector<Complex> roots_of_unity(std::int64_t length) {
  std::vector<Complex> roots;
  for (std::int64_t n = 0; n < length; ++n)
    roots.push_back(std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(n) / static_cast<double>(length)));
  return roots;
}

// A pass of Stockham's algorithm: transforms of `radix` numbers in each of `stride` interleaved transforms of n numbers,
//   y[q + stride * (radix * p + j)] = exp(-2 pi i p j / n) * sum(k) exp(-2 pi i j k / radix) x[q + stride * (p + n / radix *
//   k)].
struct Pass {
  const double *x_re, *x_im;
  double *y_re, *y_im;
  std::int64_t n, stride;
  const std::vector<Complex>& roots;  // of the whole length n * stride, so that exp(-2 pi i p / n) is number p * stride

  template <std::int64_t kRadix>
  void run() const {
    const std::int64_t m = n / kRadix;
    for (std::int64_t p = 0; p < m; ++p) {
      Complex turns[kRadix];
      for (std::int64_t j = 1; j < kRadix; ++j) turns[j] = roots[static_cast<std::size_t>(p * j * stride)];
      for (std::int64_t q = 0; q < stride; ++q) {
        Numbers a[kRadix];
        for (std::int64_t k = 0; k < kRadix; ++k) a[k] = load(x_re, x_im, q + stride * (p + m * k));
        butterfly(a);
        store(y_re, y_im, q + stride * kRadix * p, a[0]);
        for (std::int64_t j = 1; j < kRadix; ++j) store(y_re, y_im, q + stride * (kRadix * p + j), a[j] * turns[j]);
      }
    }
  }

  void run_any(std::int64_t radix) const {
    const std::int64_t m = n / radix, whole = n * stride, apart = whole / radix;
    std::array<Numbers, kMostRadix> a;
    for (std::int64_t p = 0; p < m; ++p)
      for (std::int64_t q = 0; q < stride; ++q) {
        for (std::int64_t k = 0; k < radix; ++k) a[static_cast<std::size_t>(k)] = load(x_re, x_im, q + stride * (p + m * k));
        for (std::int64_t j = 0; j < radix; ++j) {
          Numbers total = a[0];
          for (std::int64_t k = 1; k < radix; ++k)
            total = total + a[static_cast<std::size_t>(k)] * roots[static_cast<std::size_t>(j * k % radix * apart)];
          store(y_re, y_im, q + stride * (radix * p + j), total * roots[static_cast<std::size_t>(p * j * stride)]);
        }
      }
  }
};

}  // namespace

Fourier::Fourier(std::int64_t length) : length_(length) {
  std::int64_t left = length;
  for (const std::int64_t radix : {4, 2, 3})
    for (; left % radix == 0; left /= radix) factors_.push_back(radix);
  for (std::int64_t radix = 5; radix <= kMostRadix; radix += 2)
    for (; left % radix == 0; left /= radix) factors_.push_back(radix);
  if (left == 1) {
    roots_ = roots_of_unity(length);
    return;
  }
  // k n = (k^2 + n^2 - (k - n)^2) / 2: a convolution with exp(pi i n^2 / length).
  const std::vector<Complex> halves = roots_of_unity(2 * length);
  for (std::int64_t n = 0, square = 0; n < length; ++n) {
    chirp_.push_back(halves[static_cast<std::size_t>(square)]);
    square = (square + 2 * n + 1) % (2 * length);
  }
  const auto padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(2 * length - 1)));
  padded_ = std::make_unique<const Fourier>(padded);
  std::vector<double> re(static_cast<std::size_t>(padded * kLanes)), im(re.size());
  for (std::int64_t n = 0; n < length; ++n)
    for (const std::int64_t at : {n, (padded - n) % padded}) {
      re[static_cast<std::size_t>(at * kLanes)] = chirp_[static_cast<std::size_t>(n)].real();
      im[static_cast<std::size_t>(at * kLanes)] = -chirp_[static_cast<std::size_t>(n)].imag();
    }
  padded_->transform(re, im);
  for (std::int64_t n = 0; n < padded; ++n)
    filter_.push_back(Complex(re[static_cast<std::size_t>(n * kLanes)], im[static_cast<std::size_t>(n * kLanes)]) /
                      static_cast<double>(padded));
}

void Fourier::transform(std::vector<double>& real, std::vector<double>& imaginary) const {
  if (padded_ != nullptr) return by_convolution(real, imaginary);
  std::vector<double> other_real(real.size()), other_imaginary(real.size());
  std::int64_t n = length_, stride = 1;
  for (const std::int64_t radix : factors_) {
    const Pass pass{real.data(), imaginary.data(), other_real.data(), other_imaginary.data(), n, stride, roots_};
    radix == 2 ? pass.run<2>() : radix == 3 ? pass.run<3>() : radix == 4 ? pass.run<4>() : pass.run_any(radix);
    real.swap(other_real);
    imaginary.swap(other_imaginary);
    n /= radix;
    stride *= radix;
  }
}

void Fourier::by_convolution(std::vector<double>& real, std::vector<double>& imaginary) const {
  std::vector<double> re(static_cast<std::size_t>(padded_->length_ * kLanes)), im(re.size());
  for (std::int64_t n = 0; n < length_; ++n)
    store(re.data(), im.data(), n, load(real.data(), imaginary.data(), n) * chirp_[static_cast<std::size_t>(n)]);
  padded_->transform(re, im);
  for (std::int64_t n = 0; n < padded_->length_; ++n)
    store(re.data(), im.data(), n, load(re.data(), im.data(), n) * filter_[static_cast<std::size_t>(n)]);
  padded_->transform(im, re);  // back: exp(+2 pi i ...)
  for (std::int64_t n = 0; n < length_; ++n)
    store(real.data(), imaginary.data(), n, load(re.data(), im.data(), n) * chirp_[static_cast<std::size_t>(n)]);
}

}  // namespace rewright::operators
