// A channels-last convolution for tests of kernels, with sums in double to compare with.
#pragma once

#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/testing/graphs.h"

namespace rewright::testing {

using cpu::Finish;
using cpu::ImageShape;
using cpu::Kernel;

inline constexpr float kUntouched = 7, kInf = std::numeric_limits<float>::infinity(),
                       kNan = std::numeric_limits<float>::quiet_NaN();

// A channels-last convolution, and its expected result.
struct Case {
  std::mt19937 random;
  ImageShape s;
  Tensor weights;  // plain
  std::vector<float> x, addend, y;
  Finish finish;

  explicit Case(unsigned seed) : random(seed) {}

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
  std::vector<float> numbers(std::int64_t count, float low, float high) {
    std::uniform_real_distribution<float> uniform(low, high);
    std::vector<float> result(static_cast<std::size_t>(count));
    for (float& v : result) v = uniform(random);
    return result;
  }
  // Chooses pads and sizes that leave at least one element of the result; then draws all numbers.
  void fill() {
    std::int64_t* const sizes[] = {&s.height, &s.width};
    std::int64_t* const out[] = {&s.out_height, &s.out_width};
    for (int a = 0; a < 2; ++a) {
      const std::int64_t window = (s.kernel[a] - 1) * s.dilations[a] + 1, pads_end = pick(0, window - 1);
      s.pads_begin[a] = pick(0, window - 1);
      *sizes[a] = std::max<std::int64_t>(*sizes[a], std::max<std::int64_t>(1, window - s.pads_begin[a] - pads_end));
      *out[a] = (*sizes[a] + s.pads_begin[a] + pads_end - window) / s.strides[a] + 1;
    }
    weights = random_tensor(random, DataType::kFloat, {s.outputs, s.channels / s.group, s.kernel[0], s.kernel[1]}, -1, 1);
    x = numbers(s.images * s.height * s.width * s.channels, -2, 2);
    const std::int64_t results = s.images * s.out_height * s.out_width * s.outputs;
    if (pick(0, 1)) finish.bias = numbers(s.outputs, -1, 1);
    finish.addend = pick(0, 1);
    if (finish.addend) addend = numbers(results, -1, 1);
    if (pick(0, 1)) finish.low = 0;
    if (pick(0, 2) == 0) finish.high = 3;
    y.assign(static_cast<std::size_t>(results), 7);
  }
  cpu::Weights given() const {
    return {[this] { return weights; },
            {},
            [](const cpu::ConstantOrigin&, const std::string&, std::size_t bytes, const cpu::Weights::Fill& write) {
              Tensor made(DataType::kUint8, {static_cast<std::int64_t>(bytes)});
              write(made.mutable_bytes().data());
              return made;
            }};
  }
  // Other channels behind a result's pixel must stay unchanged.
  void run(const Kernel& kernel, int threads) {
    const std::size_t outputs = static_cast<std::size_t>(s.outputs), pixels = y.size() / outputs;
    const std::size_t stride = finish.y_stride == 0 ? outputs : static_cast<std::size_t>(finish.y_stride);
    std::vector<float> stored(pixels * stride, kUntouched);
    const std::byte* const inputs[] = {reinterpret_cast<const std::byte*>(x.data()),
                                       reinterpret_cast<const std::byte*>(addend.data())};
    std::byte* const results[] = {reinterpret_cast<std::byte*>(stored.data())};
    Tensor scratch(DataType::kUint8, {static_cast<std::int64_t>(kernel.scratch_bytes())});
    kernel.run({inputs, results, scratch.mutable_bytes().data(), cpu::Workers(threads, 0)});
    int touched = 0;
    for (std::size_t p = 0; p < pixels; ++p)
      for (std::size_t c = 0; c < stride; ++c)
        if (c < outputs)
          y[p * outputs + c] = stored[p * stride + c];
        else
          touched += stored[p * stride + c] != kUntouched;
    CHECK(touched == 0);
  }
  // Sums in double. Sets `largest` to the largest of them, or 1.
  std::vector<double> expected(double& largest) const {
    largest = 1;
    std::vector<double> result;
    const auto w = weights.data<float>();
    const std::int64_t inputs = s.channels / s.group, per_group = s.outputs / s.group;
    for (std::int64_t n = 0; n < s.images; ++n)
      for (std::int64_t r = 0; r < s.out_height; ++r)
        for (std::int64_t q = 0; q < s.out_width; ++q)
          for (std::int64_t k = 0; k < s.outputs; ++k) {
            double sum = finish.bias.empty() ? 0 : finish.bias[static_cast<std::size_t>(k)];
            for (std::int64_t i = 0; i < s.kernel[0]; ++i)
              for (std::int64_t j = 0; j < s.kernel[1]; ++j) {
                const std::int64_t row = r * s.strides[0] + i * s.dilations[0] - s.pads_begin[0];
                const std::int64_t column = q * s.strides[1] + j * s.dilations[1] - s.pads_begin[1];
                if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
                for (std::int64_t c = 0; c < inputs; ++c)
                  sum +=
                      static_cast<double>(w[static_cast<std::size_t>(((k * inputs + c) * s.kernel[0] + i) * s.kernel[1] + j)]) *
                      x[static_cast<std::size_t>(((n * s.height + row) * s.width + column) * s.channels +
                                                 k / per_group * inputs + c)];
              }
            if (finish.addend) sum += addend[result.size()];
            if (std::isfinite(sum)) largest = std::max(largest, std::fabs(sum));
            // In this order NaN passes through.
            if (sum < finish.low) sum = finish.low;
            if (sum > finish.high) sum = finish.high;
            if (finish.function) sum = sum / (1 + std::exp(-sum));  // in tests the function is swish
            result.push_back(sum);
          }
    return result;
  }
  // The largest error relative to the largest sum; infinite if only one side is not finite.
  double error() const {
    double largest = 1, difference = 0;
    const std::vector<double> e = expected(largest);
    for (std::size_t i = 0; i < e.size(); ++i) {
      if (std::isnan(e[i]) != std::isnan(y[i]) || std::isinf(e[i]) != std::isinf(y[i])) return kInf;
      if (!std::isfinite(e[i])) continue;
      difference = std::max(difference, std::fabs(e[i] - y[i]));
    }
    return difference / largest;
  }
};

}  // namespace rewright::testing
