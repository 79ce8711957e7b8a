// Convolutions of images and volumes as matrix products whose left side is the image in place.
#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/kernels/product/panels.h"
#include "runtime/cpu/loops/weights_ahead.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kPartBytes = 32 << 10;      // of an image; read again for each panel of weights
constexpr std::int64_t kWeightsBytes = 512 << 10;  // of weights, read again for each part of the image
constexpr std::int64_t kWindowBytes = 256 << 10;   // of a panel; above, rows of the window are processed one after the other
constexpr std::int64_t kStripBytes = 128 << 10;    // of an image, for that, and where windows see one pixel
constexpr std::int64_t kRowBytes = 16 << 10;  // of a panel, above which that is done where rows of the window see one pixel
// Terms in one chain of additions, as in products: 48 would round less (mobileone_s0 1.11 times as much as torch instead
// of 1.56), and cost 5 to 8% of that network's time.
constexpr std::int64_t kApart = 192;
constexpr double kMultiplications = 100;  // a nanosecond
constexpr double kCopied = 8;             // floats

// Are windows single pixels, all inside the image?
bool is_of_single_pixels(const VolumeShape& shape) {
  const ImageShape& s = shape.image;
  return shape.axis.planes == 1 && shape.axis.kernel == 1 && shape.axis.out_planes == 1 && s.group == 1 && s.kernel[0] == 1 &&
         s.kernel[1] == 1 && s.pads_begin[0] == 0 && s.pads_begin[1] == 0 && (s.out_height - 1) * s.strides[0] < s.height &&
         (s.out_width - 1) * s.strides[1] < s.width;
}

// All results of such windows as one row of pixels.
ImageShape in_a_row(ImageShape s) {
  s.width = s.out_width = s.images * s.out_height * s.out_width;
  s.images = s.height = s.out_height = 1;
  s.strides[0] = s.strides[1] = 1;
  return s;
}

class DirectConvolution final : public Kernel {
 public:
  DirectConvolution(const VolumeShape& shape, const Weights& weights, Finish finish, Isa isa, int threads)
      : given_(shape.image),
        s_(is_of_single_pixels(shape) ? in_a_row(given_) : given_),
        axis_(shape.axis),
        finish_(std::move(finish)),
        loops_(loops_for<ConvolutionLoops>(isa)) {
    const auto& s = s_;
    padded_width_ = std::max((s.out_width - 1) * s.strides[1] + (s.kernel[1] - 1) * s.dilations[1] + 1, s.width);
    gathered_ = is_of_single_pixels(shape) && !is_pointwise(given_);
    copied_ = s.pads_begin[1] > 0 || padded_width_ > s.width;
    if (copied_) padded_width_ = std::max(padded_width_, s.pads_begin[1] + s.width);
    const bool touching = s.group == 1 && s.dilations[1] == 1;  // a window row's pixels are adjacent
    const std::int64_t inputs = s.channels / s.group;
    tile_.width = touching ? 1 : s.kernel[1];
    tile_.length = touching ? s.kernel[1] * inputs : inputs;
    const std::int64_t window = axis_.kernel * s.kernel[0] * s.kernel[1], per_group = s.outputs / s.group;
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
    const std::int64_t terms = std::max<std::int64_t>(1, tile_.width * tile_.length);
    apart_ = (kApart + terms - 1) / terms;
    if (2 * apart_ > s.kernel[0]) apart_ = s.kernel[0];
    tile_.x_stride = s.strides[1] * s.channels;
    tile_.row_stride = s.dilations[0] * padded_width_ * s.channels;
    tile_.column_stride = s.dilations[1] * s.channels;
    tile_.low = finish_.low;
    tile_.high = finish_.high;
    if (finish_.y_stride == 0) finish_.y_stride = s.outputs;
    tile_.y_stride = finish_.y_stride;
    // Rows at a distance that is a multiple of 4 KiB share a set of the first-level cache.
    rows_ = tile_.x_stride % 1024 == 0 ? std::min<std::int64_t>(8, loops_.max_rows) : loops_.max_rows;
    const std::int64_t panel_bytes = std::max<std::int64_t>(1, 4 * panels_.depth() * loops_.lanes * loops_.max_vectors);
    together_ = std::max<std::int64_t>(1, kWeightsBytes / panel_bytes);
    // Windows of one pixel, and convolutions that are added, each a row of the window that sees the same pixel: pixels are read
    // again for each panel, weights only for each part. Rows of the window are then processed one after the other, where they
    // are a chain each, so that their weights stay in the first-level cache.
    const bool see_one = s.dilations[0] == 0 || is_of_single_pixels(shape);
    by_window_row_ = s.kernel[0] > 1 && (panel_bytes > kWindowBytes || (see_one && apart_ == 1 && panel_bytes > kRowBytes));
    const std::int64_t pixel = see_one ? s.channels : std::max(s.strides[1] * s.channels * s.kernel[0], s.outputs);
    part_ = (see_one ? kStripBytes : kPartBytes) / 4 / pixel;
    if (see_one && threads > 1) {
      const std::int64_t units = 2 * threads, all = s.group * panels_.count();
      together_ = std::max<std::int64_t>(1, std::min(together_, all / units));
      const std::int64_t sets = (all + together_ - 1) / together_, parts = (units + sets - 1) / sets;
      part_ = std::min(part_, (s.out_width + parts - 1) / parts);
    }
    part_ = std::max<std::int64_t>(1, part_ / rows_) * rows_;
    if (by_window_row_) {
      const std::int64_t row_bytes = 4 * s.strides[0] * padded_width_ * s.channels;
      const std::int64_t strips = s.group * panels_.count() % threads == 0 ? 1 : threads;
      strip_ = std::clamp<std::int64_t>(kStripBytes / row_bytes, 1, (s.out_height + strips - 1) / strips);
    }
  }

  std::size_t scratch_bytes() const override {
    return copied_ || gathered_ ? sizeof(float) * static_cast<std::size_t>(rows_of_images() * padded_width_ * s_.channels) : 0;
  }

  void run(const Call& call) const override {
    const float* x = reinterpret_cast<const float*>(call.inputs[0]);
    if (copied_) {
      float* const to = reinterpret_cast<float*>(call.scratch);
      const std::int64_t rows = rows_of_images();
      call.workers.for_each(
          rows, static_cast<double>(rows * padded_width_ * s_.channels) / kCopied,
          [&](std::int64_t row, int) { pad_row(to + row * padded_width_ * s_.channels, x + row * s_.width * s_.channels); });
      x = to;
    }
    if (gathered_) {
      float* const to = reinterpret_cast<float*>(call.scratch);
      const std::int64_t rows = given_.images * given_.out_height, elements = given_.out_width * given_.channels;
      call.workers.for_each(rows, static_cast<double>(rows * elements) / kCopied,
                            [&](std::int64_t row, int) { gather_row(to + row * elements, x, row); });
      x = to;
    }
    const std::int64_t parts = (s_.out_width + part_ - 1) / part_, strips = (s_.out_height + strip_ - 1) / strip_;
    const std::int64_t all = s_.group * panels_.count(), sets = (all + together_ - 1) / together_;
    const std::int64_t images = s_.images * axis_.out_planes, pixels = images * s_.out_height * s_.out_width;
    const double multiplications =
        static_cast<double>(pixels) * static_cast<double>(s_.group * panels_.depth() * panels_.stored_columns());
    call.workers.for_each(sets * images * strips * parts, multiplications / kMultiplications, [&](std::int64_t unit, int) {
      const std::int64_t part = unit % parts, strip = unit / parts % strips, image = unit / parts / strips % images;
      const std::int64_t set = unit / parts / strips / images, begin = set * together_, end = std::min(all, begin + together_);
      const Pixels pixels{image, strip * strip_, std::min(s_.out_height, (strip + 1) * strip_), part * part_,
                          std::min(part_, s_.out_width - part * part_)};
      for (std::int64_t p = begin; p < end; ++p) compute(call, x, p, pixels);
      if (!finish_.function) return;
      for (std::int64_t row = pixels.begin; row < pixels.end; ++row)
        finish(call, begin, end, (image * s_.out_height + row) * s_.out_width + pixels.first, pixels.count);
    });
  }

 private:
  std::int64_t rows_of_images() const { return s_.images * axis_.planes * s_.height; }

  void pad_row(float* to, const float* from) const {
    const std::int64_t c = s_.channels, before = s_.pads_begin[1] * c, count = s_.width * c;
    std::fill(to, to + before, 0.0f);
    std::copy(from, from + count, to + before);
    std::fill(to + before + count, to + padded_width_ * c, 0.0f);
  }

  // Gathers the pixels that a row of the result reads.
  void gather_row(float* to, const float* x, std::int64_t row) const {
    const std::int64_t c = given_.channels, from = row % given_.out_height * given_.strides[0];
    const float* pixel = x + (row / given_.out_height * given_.height + from) * given_.width * c;
    for (std::int64_t q = 0; q < given_.out_width; ++q, pixel += given_.strides[1] * c) to = std::copy_n(pixel, c, to);
  }

  // A range of columns in some rows of a result's plane.
  struct Pixels {
    std::int64_t image, begin, end;  // rows
    std::int64_t first, count;       // columns
  };
  // Rows of a plane of the window, and the plane of the volumes that it reads.
  struct WindowRows {
    std::int64_t plane, from, to;
    std::int64_t image = 0;
    bool inside = true, first = true, last = true;  // inside the volume; the first and last rows of the whole window
  };

  void compute(const Call& call, const float* x, std::int64_t p, const Pixels& pixels) const {
    for (std::int64_t k = 0; k < axis_.kernel; ++k) {
      WindowRows rows{k, 0, s_.kernel[0]};
      const std::int64_t plane = pixels.image % axis_.out_planes * axis_.stride + k * axis_.dilation - axis_.pad_begin;
      rows.inside = plane >= 0 && plane < axis_.planes;
      rows.image = pixels.image / axis_.out_planes * axis_.planes + plane;
      rows.first = k == 0, rows.last = k + 1 == axis_.kernel;
      compute(call, x, p, pixels, rows);
    }
  }

  void compute(const Call& call, const float* x, std::int64_t p, const Pixels& pixels, const WindowRows& rows) const {
    const std::int64_t step = by_window_row_ ? 1 : rows.to;
    for (std::int64_t k = 0; k < rows.to; k += step) {
      WindowRows some = rows;
      some.from = k, some.to = k + step;
      some.first = rows.first && k == 0, some.last = rows.last && some.to == rows.to;
      for (std::int64_t row = pixels.begin; row < pixels.end; ++row) compute(call, x, p, pixels, row, some);
    }
  }

  // Adds the products of rows of the window to those of earlier rows.
  void compute(const Call& call, const float* x, std::int64_t p, const Pixels& pixels, std::int64_t row,
               const WindowRows& rows) const {
    const std::int64_t group = p / panels_.count(), panel = p % panels_.count();
    const std::int64_t top = row * s_.strides[0] - s_.pads_begin[0];
    // The window's rows inside the image; without dilation they are equal.
    const std::int64_t d = s_.dilations[0];
    const std::int64_t lowest = top < 0 ? std::min(s_.kernel[0], (-top + d - 1) / d) : 0;
    const std::int64_t highest =
        d == 0 ? s_.kernel[0] : std::clamp<std::int64_t>((s_.height - top + d - 1) / d, lowest, s_.kernel[0]);
    const bool first = rows.first, last = rows.last;
    const std::int64_t from = std::max(rows.from, lowest), to = rows.inside ? std::min(rows.to, highest) : from;
    if (from >= to && !first && !last) return;
    ConvolutionLoops::Tile t = tile_;
    t.vectors = panels_.vectors(panel);
    t.columns = panels_.columns(panel);
    const std::int64_t height = std::max<std::int64_t>(0, to - from);
    const float* const w =
        panels_.data(group, panel) + (rows.plane * s_.kernel[0] + from) * t.width * t.length * t.vectors * loops_.lanes;
    const float* const bias =
        bias_.empty() || !first ? nullptr : bias_.data() + group * panels_.stored_columns() + panels_.first(panel);
    const std::int64_t channel = group * (s_.outputs / s_.group) + panels_.first(panel);
    const std::int64_t blocks = (pixels.count + rows_ - 1) / rows_;
    const std::int64_t row_floats = t.vectors * loops_.lanes, terms = t.width * t.length;
    const float* const behind = panels_.data(group, panel) + (rows.plane * s_.kernel[0] + rows.to) * terms * row_floats;
    const WeightsAhead ahead(behind, 4 * row_floats, (rows.to - rows.from) * terms, blocks * (pixels.end - pixels.begin));
    t.ahead_step = ahead.step;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t begin = pixels.first + pixels.count * b / blocks;
      const std::int64_t end = pixels.first + pixels.count * (b + 1) / blocks;
      const std::int64_t pixel = (pixels.image * s_.out_height + row) * s_.out_width + begin;
      const std::int64_t at = height > 0 ? (rows.image * s_.height + top + from * d) * padded_width_ : 0;
      t.x = x + (at + begin * s_.strides[1]) * s_.channels + group * (s_.channels / s_.group);
      t.rows = end - begin;
      t.y = reinterpret_cast<float*>(call.outputs[0]) + pixel * t.y_stride + channel;
      t.w = w;
      t.bias = bias;
      t.ahead = ahead.at((row - pixels.begin) * blocks + b);
      if (!first) {
        t.addend = t.y;
        t.addend_stride = t.y_stride;
      } else {
        t.addend = finish_.addend ? reinterpret_cast<const float*>(call.inputs[1]) + pixel * s_.outputs + channel : nullptr;
        t.addend_stride = s_.outputs;
      }
      sum(t, height, last);
    }
  }

  // Sums of `apart_` rows of the window, each in a chain of its own: one chain over all of them rounds more.
  void sum(ConvolutionLoops::Tile t, std::int64_t height, bool last) const {
    for (std::int64_t done = 0; done == 0 || done < height; done += apart_) {
      t.height = std::min(apart_, height - done);
      const bool ends = last && done + apart_ >= height;
      t.low = ends ? tile_.low : -std::numeric_limits<float>::infinity();
      t.high = ends ? tile_.high : std::numeric_limits<float>::infinity();
      loops_.tile(t);
      t.x += apart_ * t.row_stride;
      t.w += apart_ * t.width * t.length * t.vectors * loops_.lanes;
      t.ahead += apart_ * t.width * t.length * t.ahead_step;
      t.bias = nullptr;
      t.addend = t.y;
      t.addend_stride = t.y_stride;
    }
  }

  // Applies the function to all channels of the panels from `begin` to `end`.
  void finish(const Call& call, std::int64_t begin, std::int64_t end, std::int64_t pixel, std::int64_t count) const {
    const std::int64_t stride = finish_.y_stride;
    float* const y = reinterpret_cast<float*>(call.outputs[0]) + pixel * stride;
    const auto channel = [&](std::int64_t p) {
      return p / panels_.count() * (s_.outputs / s_.group) + panels_.first(p % panels_.count());
    };
    const std::int64_t from = channel(begin), to = end == s_.group * panels_.count() ? s_.outputs : channel(end);
    if (to - from == stride) return finish_.function(y, count * stride);
    for (std::int64_t r = 0; r < count; ++r) finish_.function(y + r * stride + from, to - from);
  }

  ImageShape given_, s_;
  PlaneAxis axis_;
  Finish finish_;
  const ConvolutionLoops& loops_;
  Panels panels_;
  std::vector<float> bias_;
  ConvolutionLoops::Tile tile_{};
  std::int64_t padded_width_ = 0;
  std::int64_t rows_ = 1, part_ = 1, together_ = 1;  // pixels of a tile, pixels of a part, panels of a set
  std::int64_t apart_ = 1;                           // rows of the window that are one chain of additions
  std::int64_t strip_ = 1;                           // rows of a unit
  bool by_window_row_ = false;                       // is the result summed one window row after the other?
  bool copied_ = false, gathered_ = false;           // with its padding; only the pixels read
};

}  // namespace

std::unique_ptr<Kernel> make_direct_convolution(const ImageShape& shape, const Weights& weights, Finish finish, Isa isa,
                                                int threads) {
  return make_volume_convolution({shape, {}}, weights, std::move(finish), isa, threads);
}

std::unique_ptr<Kernel> make_volume_convolution(const VolumeShape& shape, const Weights& weights, Finish finish, Isa isa,
                                                int threads) {
  return std::make_unique<DirectConvolution>(shape, weights, std::move(finish), isa, threads);
}

std::unique_ptr<Kernel> make_parallel_convolution(const ImageShape& shape, const std::vector<Weights>& weights, Finish finish,
                                                  Isa isa, int threads) {
  ImageShape s = in_a_row(shape);
  // The convolutions become rows of a window that do not advance.
  s.kernel[0] = static_cast<std::int64_t>(weights.size());
  s.dilations[0] = 0;
  ConstantOrigin origin;
  for (const Weights& w : weights) origin.add(w.origin);
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
                         origin, weights[0].prepare};
  return make_direct_convolution(s, together, std::move(finish), isa, threads);
}

}  // namespace rewright::cpu
