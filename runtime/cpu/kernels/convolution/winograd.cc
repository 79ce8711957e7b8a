// Winograd's convolution: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016.
#include <algorithm>
#include <array>

#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/kernels/product/panels.h"
#include "runtime/cpu/loops/weights_ahead.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kCacheBytes = 500 << 10;  // of transformed tiles, in the second-level cache
// Channels whose products are summed separately: in long sums small terms lose precision.
constexpr std::int64_t kTogether = 96;
constexpr double kTransformed = 0.07;  // nanoseconds for a number
constexpr double kMultiplied = 0.01;   // for a multiplication

// The transform of a window of three weights, for the points of convolution_loops_impl.h.
using Row = std::array<double, 3>;
const std::vector<Row>& weight_transformation(int tile) {
  static const std::vector<Row> two{{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  // The row for a finite point p: 1, p and p^2, divided by the product of its distances to the others.
  static const std::vector<Row> four = [] {
    constexpr std::array<double, 5> kPoints{0, 0.625, -0.625, 1.5, -1.5};
    std::vector<Row> rows;
    for (const double p : kPoints) {
      double distances = 1;
      for (const double q : kPoints) distances *= p == q ? 1 : p - q;
      rows.push_back({1 / distances, p / distances, p * p / distances});
    }
    rows.push_back({0, 0, 1});
    return rows;
  }();
  return tile == 2 ? two : four;
}

constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

class WinogradConvolution final : public Kernel {
 public:
  WinogradConvolution(const ImageShape& shape, int tile, const Weights& weights, Finish finish, Isa isa, int threads)
      : s_(shape),
        finish_(std::move(finish)),
        loops_(loops_for<ConvolutionLoops>(isa)),
        tile_(tile),
        points_((tile + 2) * (tile + 2)),
        tile_rows_((s_.out_height + tile - 1) / tile),
        tile_columns_((s_.out_width + tile - 1) / tile),
        panels_(points_, s_.outputs, s_.channels, loops_),
        zeros_(static_cast<std::size_t>(s_.channels)) {
    const std::string how = "winograd 5/8 " + std::to_string(tile) + ' ' + std::to_string(loops_.lanes);
    panels_.set(weights.prepared(how, panels_.bytes(), [&](std::byte* to) {
      const Tensor plain = weights.plain();
      pack(plain.data<float>().data(), reinterpret_cast<float*>(to));
    }));
    if (finish_.y_stride == 0) finish_.y_stride = s_.outputs;
    bias_.assign(static_cast<std::size_t>(panels_.stored_columns()), 0);
    std::copy(finish_.bias.begin(), finish_.bias.end(), bias_.begin());
    x_stride_ = round_up(s_.channels, loops_.lanes);
    y_stride_ = panels_.stored_columns();
    // A block has as many tiles as fit into the cache, in products of full height.
    const std::int64_t tiles = s_.images * tile_rows_ * tile_columns_, rows = loops_.max_rows;
    const std::int64_t fitting = kCacheBytes / (4 * points_ * (x_stride_ + y_stride_)) / rows * rows;
    const std::int64_t wanted = std::max({rows, fitting, round_up(28, rows)});
    std::int64_t blocks = (tiles + wanted - 1) / wanted;
    if (tiles >= threads * rows) blocks = round_up(blocks, threads);
    together_ = (tiles + blocks - 1) / blocks;
    // Points an odd number of cache lines apart do not share sets of the first-level cache.
    const auto apart = [](std::int64_t n) { return (round_up(n, 16) / 16 | 1) * 16; };
    x_points_ = apart(together_ * x_stride_);
    y_points_ = apart(together_ * y_stride_);
    blocks_ = (tiles + together_ - 1) / together_;
    by_block_ = blocks_ >= threads;
    threads_ = threads;
  }

  std::string source() const override { return "a kernel of Rewright (Winograd's method)"; }
  double rounding() const override { return 32; }
  std::size_t scratch_bytes() const override {
    return sizeof(float) * static_cast<std::size_t>((by_block_ ? threads_ : 1) * block_elements());
  }

  void run(const Call& call) const override {
    float* const scratch = reinterpret_cast<float*>(call.scratch);
    if (by_block_)
      call.workers.share(blocks_, [&](std::int64_t b, int thread) { compute(call, b, scratch + thread * block_elements()); });
    else
      for (std::int64_t b = 0; b < blocks_; ++b) compute_together(call, b, scratch);
  }

 private:
  std::int64_t block_elements() const { return points_ * (x_points_ + y_points_); }

  void pack(const float* weights, float* to) const {
    const auto& g = weight_transformation(tile_);
    const auto n = static_cast<std::size_t>(tile_ + 2), outputs = static_cast<std::size_t>(s_.outputs);
    std::vector<double> columns(n * 3 * outputs);
    std::vector<float> row(outputs);
    for (std::int64_t channel = 0; channel < s_.channels; ++channel) {
      for (std::size_t k = 0; k < outputs; ++k) {
        const float* const w = weights + (static_cast<std::int64_t>(k) * s_.channels + channel) * 9;
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t q = 0; q < 3; ++q)
            columns[(i * 3 + q) * outputs + k] = g[i][0] * w[q] + g[i][1] * w[3 + q] + g[i][2] * w[6 + q];
      }
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) {
          const double* const c = columns.data() + i * 3 * outputs;
          for (std::size_t k = 0; k < outputs; ++k)
            row[k] = static_cast<float>(g[j][0] * c[k] + g[j][1] * c[outputs + k] + g[j][2] * c[2 * outputs + k]);
          panels_.write_row(to, static_cast<std::int64_t>(i * n + j), channel, row.data());
        }
    }
  }

  std::int64_t tiles_of(std::int64_t block) const {
    return std::min(together_, s_.images * tile_rows_ * tile_columns_ - block * together_);
  }

  // Computes a block with one thread.
  void compute(const Call& call, std::int64_t block, float* v) const {
    const std::int64_t first = block * together_, count = tiles_of(block);
    float* const m = v + points_ * x_points_;
    for (std::int64_t t = 0; t < count; ++t) transform_input(call, first + t, v + t * x_stride_);
    for (std::int64_t p = 0; p < points_; ++p) multiply(p, count, v, m);
    for (std::int64_t t = 0; t < count; ++t) transform_output(call, first + t, m + t * y_stride_);
  }

  // Computes one block with all threads together.
  void compute_together(const Call& call, std::int64_t block, float* v) const {
    const std::int64_t first = block * together_, count = tiles_of(block);
    float* const m = v + points_ * x_points_;
    const double transformed = kTransformed * static_cast<double>(count * points_),
                 multiplied = kMultiplied * static_cast<double>(count * points_ * x_stride_ * y_stride_);
    call.workers.for_each(count, transformed * static_cast<double>(x_stride_),
                          [&](std::int64_t t, int) { transform_input(call, first + t, v + t * x_stride_); });
    call.workers.for_each(points_, multiplied, [&](std::int64_t p, int) { multiply(p, count, v, m); });
    call.workers.for_each(count, transformed * static_cast<double>(y_stride_),
                          [&](std::int64_t t, int) { transform_output(call, first + t, m + t * y_stride_); });
  }

  struct Place {
    std::int64_t image, row, column;
  };
  Place place(std::int64_t tile) const {
    return {tile / tile_columns_ / tile_rows_, tile / tile_columns_ % tile_rows_ * tile_, tile % tile_columns_ * tile_};
  }

  void transform_input(const Call& call, std::int64_t tile, float* v) const {
    const float* const x = reinterpret_cast<const float*>(call.inputs[0]);
    const Place at = place(tile);
    const int n = tile_ + 2;
    std::array<const float*, 36> pixels;
    for (int r = 0; r < n; ++r)
      for (int q = 0; q < n; ++q) {
        const std::int64_t row = at.row + r - s_.pads_begin[0], column = at.column + q - s_.pads_begin[1];
        const bool inside = row >= 0 && row < s_.height && column >= 0 && column < s_.width;
        pixels[static_cast<std::size_t>(r * n + q)] =
            inside ? x + ((at.image * s_.height + row) * s_.width + column) * s_.channels : zeros_.data();
      }
    (tile_ == 2 ? loops_.winograd2_input : loops_.winograd4_input)(pixels.data(), s_.channels, v, x_points_);
  }

  void multiply(std::int64_t point, std::int64_t count, const float* v, float* m) const {
    ConvolutionLoops::Tile t{};
    t.x_stride = x_stride_;
    t.height = t.width = 1;
    t.y_stride = y_stride_;
    t.low = -std::numeric_limits<float>::infinity();
    t.high = -t.low;
    t.addend_stride = y_stride_;
    const std::int64_t blocks = (count + loops_.max_rows - 1) / loops_.max_rows;
    const std::int64_t parts = std::max<std::int64_t>(1, (s_.channels + kTogether / 2) / kTogether);
    for (std::int64_t p = 0; p < panels_.count(); ++p) {
      const float* const w = panels_.data(point, p);
      t.vectors = panels_.vectors(p);
      t.columns = t.vectors * loops_.lanes;
      const WeightsAhead ahead(w + s_.channels * t.columns, 4 * t.columns, s_.channels, blocks);
      t.ahead_step = ahead.step;
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t begin = count * b / blocks;
        t.rows = count * (b + 1) / blocks - begin;
        t.y = m + point * y_points_ + begin * y_stride_ + panels_.first(p);
        for (std::int64_t part = 0; part < parts; ++part) {
          const std::int64_t channel = s_.channels * part / parts;
          t.x = v + point * x_points_ + begin * x_stride_ + channel;
          t.w = w + channel * t.columns;
          t.length = s_.channels * (part + 1) / parts - channel;
          t.ahead = ahead.at(b, channel);
          t.addend = part > 0 ? t.y : nullptr;
          loops_.tile(t);
        }
      }
    }
  }

  void transform_output(const Call& call, std::int64_t tile, const float* m) const {
    float* const y = reinterpret_cast<float*>(call.outputs[0]);
    const float* const addend = finish_.addend ? reinterpret_cast<const float*>(call.inputs[1]) : nullptr;
    const Place at = place(tile);
    std::array<float*, 16> pixels{};
    std::array<const float*, 16> addends{};
    for (int r = 0; r < tile_; ++r)
      for (int q = 0; q < tile_; ++q) {
        if (at.row + r >= s_.out_height || at.column + q >= s_.out_width) continue;
        const std::int64_t pixel = (at.image * s_.out_height + at.row + r) * s_.out_width + at.column + q;
        pixels[static_cast<std::size_t>(r * tile_ + q)] = y + pixel * finish_.y_stride;
        if (addend != nullptr) addends[static_cast<std::size_t>(r * tile_ + q)] = addend + pixel * s_.outputs;
      }
    (tile_ == 2 ? loops_.winograd2_output
                : loops_.winograd4_output)({m, y_points_, s_.outputs, bias_.data(), pixels.data(),
                                            addend != nullptr ? addends.data() : nullptr, finish_.low, finish_.high});
    if (!finish_.function) return;
    for (float* const pixel : pixels)
      if (pixel != nullptr) finish_.function(pixel, s_.outputs);
  }

  ImageShape s_;
  Finish finish_;
  const ConvolutionLoops& loops_;
  int tile_;
  std::int64_t points_, tile_rows_, tile_columns_;
  Panels panels_;  // one matrix for each point
  std::vector<float> bias_, zeros_;
  std::int64_t x_stride_, y_stride_, x_points_, y_points_;  // of tiles and of points
  std::int64_t together_, blocks_;                          // together_: tiles of a block
  bool by_block_;                                           // is a block computed by one thread?
  int threads_;
};

}  // namespace

bool is_winograd(const ImageShape& s) {
  return s.group == 1 && s.kernel[0] == 3 && s.kernel[1] == 3 && s.strides[0] == 1 && s.strides[1] == 1 &&
         s.dilations[0] == 1 && s.dilations[1] == 1;
}

std::unique_ptr<Kernel> make_winograd_convolution(const ImageShape& shape, int tile, const Weights& weights, Finish finish,
                                                  Isa isa, int threads) {
  return std::make_unique<WinogradConvolution>(shape, tile, weights, std::move(finish), isa, threads);
}

}  // namespace rewright::cpu
