// 8-bit integers: the image in place, or a converted copy with padding, times panels of weights; a tile's sums stay in the
// first-level cache until they are requantized.
//
// In words of four bytes, elements of the image are unsigned (signed ones plus 128) and include their zero point z; its
// contribution to a sum, z times the sum of the weights, is subtracted. In words of two 16-bit integers the zero point is
// subtracted first. Both are exact; bytes require weights that still fit into 8 bits without their zero point.
#include "runtime/cpu/kernels/quantized/quantized_convolution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/cpu/loops/quantized_loops.h"
#include "runtime/cpu/loops/weights_ahead.h"

namespace rewright::cpu {

namespace {

using Type = QuantizedLoops::Type;

constexpr std::int64_t kPartBytes = 32 << 10;      // of an image, read again for each panel of weights
constexpr std::int64_t kWeightsBytes = 512 << 10;  // of weights, read again for each part of the image
constexpr double kConverted = 16;                  // bytes per nanosecond
constexpr double kWords = 100, kTileWords = 400;   // multiply-adds per nanosecond, by vectors and by tile registers

std::int64_t rounded_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

Type type_of(DataType type) {
  if (type == DataType::kFloat) return Type::kFloat;
  if (type == DataType::kUint8) return Type::kUint8;
  return type == DataType::kInt8 ? Type::kInt8 : Type::kInt32;
}

bool fits_in_bytes(const QuantizedTask& task) {
  const Tensor& t = task.weights.tensor;
  const auto [low, high] = std::minmax_element(task.weights.zero_points.begin(), task.weights.zero_points.end());
  if (t.type() == DataType::kInt8) {
    if (*low == 0 && *high == 0) return true;
    const auto all = t.data<std::int8_t>();
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    return *least - *high >= -128 && *most - *low <= 127;
  }
  const auto all = t.data<std::uint8_t>();
  const auto [least, most] = std::minmax_element(all.begin(), all.end());
  return *least - *high >= -128 && *most - *low <= 127;
}

class QuantizedKernel : public Kernel {
 public:
  QuantizedKernel(QuantizedTask task, const QuantizedLoops& loops)
      : s_(task.shape), task_(std::move(task)), loops_(loops), unit_(loops.unit), element_(4 / loops.unit) {
    const auto reach = [&](int a, std::int64_t out) {
      return (out - 1) * s_.strides[a] + (s_.kernel[a] - 1) * s_.dilations[a] + 1;
    };
    padded_height_ = std::max(reach(0, s_.out_height), s_.pads_begin[0] + s_.height);
    padded_width_ = std::max(reach(1, s_.out_width), s_.pads_begin[1] + s_.width);
    outputs_ = rounded_up(s_.outputs, loops.lanes);
    entries_ = static_cast<std::size_t>(outputs_ + loops.lanes);
  }

  std::size_t scratch_bytes() const override { return copy_bytes() + (task_.zero_point ? 0 : entries_ * sizeof(std::int32_t)); }

 protected:
  // Numbers for each output, padded so that a vector can be read from each position.
  template <class T, class F>
  std::vector<T> by_output(F value) const {
    std::vector<T> result(entries_);
    for (std::int64_t n = 0; n < s_.outputs; ++n)
      result[static_cast<std::size_t>(n)] = static_cast<T>(value(static_cast<std::size_t>(n)));
    return result;
  }

  void set_finish() {
    const Requantization& f = task_.finish;
    if (task_.zero_point) {
      offsets_.resize(entries_);
      set_offsets(*task_.zero_point, offsets_.data());
    }
    if (!f.factor.empty()) {
      if (f.exact) {
        exact_ = by_output<double>([&](std::size_t n) { return f.factor[n]; });
      } else {
        factor_ = by_output<float>([&](std::size_t n) { return f.factor[n]; });
        shift_ = by_output<float>([&](std::size_t n) { return f.shift[n]; });
      }
    }
    finish_.factor = factor_.data();
    finish_.shift = shift_.data();
    finish_.exact_factor = exact_.empty() ? nullptr : exact_.data();
    finish_.low = f.low;
    finish_.high = f.high;
    finish_.zero_point = f.zero_point;
    finish_.type = type_of(f.type);
    finish_.y_stride = finish_.addend_stride = s_.outputs;
    y_bytes_ = static_cast<std::int64_t>(byte_size(f.type));
    if (!f.second) return;
    constant_ = by_output<float>([&](std::size_t n) { return f.second->constant[n]; });
    finish_.constant = constant_.data();
    finish_.inner_low = f.second->inner_low;
    finish_.inner_high = f.second->inner_high;
    finish_.carry = f.second->carry;
    finish_.addend_signed = f.second->addend == DataType::kInt8;
    finish_.addend_factor = f.second->factor;
  }

  // The zero point in the converted form.
  int converted(int zero_point) const { return unit_ == 2 ? 0 : zero_point + (task_.is_signed ? 128 : 0); }

  void set_offsets(int zero_point, std::int32_t* offsets) const {
    const int z = converted(zero_point);
    for (std::size_t n = 0; n < entries_; ++n) {
      const std::int32_t bias = n < task_.finish.bias.size() ? task_.finish.bias[n] : 0;
      offsets[n] = bias - z * weight_sum(n);
    }
  }
  virtual std::int32_t weight_sum(std::size_t output) const = 0;  // 0 beyond the last output

  // Shared by all runs of a step.
  struct Run {
    const std::byte* x;
    std::int64_t width, height;  // of the image at x
    const std::int32_t* offsets;
    const std::byte* addend;
    std::byte* y;
  };
  Run start(const Call& call) const {
    Run run{call.inputs[0], s_.width, s_.height, offsets_.data(), nullptr, call.outputs[0]};
    std::size_t next = 1;
    int zero_point = task_.zero_point.value_or(0);
    if (!task_.zero_point) {
      const std::byte given = *call.inputs[next++];
      zero_point = task_.is_signed ? std::bit_cast<std::int8_t>(given) : std::to_integer<int>(given);
      auto* const offsets = reinterpret_cast<std::int32_t*>(call.scratch + copy_bytes());
      set_offsets(zero_point, offsets);
      run.offsets = offsets;
    }
    if (task_.finish.second && task_.finish.second->addend) run.addend = call.inputs[next];
    if (!copied_) return run;
    run.x = call.scratch;
    run.width = padded_width_;
    run.height = padded_height_;
    call.workers.for_each(s_.images * padded_height_, static_cast<double>(padded_bytes()) / kConverted,
                          [&](std::int64_t row, int) { pad_row(call.scratch, call.inputs[0], row, zero_point); });
    std::memset(call.scratch + padded_bytes(), 0, kSlack);
    return run;
  }

  void finish(const Run& run, const std::int32_t* sums, std::int64_t stride, std::int64_t pixel, std::int64_t rows,
              std::int64_t channel, std::int64_t columns) const {
    QuantizedLoops::Finish f = finish_;
    f.sums = sums;
    f.sums_stride = stride;
    f.rows = rows;
    f.columns = columns;
    f.offset = run.offsets + channel;
    if (f.factor != nullptr) f.factor += channel;
    if (f.shift != nullptr) f.shift += channel;
    if (f.exact_factor != nullptr) f.exact_factor += channel;
    if (f.constant != nullptr) f.constant += channel;
    if (run.addend != nullptr) f.addend = run.addend + pixel * s_.outputs + channel;
    f.y = run.y + (pixel * s_.outputs + channel) * y_bytes_;
    loops_.finish(f);
  }

  static constexpr std::size_t kSlack = 64;  // behind the image: the last words and steps read into it
  std::size_t padded_bytes() const {
    return static_cast<std::size_t>(s_.images * padded_height_ * padded_width_ * s_.channels * element_);
  }
  std::size_t copy_bytes() const { return copied_ ? (padded_bytes() + kSlack + 63) / 64 * 64 : 0; }

  ImageShape s_;
  QuantizedTask task_;
  const QuantizedLoops& loops_;
  std::int64_t unit_, element_;  // elements of a word, bytes of an element
  std::int64_t padded_height_, padded_width_, outputs_;
  std::size_t entries_;
  bool copied_ = true;

 private:
  void pad_row(std::byte* scratch, const std::byte* from, std::int64_t row, int zero_point) const {
    const std::int64_t pixel = s_.channels * element_, line = padded_width_ * pixel;
    std::byte* const to = scratch + row * line;
    const auto fill = [&](std::byte* at, std::int64_t bytes) {
      std::memset(at, converted(zero_point), static_cast<std::size_t>(bytes));
    };
    const std::int64_t y = row % padded_height_ - s_.pads_begin[0];
    if (y < 0 || y >= s_.height) return fill(to, line);
    const std::int64_t before = s_.pads_begin[1] * pixel, inside = s_.width * pixel;
    fill(to, before);
    loops_.convert(to + before, from + (row / padded_height_ * s_.height + y) * s_.width * s_.channels, task_.is_signed,
                   zero_point, s_.width * s_.channels);
    fill(to + before + inside, line - before - inside);
  }

  std::vector<std::int32_t> offsets_;
  std::vector<float> factor_, shift_, constant_;
  std::vector<double> exact_;
  QuantizedLoops::Finish finish_{};
  std::int64_t y_bytes_ = 1;
};

// ---- Groups with more than one input
class TiledKernel final : public QuantizedKernel {
 public:
  using Prepared = std::function<Tensor(const std::string&, std::size_t, const std::function<void(std::byte*)>&)>;

  TiledKernel(QuantizedTask given, const Prepared& prepared, const QuantizedLoops& loops)
      : QuantizedKernel(std::move(given), loops) {
    const auto& s = s_;
    const bool touching = s.group == 1 && s.dilations[1] == 1;  // a window row's pixels are adjacent
    inputs_ = s.channels / s.group;
    tile_.height = s.kernel[0];
    tile_.width = touching ? 1 : s.kernel[1];
    const std::int64_t elements = touching ? s.kernel[1] * inputs_ : inputs_;
    steps_ = tile_steps(loops, (elements + unit_ - 1) / unit_, tile_.height * tile_.width, s.out_width);
    tile_.step = steps_.step;
    tile_.length = steps_.length;
    const bool moved = padded_width_ > s.width || padded_height_ > s.height;
    copied_ = moved || unit_ == 2 || task_.is_signed || elements != tile_.length * unit_;
    tile_.x_stride = s.strides[1] * s.channels * element_;
    tile_.column_stride = s.dilations[1] * s.channels * element_;
    tile_.row_stride = s.dilations[0] * padded_width_ * s.channels * element_;
    per_group_ = s.outputs / s.group;
    panel_columns_ = loops.lanes * loops.max_vectors;
    panels_ = (per_group_ + panel_columns_ - 1) / panel_columns_;
    depth_ = tile_.height * tile_.width * tile_.length;
    stored_columns_ = rounded_up(per_group_, loops.lanes);
    const std::size_t all = static_cast<std::size_t>(s.group * stored_columns_ * depth_);
    packed_ =
        prepared("bytes " + std::to_string(unit_) + ' ' + std::to_string(loops.lanes) + ' ' + std::to_string(tile_.length),
                 (all + static_cast<std::size_t>(s.outputs)) * 4, [&](std::byte* to) {
                   auto* const target = reinterpret_cast<std::int32_t*>(to);
                   pack(target);
                   for (std::int64_t n = 0; n < s.outputs; ++n) target[all + static_cast<std::size_t>(n)] = sum_of(n);
                 });
    sums_ = weights() + all;
    set_finish();
    // Rows at a distance that is a multiple of 4 KiB share a set of the first-level cache. Tile registers read whole lines.
    rows_ = steps_.loops->max_rows;
    if (tile_.x_stride % 4096 == 0 && !steps_.in_registers()) rows_ = std::min<std::int64_t>(8, rows_);
    const std::int64_t pixel = std::max(s.strides[1] * s.channels * s.kernel[0] * element_, s.outputs);
    part_ = std::max<std::int64_t>(1, kPartBytes / pixel / rows_) * rows_;
    together_ = std::max<std::int64_t>(1, kWeightsBytes / std::max<std::int64_t>(1, 4 * depth_ * panel_columns_));
  }

  void run(const Call& call) const override {
    const Run run = start(call);
    const std::int64_t parts = (s_.out_width + part_ - 1) / part_, rows = s_.images * s_.out_height;
    const std::int64_t all = s_.group * panels_, sets = (all + together_ - 1) / together_;
    const double words = static_cast<double>(rows * s_.out_width) * static_cast<double>(s_.group * stored_columns_ * depth_);
    const std::int64_t units = sets * rows * parts;
    const std::int64_t pieces = call.workers.pieces(words / (steps_.in_registers() ? kTileWords : kWords), units);
    call.workers.share(pieces, [&](std::int64_t piece, int) {
      TileRun tiles(*steps_.loops);
      for (std::int64_t unit = first_unit(units, piece, pieces); unit < first_unit(units, piece + 1, pieces); ++unit) {
        const std::int64_t set = unit / parts / rows, row = unit / parts % rows, part = unit % parts;
        const std::int64_t first = part * part_, count = std::min(part_, s_.out_width - first);
        for (std::int64_t p = set * together_; p < std::min(all, (set + 1) * together_); ++p)
          compute(run, tiles, p, row, first, count);
      }
    });
  }

 private:
  const std::int32_t* weights() const { return reinterpret_cast<const std::int32_t*>(packed_.bytes().data()); }
  std::int32_t weight_sum(std::size_t output) const override {
    return output < static_cast<std::size_t>(s_.outputs) ? sums_[output] : 0;
  }

  // The input and pixel of element e in a word of the packed weights; false for padding.
  bool place(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t* input, std::int64_t* pixel) const {
    if (tile_.width == 1 && s_.kernel[1] > 1) {  // a row of the window
      if (k >= s_.kernel[1] * inputs_) return false;
      *input = k % inputs_;
      *pixel = i * s_.kernel[1] + k / inputs_;
      return true;
    }
    *input = k;
    *pixel = i * s_.kernel[1] + j;
    return k < inputs_;
  }

  void pack(std::int32_t* to) const {
    for (std::int64_t g = 0; g < s_.group; ++g)
      for (std::int64_t p = 0; p < panels_; ++p) {
        const std::int64_t first = p * panel_columns_,
                           width = rounded_up(std::min(panel_columns_, per_group_ - first), loops_.lanes);
        std::int32_t* words = to + (g * stored_columns_ + first) * depth_;
        for (std::int64_t i = 0; i < tile_.height; ++i)
          for (std::int64_t j = 0; j < tile_.width; ++j)
            for (std::int64_t k = 0; k < tile_.length; ++k, words += width) pack_words(words, g, first, width, i, j, k);
      }
  }
  void pack_words(std::int32_t* to, std::int64_t g, std::int64_t first, std::int64_t width, std::int64_t i, std::int64_t j,
                  std::int64_t k) const {
    for (std::int64_t c = 0; c < width; ++c) to[c] = 0;
    for (std::int64_t e = 0; e < unit_; ++e) {
      std::int64_t input = 0, pixel = 0;
      if (!place(i, j, k * unit_ + e, &input, &pixel)) continue;
      for (std::int64_t c = 0; c < std::min(width, per_group_ - first); ++c) {
        const auto value = static_cast<std::uint32_t>(task_.weights.at(g * per_group_ + first + c, input, pixel));
        const std::uint32_t bits = unit_ == 4 ? value & 0xFF : value & 0xFFFF;
        to[c] = static_cast<std::int32_t>(static_cast<std::uint32_t>(to[c]) | bits << (32 / unit_ * e));
      }
    }
  }
  std::int32_t sum_of(std::int64_t output) const {
    std::int32_t sum = 0;
    for (std::int64_t c = 0; c < inputs_; ++c)
      for (std::int64_t t = 0; t < s_.kernel[0] * s_.kernel[1]; ++t) sum += task_.weights.at(output, c, t);
    return sum;
  }

  void compute(const Run& run, TileRun& tiles, std::int64_t p, std::int64_t row, std::int64_t first, std::int64_t count) const {
    const std::int64_t group = p / panels_, column = p % panels_ * panel_columns_;
    const std::int64_t image = row / s_.out_height, top = row % s_.out_height * s_.strides[0];
    QuantizedLoops::Tile t = tile_;
    const std::int64_t columns = std::min(panel_columns_, per_group_ - column);
    t.vectors = (columns + loops_.lanes - 1) / loops_.lanes;
    t.w = weights() + (group * stored_columns_ + column) * depth_;
    alignas(64) std::int32_t sums[kMostSums];
    t.sums = sums;
    t.registers = tiles.registers();
    const TileBlocks blocks(steps_, first, count, rows_);
    const std::int64_t channel = group * per_group_ + column;
    // The tiles of a set of panels ask for the weights of the next set, some of them each.
    const std::int64_t row_blocks = (s_.out_width + rows_ - 1) / rows_, all_blocks = s_.images * s_.out_height * row_blocks;
    const WeightsAhead ahead(t.w + together_ * depth_ * panel_columns_, 4 * t.vectors * loops_.lanes, depth_,
                             all_blocks <= kMostAsking ? all_blocks : 1);
    t.ahead_step = ahead.step;
    for (std::int64_t b = 0; b < blocks.count(); ++b) {
      const auto [start, begin, end] = blocks.block(b);
      const std::int64_t at = (image * run.height + top) * run.width + start * s_.strides[1];
      t.x = run.x + (at * s_.channels + group * inputs_) * element_;
      t.rows = end - start;
      t.ahead = ahead.at(row * row_blocks + begin / rows_);
      steps_.loops->tile(t);
      finish(run, sums + (begin - start) * panel_columns_, panel_columns_, row * s_.out_width + begin, end - begin, channel,
             columns);
    }
  }

  static constexpr std::size_t kMostSums = 32 * 32;
  // Most tiles that ask for weights; with more, reading the weights once is little of the work.
  static constexpr std::int64_t kMostAsking = 64;
  std::int64_t inputs_ = 1, per_group_ = 1, panel_columns_ = 1, panels_ = 1, depth_ = 1, stored_columns_ = 1;
  QuantizedLoops::Tile tile_{};
  TileSteps steps_{};
  Tensor packed_;
  const std::int32_t* sums_ = nullptr;
  std::int64_t rows_ = 1, part_ = 1, together_ = 1;  // pixels of a tile, pixels of a part, panels of a set
};

// ---- Depthwise
class ChannelKernel final : public QuantizedKernel {
 public:
  ChannelKernel(QuantizedTask given, const QuantizedLoops& loops) : QuantizedKernel(std::move(given), loops) {
    tile_.height = s_.kernel[0];
    tile_.width = (s_.kernel[1] + unit_ - 1) / unit_;
    tile_.w_stride = tile_.sums_stride = tile_.column_stride = outputs_;
    tile_.x_stride = tile_.width * outputs_;
    tile_.vectors = outputs_ / loops.lanes;
    weights_.resize(static_cast<std::size_t>(tile_.height * tile_.width * outputs_));
    sums_.resize(static_cast<std::size_t>(outputs_));
    for (std::int64_t c = 0; c < s_.channels; ++c)
      for (std::int64_t t = 0; t < s_.kernel[0] * s_.kernel[1]; ++t) {
        const int value = task_.weights.at(c, 0, t);
        const std::int64_t i = t / s_.kernel[1], j = t % s_.kernel[1];
        std::int32_t& word = weights_[static_cast<std::size_t>((i * tile_.width + j / unit_) * outputs_ + c)];
        const std::uint32_t bits = static_cast<std::uint32_t>(value) & (unit_ == 4 ? 0xFF : 0xFFFF);
        word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) | bits << (32 / unit_ * (j % unit_)));
        sums_[static_cast<std::size_t>(c)] += value;
      }
    tile_.w = weights_.data();
    set_finish();
    pixels_ = std::max<std::int64_t>(4, kPartBytes / 4 / outputs_ / 4 * 4);
    line_ = s_.out_width * tile_.x_stride;
    kept_ = (s_.kernel[0] - 1) * s_.dilations[0] + 1;
  }

  std::size_t scratch_bytes() const override { return QuantizedKernel::scratch_bytes() + 64; }

  void run(const Call& call) const override {
    const Run run = start(call);
    const std::int64_t rows = s_.images * s_.out_height;
    const double words = static_cast<double>(rows * s_.out_width) * static_cast<double>(weights_.size());
    const std::int64_t pieces = call.workers.pieces(4 * words / kWords, rows);
    call.workers.share(pieces, [&](std::int64_t piece, int) {
      compute(run, first_unit(rows, piece, pieces), first_unit(rows, piece + 1, pieces));
    });
  }

 private:
  std::int32_t weight_sum(std::size_t output) const override { return output < sums_.size() ? sums_[output] : 0; }

  // Computes rows of the result from `begin` on. Rows of words are kept as long as windows need them.
  void compute(const Run& run, std::int64_t begin, std::int64_t end) const {
    static thread_local std::vector<std::int32_t> lines, sums;
    static thread_local std::vector<const std::int32_t*> window;
    const std::size_t lines_size = static_cast<std::size_t>(kept_ * line_),
                      sums_size = static_cast<std::size_t>(pixels_ * outputs_);
    if (lines.size() < lines_size) lines.resize(lines_size);
    if (sums.size() < sums_size) sums.resize(sums_size);
    window.resize(static_cast<std::size_t>(s_.kernel[0]));
    std::int64_t known = -1, image = -1;  // the last row available
    for (std::int64_t row = begin; row < end; ++row) {
      if (image != row / s_.out_height) known = -1;
      image = row / s_.out_height;
      const std::int64_t top = row % s_.out_height * s_.strides[0];
      for (std::int64_t y = std::max(top, known + 1); y < top + kept_; ++y)
        make_line(lines.data() + y % kept_ * line_, run.x + (image * run.height + y) * run.width * s_.channels * element_);
      known = top + kept_ - 1;
      for (std::int64_t i = 0; i < s_.kernel[0]; ++i)
        window[static_cast<std::size_t>(i)] = lines.data() + (top + i * s_.dilations[0]) % kept_ * line_;
      QuantizedLoops::ChannelTile t = tile_;
      t.x = window.data();
      t.sums = sums.data();
      for (std::int64_t first = 0; first < s_.out_width; first += pixels_) {
        t.first = first * t.x_stride;
        t.rows = std::min(pixels_, s_.out_width - first);
        loops_.channel_tile(t);
        finish(run, sums.data(), outputs_, row * s_.out_width + first, t.rows, 0, s_.outputs);
      }
    }
  }

  void make_line(std::int32_t* to, const std::byte* from) const {
    const std::int64_t pixel = s_.channels * element_;
    for (std::int64_t q = 0; q < s_.out_width; ++q)
      for (std::int64_t j = 0; j < tile_.width; ++j) {
        const std::byte* pixels[4] = {};
        for (std::int64_t e = 0; e < unit_; ++e) {
          // Beyond the window weights are zero, so any pixel will do.
          const std::int64_t tap = std::min(j * unit_ + e, s_.kernel[1] - 1);
          pixels[e] = from + (q * s_.strides[1] + tap * s_.dilations[1]) * pixel;
        }
        loops_.interleave(to + (q * tile_.width + j) * outputs_, pixels, s_.channels);
      }
  }

  QuantizedLoops::ChannelTile tile_{};
  std::vector<std::int32_t> weights_, sums_;
  std::int64_t pixels_ = 1, line_ = 1, kept_ = 1;
};

}  // namespace

int QuantizedWeights::at(std::int64_t output, std::int64_t input, std::int64_t pixel) const {
  const std::byte value =
      tensor.bytes()[static_cast<std::size_t>(output * output_stride + input * input_stride + pixel * pixel_stride)];
  const int number = tensor.type() == DataType::kInt8 ? int{std::bit_cast<std::int8_t>(value)} : std::to_integer<int>(value);
  return number - zero_points[zero_points.size() == 1 ? 0 : static_cast<std::size_t>(output)];
}

bool fits_in_sums(const QuantizedTask& task) {
  const ImageShape& s = task.shape;
  const double largest = 255.0 * 256 * static_cast<double>(s.channels / s.group * s.kernel[0] * s.kernel[1]);
  double bias = 0;
  for (const std::int32_t b : task.finish.bias) bias = std::max(bias, std::fabs(static_cast<double>(b)));
  return largest + bias < 0x1p31;
}

std::unique_ptr<Kernel> make_quantized_convolution(
    QuantizedTask task,
    const std::function<Tensor(const std::string&, std::size_t, const std::function<void(std::byte*)>&)>& prepared, Isa isa) {
  const QuantizedLoops* loops = fits_in_bytes(task) ? quantized_loops(isa, true) : nullptr;
  if (loops == nullptr) loops = quantized_loops(isa, false);
  ImageShape& s = task.shape;
  const bool pointwise = s.kernel[0] == 1 && s.kernel[1] == 1 && s.strides[0] == 1 && s.strides[1] == 1 &&
                         s.out_height == s.height && s.out_width == s.width && s.pads_begin[0] == 0 && s.pads_begin[1] == 0;
  if (pointwise) {
    s.width = s.out_width = s.images * s.height * s.width;
    s.images = s.height = s.out_height = 1;
  }
  if (s.group == s.channels && s.outputs == s.channels && s.group > 1)
    return std::make_unique<ChannelKernel>(std::move(task), *loops);
  return std::make_unique<TiledKernel>(std::move(task), prepared, *loops);
}

}  // namespace rewright::cpu
