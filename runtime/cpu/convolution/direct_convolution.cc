// Convolution as products of matrices whose left side is the picture as it lies in memory.
#include <algorithm>
#include <cstring>

#include "runtime/cpu/convolution/own_convolution.h"
#include "runtime/cpu/product/panels.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kPartBytes = 32 << 10;      // of a picture, read again for each panel of weights
constexpr std::int64_t kWeightsBytes = 512 << 10;  // of weights, read again for each part of the picture
constexpr double kMultiplications = 100;           // a nanosecond
constexpr double kCopied = 8;                      // floats

class DirectConvolution final : public Kernel {
 public:
  DirectConvolution(const PictureShape& shape, const Weights& weights, Finish finish, Isa isa)
      : s_(shape), finish_(std::move(finish)), loops_(convolution_loops(isa)) {
    const auto& s = s_;
    padded_width_ = std::max((s.out_width - 1) * s.strides[1] + (s.kernel[1] - 1) * s.dilations[1] + 1, s.width);
    copied_ = s.pads_begin[1] > 0 || padded_width_ > s.width;
    if (copied_) padded_width_ = std::max(padded_width_, s.pads_begin[1] + s.width);
    const bool touching = s.group == 1 && s.dilations[1] == 1;  // the pixels of a row of the window
    const std::int64_t inputs = s.channels / s.group;
    tile_.width = touching ? 1 : s.kernel[1];
    tile_.length = touching ? s.kernel[1] * inputs : inputs;
    const std::int64_t window = s.kernel[0] * s.kernel[1], per_group = s.outputs / s.group;
    panels_ = Panels(s.group, per_group, window * inputs, loops_);
    panels_.set(weights.prepared("direct " + std::to_string(loops_.lanes), panels_.bytes(), [&](std::byte* to) {
      const Tensor plain = weights.plain();
      const float* const w = plain.data<float>().data();
      std::vector<float> row(static_cast<std::size_t>(per_group));
      for (std::int64_t g = 0; g < s.group; ++g)
        for (std::int64_t k = 0; k < window * inputs; ++k) {  // pixels of the window, then channels
          for (std::int64_t n = 0; n < per_group; ++n)
            row[static_cast<std::size_t>(n)] = w[((g * per_group + n) * inputs + k % inputs) * window + k / inputs];
          panels_.write_row(reinterpret_cast<float*>(to), g, k, row.data());
        }
    }));
    bias_ = panels_.by_column(finish_.bias);
    tile_.x_stride = s.strides[1] * s.channels;
    tile_.row_stride = s.dilations[0] * padded_width_ * s.channels;
    tile_.column_stride = s.dilations[1] * s.channels;
    tile_.low = finish_.low;
    tile_.high = finish_.high;
    tile_.y_stride = tile_.addend_stride = s.outputs;
    // Rows whose distance is a multiple of 4 KiB share a set of the first-level cache.
    rows_ = tile_.x_stride % 1024 == 0 ? std::min<std::int64_t>(8, loops_.max_rows) : loops_.max_rows;
    const std::int64_t pixel = std::max(s.strides[1] * s.channels * s.kernel[0], s.outputs);
    part_ = std::max<std::int64_t>(1, kPartBytes / 4 / pixel / rows_) * rows_;
    const std::int64_t panel_bytes = std::max<std::int64_t>(1, 4 * panels_.depth() * loops_.lanes * loops_.max_vectors);
    together_ = std::max<std::int64_t>(1, kWeightsBytes / panel_bytes);
  }

  std::size_t scratch_bytes() const override {
    return copied_ ? sizeof(float) * static_cast<std::size_t>(s_.pictures * s_.height * padded_width_ * s_.channels) : 0;
  }

  void run(const Call& call) const override {
    const float* x = reinterpret_cast<const float*>(call.inputs[0]);
    if (copied_) {
      float* const to = reinterpret_cast<float*>(call.scratch);
      const std::int64_t rows = s_.pictures * s_.height;
      call.workers.for_each(
          rows, static_cast<double>(rows * padded_width_ * s_.channels) / kCopied,
          [&](std::int64_t row, int) { pad_row(to + row * padded_width_ * s_.channels, x + row * s_.width * s_.channels); });
      x = to;
    }
    const std::int64_t parts = (s_.out_width + part_ - 1) / part_, rows = s_.pictures * s_.out_height;
    const std::int64_t all = s_.group * panels_.count(), sets = (all + together_ - 1) / together_;
    const double multiplications =
        static_cast<double>(rows * s_.out_width) * static_cast<double>(s_.group * panels_.depth() * panels_.stored_columns());
    call.workers.for_each(sets * rows * parts, multiplications / kMultiplications, [&](std::int64_t unit, int) {
      const std::int64_t set = unit / parts / rows, row = unit / parts % rows, part = unit % parts;
      const std::int64_t first = part * part_, count = std::min(part_, s_.out_width - first);
      const std::int64_t begin = set * together_, end = std::min(all, begin + together_);
      for (std::int64_t p = begin; p < end; ++p) compute(call, x, p, row, first, count);
      if (finish_.function != nullptr) finish(call, begin, end, row * s_.out_width + first, count);
    });
  }

 private:
  void pad_row(float* to, const float* from) const {
    const std::int64_t c = s_.channels, before = s_.pads_begin[1] * c, count = s_.width * c;
    std::fill(to, to + before, 0.0f);
    std::copy(from, from + count, to + before);
    std::fill(to + before + count, to + padded_width_ * c, 0.0f);
  }

  void compute(const Call& call, const float* x, std::int64_t p, std::int64_t row, std::int64_t first,
               std::int64_t count) const {
    const std::int64_t group = p / panels_.count(), panel = p % panels_.count();
    const std::int64_t picture = row / s_.out_height, top = row % s_.out_height * s_.strides[0] - s_.pads_begin[0];
    // Rows of the window that lie in the picture; without dilation they are all the same one.
    const std::int64_t d = s_.dilations[0];
    const std::int64_t from = top < 0 ? std::min(s_.kernel[0], (-top + d - 1) / d) : 0;
    const std::int64_t to = d == 0 ? s_.kernel[0] : std::clamp<std::int64_t>((s_.height - top + d - 1) / d, from, s_.kernel[0]);
    ConvolutionLoops::Tile t = tile_;
    t.height = to - from;
    t.vectors = panels_.vectors(panel);
    t.columns = panels_.columns(panel);
    t.w = panels_.data(group, panel) + from * t.width * t.length * t.vectors * loops_.lanes;
    t.bias = bias_.empty() ? nullptr : bias_.data() + group * panels_.stored_columns() + panels_.first(panel);
    const std::int64_t channel = group * (s_.outputs / s_.group) + panels_.first(panel);
    const std::int64_t blocks = (count + rows_ - 1) / rows_;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t begin = first + count * b / blocks, end = first + count * (b + 1) / blocks;
      const std::int64_t y = (row * s_.out_width + begin) * s_.outputs + channel;
      const std::int64_t at = t.height > 0 ? (picture * s_.height + top + from * d) * padded_width_ : 0;
      t.x = x + (at + begin * s_.strides[1]) * s_.channels + group * (s_.channels / s_.group);
      t.rows = end - begin;
      t.y = reinterpret_cast<float*>(call.outputs[0]) + y;
      t.addend = finish_.addend ? reinterpret_cast<const float*>(call.inputs[1]) + y : nullptr;
      loops_.tile(t);
    }
  }

  // The function of all channels of the panels from `begin` to `end`.
  void finish(const Call& call, std::int64_t begin, std::int64_t end, std::int64_t pixel, std::int64_t count) const {
    float* const y = reinterpret_cast<float*>(call.outputs[0]) + pixel * s_.outputs;
    const auto channel = [&](std::int64_t p) {
      return p / panels_.count() * (s_.outputs / s_.group) + panels_.first(p % panels_.count());
    };
    const std::int64_t from = channel(begin), to = end == s_.group * panels_.count() ? s_.outputs : channel(end);
    if (to - from == s_.outputs) return finish_.function(y, y, count * s_.outputs);
    for (std::int64_t r = 0; r < count; ++r) finish_.function(y + r * s_.outputs + from, y + r * s_.outputs + from, to - from);
  }

  PictureShape s_;
  Finish finish_;
  const ConvolutionLoops& loops_;
  Panels panels_;
  std::vector<float> bias_;
  ConvolutionLoops::Tile tile_{};
  std::int64_t padded_width_ = 0;
  std::int64_t rows_ = 1, part_ = 1, together_ = 1;  // pixels of a tile and of a part, panels of a set
  bool copied_ = false;
};

// All pixels in one row.
PictureShape in_a_row(PictureShape s) {
  s.width = s.out_width = s.pictures * s.height * s.width;
  s.pictures = s.height = s.out_height = 1;
  return s;
}

}  // namespace

std::unique_ptr<Kernel> make_direct_convolution(const PictureShape& shape, const Weights& weights, Finish finish, Isa isa) {
  return std::make_unique<DirectConvolution>(is_pointwise(shape) ? in_a_row(shape) : shape, weights, std::move(finish), isa);
}

std::unique_ptr<Kernel> make_parallel_convolution(const PictureShape& shape, const std::vector<Weights>& weights, Finish finish,
                                                  Isa isa) {
  PictureShape s = in_a_row(shape);
  // The convolutions are rows of a window that do not move on.
  s.kernel[0] = static_cast<std::int64_t>(weights.size());
  s.dilations[0] = 0;
  const Weights together{[&] {
                           Tensor result(DataType::kFloat, {s.outputs, s.channels, s.kernel[0], 1});
                           float* const to = result.mutable_data<float>().data();
                           for (std::size_t k = 0; k < weights.size(); ++k) {
                             const Tensor plain = weights[k].plain();
                             const auto w = plain.data<float>();
                             for (std::size_t i = 0; i < w.size(); ++i) to[i * weights.size() + k] = w[i];
                           }
                           return result;
                         },
                         weights[0].prepared};
  return std::make_unique<DirectConvolution>(s, together, std::move(finish), isa);
}

}  // namespace rewright::cpu
