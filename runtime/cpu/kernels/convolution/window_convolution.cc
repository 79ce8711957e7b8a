// Depthwise convolutions with any window, strides and dilations, of images and volumes: those that depthwise_convolution.cc has
// no loops for. A row of results is computed from the list of the window's taps that are inside of the image.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/loops/convolution_loops.h"

namespace rewright::cpu {

namespace {

constexpr double kTapMultiplications = 25;  // a nanosecond

class WindowConvolution final : public Kernel {
 public:
  WindowConvolution(const VolumeShape& shape, const Weights& weights, Finish finish, Isa isa)
      : s_(shape.image), axis_(shape.axis), finish_(std::move(finish)), loops_(loops_for<ConvolutionLoops>(isa)) {
    const std::int64_t channels = s_.channels, lanes = loops_.lanes, stored = (channels + lanes - 1) / lanes * lanes;
    window_ = axis_.kernel * s_.kernel[0] * s_.kernel[1];
    weights_ = weights.prepared(
        "depthwise " + std::to_string(lanes), sizeof(float) * static_cast<std::size_t>(stored * window_),
        [&](std::byte* bytes) {
          const Tensor plain = weights.plain();
          const auto w = plain.data<float>();
          const std::span to(reinterpret_cast<float*>(bytes), static_cast<std::size_t>(stored * window_));
          for (std::int64_t c = 0; c < stored; ++c)
            for (std::int64_t k = 0; k < window_; ++k) {
              const std::int64_t at = (c / lanes * window_ + k) * lanes + c % lanes;
              to[static_cast<std::size_t>(at)] = c < channels ? w[static_cast<std::size_t>(c * window_ + k)] : 0.0f;
            }
        });
    finish_.bias.resize(static_cast<std::size_t>(stored));
    if (finish_.y_stride == 0) finish_.y_stride = channels;
    // The results whose windows have all their columns inside of the image.
    const std::int64_t reach = (s_.kernel[1] - 1) * s_.dilations[1], last = s_.width - 1 + s_.pads_begin[1] - reach;
    inner_begin_ = std::min(s_.out_width, (s_.pads_begin[1] + s_.strides[1] - 1) / s_.strides[1]);
    inner_end_ = last < 0 ? inner_begin_ : std::clamp(last / s_.strides[1] + 1, inner_begin_, s_.out_width);
  }

  void run(const Call& call) const override {
    const std::int64_t rows = s_.images * axis_.out_planes * s_.out_height;
    const double products = static_cast<double>(rows * s_.out_width) * static_cast<double>(window_ * s_.channels);
    call.workers.for_each(rows, products / kTapMultiplications, [&](std::int64_t row, int) { compute(call, row); });
  }

 private:
  struct Taps {
    std::vector<std::int64_t> at, of;
  };

  void compute(const Call& call, std::int64_t row) const {
    static thread_local Taps taps;
    for (std::int64_t q = 0; q < inner_begin_; ++q) compute(call, row, q, 1, taps);
    compute(call, row, inner_begin_, inner_end_ - inner_begin_, taps);
    for (std::int64_t q = inner_end_; q < s_.out_width; ++q) compute(call, row, q, 1, taps);
    if (!finish_.function) return;
    float* const y = reinterpret_cast<float*>(call.outputs[0]) + row * s_.out_width * finish_.y_stride;
    if (finish_.y_stride == s_.channels) return finish_.function(y, s_.out_width * s_.channels);
    for (std::int64_t q = 0; q < s_.out_width; ++q) finish_.function(y + q * finish_.y_stride, s_.channels);
  }

  // The results of a row from column `first` on, whose windows have the same columns inside of the image.
  void compute(const Call& call, std::int64_t row, std::int64_t first, std::int64_t count, Taps& taps) const {
    if (count <= 0) return;
    find_taps(row, first, taps);
    const std::int64_t pixel = row * s_.out_width + first;
    ConvolutionLoops::TapTile t{};
    t.x_stride = s_.strides[1] * s_.channels, t.channels = s_.channels;
    t.at = taps.at.data(), t.of = taps.of.data(), t.taps = static_cast<std::int64_t>(taps.at.size());
    t.w = reinterpret_cast<const float*>(weights_.bytes().data()), t.window = window_;
    t.y_stride = finish_.y_stride, t.bias = finish_.bias.data(), t.low = finish_.low, t.high = finish_.high;
    for (std::int64_t q = 0; q < count; q += t.pixels) {
      t.pixels = std::min(loops_.most_tap_pixels, count - q);
      t.x = reinterpret_cast<const float*>(call.inputs[0]) + q * t.x_stride;
      t.y = reinterpret_cast<float*>(call.outputs[0]) + (pixel + q) * t.y_stride;
      t.addend = finish_.addend ? reinterpret_cast<const float*>(call.inputs[1]) + (pixel + q) * s_.channels : nullptr;
      loops_.tap_tile(t);
    }
  }

  // The taps of the window of the result at this row and column that are inside of the image: their elements in the input, and
  // their numbers in the window.
  void find_taps(std::int64_t row, std::int64_t column, Taps& taps) const {
    taps.at.clear(), taps.of.clear();
    const std::int64_t plane = row / s_.out_height % axis_.out_planes, image = row / s_.out_height / axis_.out_planes;
    for (std::int64_t i = 0; i < axis_.kernel; ++i) {
      const std::int64_t z = plane * axis_.stride + i * axis_.dilation - axis_.pad_begin;
      if (z < 0 || z >= axis_.planes) continue;
      for (std::int64_t r = 0; r < s_.kernel[0]; ++r) {
        const std::int64_t y = row % s_.out_height * s_.strides[0] + r * s_.dilations[0] - s_.pads_begin[0];
        if (y < 0 || y >= s_.height) continue;
        for (std::int64_t k = 0; k < s_.kernel[1]; ++k) {
          const std::int64_t x = column * s_.strides[1] + k * s_.dilations[1] - s_.pads_begin[1];
          if (x < 0 || x >= s_.width) continue;
          taps.at.push_back((((image * axis_.planes + z) * s_.height + y) * s_.width + x) * s_.channels);
          taps.of.push_back((i * s_.kernel[0] + r) * s_.kernel[1] + k);
        }
      }
    }
  }

  ImageShape s_;
  PlaneAxis axis_;
  Finish finish_;
  const ConvolutionLoops& loops_;
  Tensor weights_;
  std::int64_t window_ = 1;
  std::int64_t inner_begin_ = 0, inner_end_ = 0;  // columns of the result
};

}  // namespace

std::unique_ptr<Kernel> make_window_convolution(const VolumeShape& shape, const Weights& weights, Finish finish, Isa isa) {
  return std::make_unique<WindowConvolution>(shape, weights, std::move(finish), isa);
}

}  // namespace rewright::cpu
