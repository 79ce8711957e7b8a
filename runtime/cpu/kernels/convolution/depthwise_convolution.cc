// Depthwise convolutions, and 1x1 convolutions after them.
#include <algorithm>

#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/kernels/product/panels.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kTilePixels[] = {7, 4, 1};
constexpr double kMultiplications = 40;            // per nanosecond, depthwise
constexpr double kPointwiseMultiplications = 100;  // per nanosecond, 1x1

// Computes single rows of a depthwise convolution's result.
class DepthwiseRows {
 public:
  DepthwiseRows(const DepthwiseConvolution& convolution, Isa isa)
      : s_(convolution.shape), function_(convolution.finish.function), loops_(loops_for<ConvolutionLoops>(isa)) {
    const std::int64_t channels = s_.channels, window = s_.kernel[0] * s_.kernel[1], lanes = loops_.lanes;
    const std::int64_t stored = (channels + lanes - 1) / lanes * lanes;
    weights_ = convolution.weights.prepared("depthwise " + std::to_string(lanes),
                                            sizeof(float) * static_cast<std::size_t>(stored * window), [&](std::byte* bytes) {
                                              const Tensor plain = convolution.weights.plain();
                                              const float* const w = plain.data<float>().data();
                                              float* to = reinterpret_cast<float*>(bytes);
                                              for (std::int64_t first = 0; first < stored; first += lanes)
                                                for (std::int64_t k = 0; k < window; ++k)
                                                  for (std::int64_t c = first; c < first + lanes; ++c)
                                                    *to++ = c < channels ? w[c * window + k] : 0.0f;
                                            });
    bias_ = convolution.finish.bias;
    bias_.resize(static_cast<std::size_t>(stored));
    tile_.row_stride = s_.dilations[0] * s_.width * channels;
    tile_.channels = channels;
    tile_.pitch = s_.dilations[1] * channels;
    tile_.window = window;
    tile_.bias = bias_.data();
    tile_.floor = convolution.floor;
    tile_.low = convolution.finish.low;
    tile_.high = convolution.finish.high;
  }
  DepthwiseRows(const DepthwiseRows&) = delete;
  DepthwiseRows& operator=(const DepthwiseRows&) = delete;

  std::int64_t count() const { return s_.images * s_.out_height; }
  std::int64_t elements() const { return s_.out_width * s_.channels; }  // of a row
  double nanoseconds() const {                                          // of all, on one thread
    return depthwise_nanoseconds(s_);
  }

  void compute(const float* x, std::int64_t row, float* y, const float* addend) const {
    // The window's rows inside the image.
    const std::int64_t top = row % s_.out_height * s_.strides[0] - s_.pads_begin[0], d = s_.dilations[0];
    const std::int64_t from = top < 0 ? std::min(s_.kernel[0], (-top + d - 1) / d) : 0;
    const std::int64_t to = std::clamp<std::int64_t>((s_.height - top + d - 1) / d, from, s_.kernel[0]);
    ConvolutionLoops::DepthwiseTile t = tile_;
    t.height = to - from;
    t.w = reinterpret_cast<const float*>(weights_.bytes().data()) + from * s_.kernel[1] * loops_.lanes;
    const std::int64_t first_row = t.height > 0 ? row / s_.out_height * s_.height + top + from * d : 0;
    // With a dilation, pixels so far apart read each other's columns.
    for (std::int64_t first = 0; first < std::min(s_.dilations[1], s_.out_width); ++first) {
      const float* const pixels = x + (first_row * s_.width + first - s_.pads_begin[1]) * s_.channels;
      compute_pixels(t, pixels, first, y, addend);
    }
    if (function_) function_(y, elements());
  }

 private:
  static std::int64_t divided_up(std::int64_t n, std::int64_t by) { return n > 0 ? (n + by - 1) / by : n / by; }

  // The row's pixels `first`, `first` + the dilation, and so on. `x`: where the window of the first one begins.
  void compute_pixels(ConvolutionLoops::DepthwiseTile t, const float* x, std::int64_t first, float* y,
                      const float* addend) const {
    const std::int64_t d = s_.dilations[1], count = divided_up(s_.out_width - first, d), column = first - s_.pads_begin[1];
    const std::int64_t begin = divided_up(-column, d), end = divided_up(s_.width - column, d);
    std::int64_t q = 0;
    for (const std::int64_t pixels : kTilePixels) {
      if (count - q < pixels) continue;
      const auto loop = loops_.depthwise(pixels, s_.kernel[1], s_.strides[1]);
      for (; count - q >= pixels; q += pixels) {
        t.begin = begin - q * s_.strides[1];
        t.end = end - q * s_.strides[1];
        t.x = x + q * s_.strides[1] * t.pitch;
        t.y = y + first * s_.channels + q * t.pitch;
        t.addend = addend == nullptr ? nullptr : addend + first * s_.channels + q * t.pitch;
        loop(t);
      }
    }
  }

  ImageShape s_;
  ResultFunction function_;
  const ConvolutionLoops& loops_;
  Tensor weights_;
  std::vector<float> bias_;
  ConvolutionLoops::DepthwiseTile tile_{};
};

class Depthwise final : public Kernel {
 public:
  Depthwise(std::span<const DepthwiseConvolution> convolutions, Isa isa) : adds_(convolutions[0].finish.addend) {
    for (const DepthwiseConvolution& c : convolutions) rows_.push_back(std::make_unique<DepthwiseRows>(c, isa));
  }

  void run(const Call& call) const override {
    const float* const x = reinterpret_cast<const float*>(call.inputs[0]);
    const float* const addend = adds_ ? reinterpret_cast<const float*>(call.inputs[1]) : nullptr;
    float* const y = reinterpret_cast<float*>(call.outputs[0]);
    const std::int64_t elements = rows_[0]->elements();
    double nanoseconds = 0;
    for (const auto& rows : rows_) nanoseconds += rows->nanoseconds();
    call.workers.for_each(rows_[0]->count(), nanoseconds, [&](std::int64_t row, int) {
      float* const to = y + row * elements;
      const float* before = addend == nullptr ? nullptr : addend + row * elements;
      for (const auto& rows : rows_) {
        rows->compute(x, row, to, before);
        before = to;  // still in the first-level cache
      }
    });
  }

 private:
  std::vector<std::unique_ptr<DepthwiseRows>> rows_;
  bool adds_;
};

class Separable final : public Kernel {
 public:
  Separable(const DepthwiseConvolution& convolution, std::int64_t outputs, const Weights& weights, Finish finish, Isa isa,
            int threads)
      : rows_(convolution, isa),
        width_(convolution.shape.out_width),
        channels_(convolution.shape.channels),
        outputs_(outputs),
        finish_(std::move(finish)),
        loops_(loops_for<ConvolutionLoops>(isa)),
        panels_(1, outputs, channels_, loops_) {
    panels_.set(weights.prepared("pointwise " + std::to_string(loops_.lanes), panels_.bytes(), [&](std::byte* to) {
      const Tensor plain = weights.plain();
      const float* const w = plain.data<float>().data();
      std::vector<float> row(static_cast<std::size_t>(outputs));
      for (std::int64_t c = 0; c < channels_; ++c) {
        for (std::int64_t n = 0; n < outputs; ++n) row[static_cast<std::size_t>(n)] = w[n * channels_ + c];
        panels_.write_row(reinterpret_cast<float*>(to), 0, c, row.data());
      }
    }));
    bias_ = panels_.by_column(finish_.bias);
    if (finish_.y_stride == 0) finish_.y_stride = outputs;
    // Enough rows for several tiles of pixels, and equally many strips for each thread.
    const std::int64_t wanted = std::max<std::int64_t>(1, kTiles * loops_.max_rows / width_);
    strips_ = (rows_.count() + wanted - 1) / wanted;
    strips_ = std::min(rows_.count(), (strips_ + threads - 1) / threads * threads);
    together_ = (rows_.count() + strips_ - 1) / strips_;
    threads_ = std::min<std::int64_t>(threads, strips_);
  }

  std::size_t scratch_bytes() const override {
    return sizeof(float) * static_cast<std::size_t>(threads_ * together_ * rows_.elements());
  }

  void run(const Call& call) const override {
    float* const scratch = reinterpret_cast<float*>(call.scratch);
    const double multiplications = static_cast<double>(rows_.count() * rows_.elements() * outputs_);
    call.workers.for_each(
        strips_, rows_.nanoseconds() + multiplications / kPointwiseMultiplications,
        [&](std::int64_t strip, int thread) { compute(call, strip, scratch + thread * together_ * rows_.elements()); });
  }

 private:
  static constexpr std::int64_t kTiles = 3;

  void compute(const Call& call, std::int64_t strip, float* between) const {
    const std::int64_t first = first_unit(rows_.count(), strip, strips_);
    const std::int64_t count = first_unit(rows_.count(), strip + 1, strips_) - first;
    for (std::int64_t r = 0; r < count; ++r)
      rows_.compute(reinterpret_cast<const float*>(call.inputs[0]), first + r, between + r * rows_.elements(), nullptr);
    const std::int64_t pixels = count * width_, blocks = (pixels + loops_.max_rows - 1) / loops_.max_rows;
    float* const y = reinterpret_cast<float*>(call.outputs[0]) + first * width_ * finish_.y_stride;
    const float* const addend =
        finish_.addend ? reinterpret_cast<const float*>(call.inputs[1]) + first * width_ * outputs_ : nullptr;
    ConvolutionLoops::Tile t{};
    t.x_stride = t.length = channels_;
    t.height = t.width = 1;
    t.y_stride = finish_.y_stride;
    t.addend_stride = outputs_;
    t.low = finish_.low;
    t.high = finish_.high;
    for (std::int64_t p = 0; p < panels_.count(); ++p) {
      t.w = panels_.data(0, p);
      t.vectors = panels_.vectors(p);
      t.columns = panels_.columns(p);
      t.bias = bias_.empty() ? nullptr : bias_.data() + panels_.first(p);
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t begin = pixels * b / blocks;
        t.rows = pixels * (b + 1) / blocks - begin;
        t.x = between + begin * channels_;
        t.y = y + begin * t.y_stride + panels_.first(p);
        t.addend = addend == nullptr ? nullptr : addend + begin * outputs_ + panels_.first(p);
        loops_.tile(t);
      }
    }
    if (!finish_.function) return;
    if (finish_.y_stride == outputs_) return finish_.function(y, pixels * outputs_);
    for (std::int64_t p = 0; p < pixels; ++p) finish_.function(y + p * finish_.y_stride, outputs_);
  }

  DepthwiseRows rows_;
  std::int64_t width_, channels_, outputs_;
  Finish finish_;
  const ConvolutionLoops& loops_;
  Panels panels_;
  std::vector<float> bias_;
  std::int64_t together_, strips_, threads_;  // together_: most rows of a strip
};

}  // namespace

bool is_by_channel(const ImageShape& s) {
  return s.group == s.channels && s.outputs == s.channels && (s.dilations[1] == 1 || s.strides[1] == 1) &&
         loops_for<ConvolutionLoops>(Isa::kBaseline).depthwise(1, s.kernel[1], s.strides[1]) != nullptr;
}

double depthwise_nanoseconds(const ImageShape& s) {
  const std::int64_t results = s.images * s.out_height * s.out_width * s.channels;
  return static_cast<double>(results * s.kernel[0] * s.kernel[1]) / kMultiplications;
}

std::unique_ptr<Kernel> make_depthwise_convolution(std::span<const DepthwiseConvolution> convolutions, Isa isa) {
  return std::make_unique<Depthwise>(convolutions, isa);
}

std::unique_ptr<Kernel> make_separable_convolution(const DepthwiseConvolution& convolution, std::int64_t outputs,
                                                   const Weights& weights, Finish finish, Isa isa, int threads) {
  return std::make_unique<Separable>(convolution, outputs, weights, std::move(finish), isa, threads);
}

}  // namespace rewright::cpu
