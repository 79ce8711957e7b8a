// Convolutions by Fourier transforms of tiles of the image (overlap-save): Mathieu, Henaff and LeCun, "Fast Training of
// Convolutional Networks through FFTs", 2014.
#include <algorithm>

#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/loops/fourier_loops.h"
#include "runtime/cpu/loops/weights_ahead.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kBlockBytes = 4 << 20;  // of spectra of tiles
constexpr std::int64_t kLeastTiles = 24;       // in a block: all weights are read for each block
constexpr double kTransformed = 10;            // nanoseconds for a point of a channel vector
constexpr double kMultiplied = 0.04;           // for a complex product

constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

// The tiles of an image and of its result, and their transforms.
class Tiles {
 public:
  Tiles(const ImageShape& shape, std::int64_t size, Finish finish, Isa isa)
      : s_(shape), finish_(std::move(finish)), loops_(loops_for<FourierLoops>(isa)), size_(size) {
    for (int a = 0; a < 2; ++a) step_[a] = size - (s_.kernel[a] - 1) * s_.dilations[a];
    rows_ = (s_.out_height + step_[0] - 1) / step_[0];
    columns_ = (s_.out_width + step_[1] - 1) / step_[1];
    if (finish_.y_stride == 0) finish_.y_stride = s_.outputs;
    bias_ = finish_.bias;
    bias_.resize(static_cast<std::size_t>(round_up(s_.outputs, loops_.lanes)));
  }

  std::int64_t count() const { return s_.images * rows_ * columns_; }
  std::int64_t points() const { return FourierLoops::points(size_); }
  std::int64_t work() const { return loops_.work(size_); }
  const FourierLoops& loops() const { return loops_; }

  // Transforms a vector of channels, starting at `channel`.
  void input(const Call& call, std::int64_t tile, std::int64_t channel, float* v, std::int64_t point_stride,
             std::int64_t imaginary, float* work) const {
    const Place at = place(tile);
    const std::int64_t row = at.row - s_.pads_begin[0], column = at.column - s_.pads_begin[1];
    FourierLoops::Input t{};
    t.column_stride = s_.channels;
    t.row_stride = s_.width * s_.channels;
    t.x = reinterpret_cast<const float*>(call.inputs[0]) + (at.image * s_.height + row) * t.row_stride +
          column * t.column_stride + channel;
    t.first_row = std::clamp<std::int64_t>(-row, 0, size_);
    t.end_row = std::clamp<std::int64_t>(s_.height - row, t.first_row, size_);
    t.first_column = std::clamp<std::int64_t>(-column, 0, size_);
    t.end_column = std::clamp<std::int64_t>(s_.width - column, t.first_column, size_);
    t.channels = std::min(loops_.lanes, s_.channels - channel);
    t.v = v;
    t.point_stride = point_stride;
    t.imaginary = imaginary;
    t.work = work;
    loops_.input(size_, t);
  }

  void output(const Call& call, std::int64_t tile, std::int64_t channel, const float* m, std::int64_t point_stride,
              std::int64_t imaginary, float* work) const {
    const Place at = place(tile);
    FourierLoops::Output t{};
    t.m = m;
    t.point_stride = point_stride;
    t.imaginary = imaginary;
    const std::int64_t pixel = (at.image * s_.out_height + at.row) * s_.out_width + at.column;
    t.column_stride = finish_.y_stride;
    t.row_stride = s_.out_width * t.column_stride;
    t.y = reinterpret_cast<float*>(call.outputs[0]) + pixel * t.column_stride + channel;
    t.addend_column_stride = s_.outputs;
    t.addend_row_stride = s_.out_width * s_.outputs;
    t.addend =
        finish_.addend ? reinterpret_cast<const float*>(call.inputs[1]) + pixel * t.addend_column_stride + channel : nullptr;
    t.rows = std::min(step_[0], s_.out_height - at.row);
    t.columns = std::min(step_[1], s_.out_width - at.column);
    t.bias = bias_.data() + channel;
    t.low = finish_.low;
    t.high = finish_.high;
    t.channels = std::min(loops_.lanes, s_.outputs - channel);
    t.work = work;
    loops_.output(size_, t);
  }

  // Called when all tiles are stored.
  void apply_function(const Call& call) const {
    if (!finish_.function) return;
    const std::int64_t pixels = s_.images * s_.out_height * s_.out_width;
    call.workers.for_each(pixels, static_cast<double>(pixels * s_.outputs), [&](std::int64_t pixel, int) {
      float* const y = reinterpret_cast<float*>(call.outputs[0]) + pixel * finish_.y_stride;
      finish_.function(y, s_.outputs);
    });
  }

  // Calls f(first output of a vector, channel, spectra) with the spectra of all windows: [points][real part, imaginary
  // part][lanes], conjugated since convolutions do not flip the window, and scaled to undo the factors of the transforms.
  template <class F>
  void for_each_spectrum(const float* weights, const F& f) const {
    const std::int64_t window = s_.kernel[0] * s_.kernel[1], lanes = loops_.lanes, channels = s_.channels / s_.group;
    const std::int64_t height = size_ - step_[0] + 1, width = size_ - step_[1] + 1, numbers = points() * 2 * lanes;
    std::vector<float> spectrum(static_cast<std::size_t>(numbers + work()));
    const float scale = 1 / static_cast<float>(4 * size_ * size_);
    for (std::int64_t first = 0; first < s_.outputs; first += lanes) {
      std::vector<float> image(static_cast<std::size_t>(height * width * lanes));
      const FourierLoops::Input t{image.data(), width * lanes, lanes,           0,         height, 0,
                                  width,        lanes,         spectrum.data(), 2 * lanes, lanes,  spectrum.data() + numbers};
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        for (std::int64_t n = 0; n < std::min(lanes, s_.outputs - first); ++n)
          for (std::int64_t i = 0; i < s_.kernel[0]; ++i)
            for (std::int64_t j = 0; j < s_.kernel[1]; ++j)
              image[static_cast<std::size_t>((i * s_.dilations[0] * width + j * s_.dilations[1]) * lanes + n)] =
                  weights[((first + n) * channels + channel) * window + i * s_.kernel[1] + j];
        loops_.input(size_, t);
        for (std::int64_t p = 0; p < points(); ++p) {
          const float by = p < FourierLoops::first_of_scaled_by_4(size_) ? scale : scale / 4;
          float* const at = spectrum.data() + p * 2 * lanes;
          for (std::int64_t n = 0; n < lanes; ++n) {
            at[n] *= by;
            at[lanes + n] *= -by;
          }
        }
        f(first, channel, std::as_const(spectrum).data());
      }
    }
  }

 private:
  struct Place {
    std::int64_t image, row, column;
  };
  Place place(std::int64_t tile) const {
    return {tile / columns_ / rows_, tile / columns_ % rows_ * step_[0], tile % columns_ * step_[1]};
  }

  ImageShape s_;
  Finish finish_;
  const FourierLoops& loops_;
  std::int64_t size_, step_[2], rows_, columns_;  // step_: pixels of the result of a tile
  std::vector<float> bias_;
};

std::string packing(std::string_view name, std::int64_t size, const FourierLoops& loops) {
  return std::string(name) + ' ' + std::to_string(size) + ' ' + std::to_string(loops.lanes);
}

class FourierConvolution final : public Kernel {
 public:
  FourierConvolution(const ImageShape& shape, std::int64_t size, const Weights& weights, Finish finish, Isa isa, int threads)
      : tiles_(shape, size, std::move(finish), isa), loops_(tiles_.loops()), channels_(shape.channels), threads_(threads) {
    x_stride_ = round_up(channels_, loops_.lanes);
    y_stride_ = round_up(shape.outputs, loops_.lanes);
    const std::int64_t points = tiles_.points(), lanes = loops_.lanes, numbers = points * channels_ * 2 * y_stride_;
    weights_ = weights.prepared(
        packing("fourier", size, loops_), sizeof(float) * static_cast<std::size_t>(numbers), [&](std::byte* to) {
          const Tensor plain = weights.plain();
          tiles_.for_each_spectrum(plain.data<float>().data(),
                                   [&](std::int64_t first, std::int64_t channel, const float* spectrum) {
                                     float* const at = reinterpret_cast<float*>(to) + (first * channels_ + channel * lanes) * 2;
                                     for (std::int64_t p = 0; p < points; ++p)
                                       std::copy_n(spectrum + p * 2 * lanes, 2 * lanes, at + p * y_stride_ * channels_ * 2);
                                   });
        });
    together_ = fourier_tiles(shape, size, isa).together;
    // Points an odd number of cache lines apart do not share sets of the first-level cache.
    const auto apart = [](std::int64_t n) { return (round_up(n, 16) / 16 | 1) * 16; };
    x_points_ = apart(together_ * 2 * x_stride_);
    y_points_ = apart(together_ * 2 * y_stride_);
  }

  std::string source() const override { return "a kernel of Rewright (Fourier's transform)"; }
  double rounding() const override { return 16; }
  std::size_t scratch_bytes() const override {
    return sizeof(float) * static_cast<std::size_t>(tiles_.points() * (x_points_ + y_points_) + threads_ * tiles_.work());
  }

  void run(const Call& call) const override {
    float* const v = reinterpret_cast<float*>(call.scratch);
    float* const m = v + tiles_.points() * x_points_;
    float* const work = m + tiles_.points() * y_points_;
    const std::int64_t lanes = loops_.lanes, x_vectors = x_stride_ / lanes, y_vectors = y_stride_ / lanes;
    for (std::int64_t first = 0; first < tiles_.count(); first += together_) {
      const std::int64_t count = std::min(together_, tiles_.count() - first);
      const double numbers = static_cast<double>(count * tiles_.points()), transformed = kTransformed * numbers;
      const double multiplied = kMultiplied * numbers * static_cast<double>(x_stride_ * y_stride_);
      call.workers.for_each(count * x_vectors, transformed * static_cast<double>(x_vectors), [&](std::int64_t n, int thread) {
        const std::int64_t tile = n / x_vectors, channel = n % x_vectors * lanes;
        tiles_.input(call, first + tile, channel, v + tile * 2 * x_stride_ + channel, x_points_, x_stride_,
                     work + thread * tiles_.work());
      });
      call.workers.for_each(tiles_.points(), multiplied, [&](std::int64_t p, int) { multiply(p, count, v, m); });
      call.workers.for_each(count * y_vectors, transformed * static_cast<double>(y_vectors), [&](std::int64_t n, int thread) {
        const std::int64_t tile = n / y_vectors, channel = n % y_vectors * lanes;
        tiles_.output(call, first + tile, channel, m + tile * 2 * y_stride_ + channel, y_points_, y_stride_,
                      work + thread * tiles_.work());
      });
    }
    tiles_.apply_function(call);
  }

 private:
  void multiply(std::int64_t point, std::int64_t count, const float* v, float* m) const {
    FourierLoops::Product t{};
    t.x_stride = 2 * x_stride_;
    t.x_imaginary = x_stride_;
    t.y_stride = 2 * y_stride_;
    t.y_imaginary = y_stride_;
    t.length = channels_;
    const std::int64_t blocks = (count + loops_.max_rows - 1) / loops_.max_rows;
    for (std::int64_t k = 0; k < y_stride_; k += loops_.lanes) {
      t.w = reinterpret_cast<const float*>(weights_.bytes().data()) + (point * y_stride_ + k) * channels_ * 2;
      const std::int64_t row_floats = 2 * loops_.lanes;
      const WeightsAhead ahead(t.w + channels_ * row_floats, 4 * row_floats, channels_, blocks);
      t.ahead_step = ahead.step;
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t begin = count * b / blocks;
        t.rows = count * (b + 1) / blocks - begin;
        t.ahead = ahead.at(b);
        t.x = v + point * x_points_ + begin * t.x_stride;
        t.y = m + point * y_points_ + begin * t.y_stride + k;
        loops_.product(t);
      }
    }
  }

  Tiles tiles_;
  const FourierLoops& loops_;
  std::int64_t channels_, threads_;
  Tensor weights_;                                          // [points][vectors of outputs][channels][2][lanes]
  std::int64_t together_;                                   // tiles of a block
  std::int64_t x_stride_, y_stride_, x_points_, y_points_;  // between the halves of a tile, and between points
};

// Depthwise: each tile of a channel vector by itself.
class FourierDepthwise final : public Kernel {
 public:
  FourierDepthwise(const ImageShape& shape, std::int64_t size, const Weights& weights, Finish finish, Isa isa, int threads)
      : tiles_(shape, size, std::move(finish), isa), threads_(threads) {
    const std::int64_t lanes = tiles_.loops().lanes;
    vectors_ = round_up(shape.channels, lanes) / lanes;
    weights_ = weights.prepared(
        packing("fourier by channels", size, tiles_.loops()), sizeof(float) * static_cast<std::size_t>(vectors_ * numbers()),
        [&](std::byte* to) {
          const Tensor plain = weights.plain();
          tiles_.for_each_spectrum(plain.data<float>().data(), [&](std::int64_t first, std::int64_t, const float* spectrum) {
            std::copy_n(spectrum, numbers(), reinterpret_cast<float*>(to) + first / lanes * numbers());
          });
        });
  }

  std::string source() const override { return "a kernel of Rewright (Fourier's transform)"; }
  double rounding() const override { return 16; }
  std::size_t scratch_bytes() const override { return sizeof(float) * static_cast<std::size_t>(threads_ * each()); }

  void run(const Call& call) const override {
    const std::int64_t lanes = tiles_.loops().lanes, units = tiles_.count() * vectors_;
    const double nanoseconds = 2 * kTransformed * static_cast<double>(units * tiles_.points());
    call.workers.for_each(units, nanoseconds, [&](std::int64_t n, int thread) {
      float* const v = reinterpret_cast<float*>(call.scratch) + thread * each();
      const std::int64_t tile = n % tiles_.count(), vector = n / tiles_.count();
      tiles_.input(call, tile, vector * lanes, v, 2 * lanes, lanes, v + numbers());
      tiles_.loops().scale(reinterpret_cast<const float*>(weights_.bytes().data()) + vector * numbers(), tiles_.points(), v);
      tiles_.output(call, tile, vector * lanes, v, 2 * lanes, lanes, v + numbers());
    });
    tiles_.apply_function(call);
  }

 private:
  std::int64_t numbers() const { return tiles_.points() * 2 * tiles_.loops().lanes; }  // of a tile's spectrum
  std::int64_t each() const { return numbers() + tiles_.work(); }                      // floats of a thread

  Tiles tiles_;
  std::int64_t vectors_, threads_;
  Tensor weights_;  // [vectors of channels][points][2][lanes]
};

}  // namespace

bool is_fourier(const ImageShape& s, std::int64_t size) {
  const bool by_channel = s.group == s.channels && s.group == s.outputs;
  return (s.group == 1 || by_channel) && s.strides[0] == 1 && s.strides[1] == 1 && (s.kernel[0] - 1) * s.dilations[0] < size &&
         (s.kernel[1] - 1) * s.dilations[1] < size;
}

FourierTiles fourier_tiles(const ImageShape& s, std::int64_t size, Isa isa) {
  const FourierLoops& loops = loops_for<FourierLoops>(isa);
  const auto along = [&](int axis, std::int64_t out) {
    const std::int64_t step = size - (s.kernel[axis] - 1) * s.dilations[axis];
    return (out + step - 1) / step;
  };
  const std::int64_t count = s.images * along(0, s.out_height) * along(1, s.out_width);
  const std::int64_t channels = round_up(s.channels, loops.lanes) + round_up(s.outputs, loops.lanes);
  const std::int64_t fitting =
      kBlockBytes / (2 * static_cast<std::int64_t>(sizeof(float)) * FourierLoops::points(size) * channels);
  const std::int64_t wanted = round_up(std::max(kLeastTiles, fitting), loops.max_rows), blocks = (count + wanted - 1) / wanted;
  return {count, (count + blocks - 1) / blocks};
}

std::unique_ptr<Kernel> make_fourier_convolution(const ImageShape& shape, std::int64_t size, const Weights& weights,
                                                 Finish finish, Isa isa, int threads) {
  if (shape.group > 1) return std::make_unique<FourierDepthwise>(shape, size, weights, std::move(finish), isa, threads);
  return std::make_unique<FourierConvolution>(shape, size, weights, std::move(finish), isa, threads);
}

}  // namespace rewright::cpu
