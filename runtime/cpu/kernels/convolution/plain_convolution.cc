// Convolutions of images as ONNX has them, of few channels in a group: depthwise ones, and a network's first one. Vectors run
// along rows of results, and rows of the image have their padding around them. Alone they are faster so than with channels
// last, since no layout is changed.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/loops/convolution_loops.h"
#include "runtime/cpu/loops/rows.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

class PlainConvolution final : public Kernel {
 public:
  PlainConvolution(const DepthwiseConvolution& convolution, Isa isa)
      : s_(convolution.shape),
        channels_(s_.channels / s_.group),
        outputs_(s_.outputs / s_.group),
        finish_(convolution.finish),
        floor_(convolution.floor),
        loops_(loops_for<RowLoops>(isa)),
        lanes_(loops_for<ConvolutionLoops>(isa).lanes) {
    const Count columns = (s_.out_width - 1) * s_.strides[1] + (s_.kernel[1] - 1) * s_.dilations[1] + 1;
    phase_ = (columns + s_.strides[1] - 1) / s_.strides[1];
    const Count reach = (s_.kernel[0] - 1) * s_.dilations[0] + 1, rows = kFloats / (row_size() * channels_);
    band_ = std::clamp((rows - reach) / s_.strides[0] + 1, Count{1}, s_.out_height);
    prepared_ = (band_ - 1) * s_.strides[0] + reach;
    for (Count c = 0; c < channels_; ++c)
      for (Count r = 0; r < s_.kernel[0]; ++r)
        for (Count k = 0; k < s_.kernel[1]; ++k) {
          const Count column = k * s_.dilations[1], row = c * prepared_ + r * s_.dilations[0];
          offsets_.push_back(row * row_size() + column % s_.strides[1] * phase_ + column / s_.strides[1]);
        }
    const std::size_t bytes = static_cast<std::size_t>(s_.outputs) * offsets_.size() * sizeof(float);
    weights_ = convolution.weights.prepared(
        "by rows", bytes, [&](std::byte* to) { std::memcpy(to, convolution.weights.plain().bytes().data(), bytes); });
    finish_.bias.resize(static_cast<std::size_t>(s_.outputs));
  }

  void run(const Call& call) const override {
    const Count bands = (s_.out_height + band_ - 1) / band_;
    call.workers.for_each(s_.images * s_.group * bands, plain_convolution_nanoseconds(s_, lanes_), [&](Count unit, int) {
      run_band(call, unit / bands / s_.group, unit / bands % s_.group, unit % bands * band_);
    });
  }

 private:
  static constexpr Count kFloats = 6 << 10;  // of rows in the first-level cache

  Count row_size() const { return phase_ * s_.strides[1]; }

  // The rows of results from row `first` on.
  void run_band(const Call& call, Count image, Count group, Count first) const {
    static thread_local std::vector<float> memory;
    memory.resize(static_cast<std::size_t>((channels_ * prepared_ + 1) * row_size() + 4 * lanes_));
    float *const padded = memory.data(), *const prepared = padded + row_size();
    const Count results = s_.out_height * s_.out_width, size = s_.height * s_.width;
    const float* const x = reinterpret_cast<const float*>(call.inputs[0]) + (image * s_.channels + group * channels_) * size;
    const Count top = first * s_.strides[0] - s_.pads_begin[0], output = group * outputs_;
    const auto taps = static_cast<Count>(offsets_.size());
    RowLoops::Windows w{};
    w.rows = std::min(band_, s_.out_height - first), w.columns = s_.out_width, w.outputs = outputs_;
    const Count count = (w.rows - 1) * s_.strides[0] + (s_.kernel[0] - 1) * s_.dilations[0] + 1;
    for (Count c = 0; c < channels_; ++c) prepare_rows(prepared + c * prepared_ * row_size(), padded, x + c * size, top, count);
    w.x = prepared, w.row_stride = s_.strides[0] * row_size();
    w.offsets = offsets_.data(), w.taps = taps;
    w.weights = reinterpret_cast<const float*>(weights_.bytes().data()) + output * taps;
    w.bias = finish_.bias.data() + output, w.low = finish_.low, w.high = finish_.high;
    const Count at = (image * s_.outputs + output) * results + first * s_.out_width;
    w.y = reinterpret_cast<float*>(call.outputs[0]) + at, w.plane = results;
    w.addend = finish_.addend ? reinterpret_cast<const float*>(call.inputs[1]) + at : nullptr;
    loops_.window_products(w);
    for (Count o = 0; o < outputs_ && finish_.function; ++o) finish_.function(w.y + o * results, w.rows * w.columns);
  }

  void prepare_rows(float* d, float* padded, const float* x, Count top, Count count) const {
    if (s_.strides[1] != 2 || loops_.separate_padded == nullptr) {
      for (Count r = 0; r < count; ++r) prepare(d + r * row_size(), padded, x, top + r);
      return;
    }
    const Count first = std::clamp<Count>(-top, 0, count), last = std::clamp<Count>(s_.height - top, first, count);
    std::fill_n(d, first * row_size(), 0.0f);
    loops_.separate_padded(d + first * row_size(), row_size(), x + (top + first) * s_.width, last - first, s_.width,
                           s_.pads_begin[1], phase_, floor_);
    std::fill_n(d + last * row_size(), (count - last) * row_size(), 0.0f);
  }

  // A row of the image with its padding, its columns separated by their remainders.
  void prepare(float* d, float* padded, const float* x, Count row) const {
    if (row < 0 || row >= s_.height) return void(std::fill_n(d, row_size(), 0.0f));
    float* const to = s_.strides[1] == 1 ? d : padded;
    const Count before = std::min(s_.pads_begin[1], row_size());
    const Count count = std::clamp<Count>(row_size() - before, 0, s_.width);
    std::fill_n(to, before, 0.0f);
    const float* const from = x + row * s_.width;
    if (floor_ == -std::numeric_limits<float>::infinity())
      std::memcpy(to + before, from, static_cast<std::size_t>(count) * sizeof(float));
    else
      loops_.scale_row(to + before, from, count, 1, 0, floor_, std::numeric_limits<float>::infinity());
    std::fill(to + before + count, to + row_size(), 0.0f);
    if (s_.strides[1] > 1) loops_.separate(d, phase_, padded, s_.strides[1], phase_);
  }

  ImageShape s_;
  Count channels_, outputs_;  // of a group
  Finish finish_;
  float floor_;
  const RowLoops& loops_;
  Count lanes_;
  Tensor weights_;
  Count phase_ = 1, band_ = 1, prepared_ = 1;  // columns of one remainder; rows of results at a time, and of the image for them
  std::vector<Count> offsets_;                 // of the taps
};

}  // namespace

bool has_few_channels(const ImageShape& s) {
  constexpr std::int64_t kFewChannels = 4, kMostTaps = 256;
  const std::int64_t channels = s.channels / s.group;
  return channels <= kFewChannels && channels * s.kernel[0] * s.kernel[1] <= kMostTaps && s.strides[1] <= 2 &&
         s.pads_begin[0] >= 0 && s.pads_begin[1] >= 0;
}

double plain_convolution_nanoseconds(const ImageShape& s, std::int64_t lanes) {
  constexpr double kDepthwise = 12, kOthers = 38, kPrepared = 6, kSeparated = 3;  // a nanosecond
  const std::int64_t channels = s.channels / s.group, width = (s.out_width + lanes - 1) / lanes * lanes;
  const double products = static_cast<double>(s.images * s.outputs * s.out_height * width * channels) *
                          static_cast<double>(s.kernel[0] * s.kernel[1]);
  return products / (s.outputs == s.group ? kDepthwise : kOthers) +
         static_cast<double>(s.images * s.channels * s.height * s.width) / (s.strides[1] == 1 ? kPrepared : kSeparated);
}

std::unique_ptr<Kernel> make_plain_convolution(const DepthwiseConvolution& convolution, Isa isa) {
  return std::make_unique<PlainConvolution>(convolution, isa);
}

}  // namespace rewright::cpu
