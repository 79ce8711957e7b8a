// Pools over windows in the input's layout, by loops of our own; averages of large windows by oneDNN. Its maxima ignore NaN.
#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/cpu/kernels/epilogue.h"
#include "runtime/cpu/kernels/pool_shape.h"
#include "runtime/cpu/loops/rows.h"
#include "runtime/cpu/planning/layout_assignment.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

namespace {

using dnnl::memory;

constexpr double kElements = 16;       // of windows, per nanosecond
constexpr double kPlainTap = 0.1;      // additional nanoseconds for a window element in oneDNN's plain loops
constexpr double kPlainRowTap = 0.02;  // and in our own

// Applied to the result: max(low, min(high, result * factor + the step's second input)).
struct Behind {
  float factor = 1, low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  ValueId addend = kNoValue;
  bool bounded = false;
};

dnnl::pooling_forward::primitive_desc describe(const PoolShape& s, const memory::desc& x, const memory::desc& y) {
  return {dnnl_engine(),
          dnnl::prop_kind::forward_inference,
          s.algorithm,
          x,
          y,
          s.strides,
          s.kernel,
          s.dilations,
          s.pads_begin,
          s.pads_end,
          user_scratchpad()};
}

// For tensors whose channels, or blocks of channels, are last.
class WindowKernel final : public Kernel {
 public:
  // `columns`: adjacent channels.
  WindowKernel(PoolShape shape, std::int64_t columns, const Behind& behind, const RowLoops& loops)
      : s_(of_three_axes(std::move(shape))), columns_(columns), behind_(behind), loops_(loops) {}

  void run(const Call& call) const override {
    const std::int64_t height = s_.y[3], width = s_.y[4];
    const std::int64_t rows = s_.x[0] * ((s_.x[1] + columns_ - 1) / columns_) * s_.y[2] * height;
    const double nanoseconds = static_cast<double>(rows * width * columns_ * element_count(s_.kernel)) / kElements;
    if (rows * width >= call.workers.threads()) {
      call.workers.for_each(rows, nanoseconds, [&](std::int64_t row, int) {
        for (std::int64_t q = 0; q < width; ++q) window(call.inputs, call.outputs[0], row, q, 0, columns_);
      });
      return;
    }
    // Threads share the channels of a window.
    const std::int64_t lines = (columns_ + kLine - 1) / kLine, windows = rows * width;
    const std::int64_t pieces = call.workers.pieces(nanoseconds / static_cast<double>(windows), lines);
    for (std::int64_t w = 0; w < windows; ++w)
      call.workers.share(pieces, [&](std::int64_t piece, int) {
        const std::int64_t end = std::min(columns_, first_unit(lines, piece + 1, pieces) * kLine);
        window(call.inputs, call.outputs[0], w / width, w % width, first_unit(lines, piece, pieces) * kLine, end);
      });
  }

  // Computes channels `begin` to `end` of a group of adjacent ones. Inputs: those of the step.
  void window(std::span<const std::byte* const> inputs, std::byte* output, std::int64_t row, std::int64_t q, std::int64_t begin,
              std::int64_t end) const {
    const std::int64_t depth = s_.y[2], height = s_.y[3], width = s_.y[4];
    const std::int64_t row_stride = s_.x[4] * columns_, slice_stride = s_.x[3] * row_stride;
    const PoolShape::Taps slices = s_.taps(0, row / height % depth), vertical = s_.taps(1, row % height),
                          horizontal = s_.taps(2, q);
    const RowLoops::Window window{vertical.count,   (s_.dilations[1] + 1) * row_stride,
                                  horizontal.count, (s_.dilations[2] + 1) * columns_,
                                  slices.count,     (s_.dilations[0] + 1) * slice_stride};
    const float* const x = reinterpret_cast<const float*>(inputs[0]) +
                           (row / height / depth * s_.x[2] + slices.first) * slice_stride + vertical.first * row_stride +
                           horizontal.first * columns_ + begin;
    const std::int64_t at = (row * width + q) * columns_ + begin;
    float* const y = reinterpret_cast<float*>(output) + at;
    const float* const addend = behind_.addend == kNoValue ? nullptr : reinterpret_cast<const float*>(inputs[1]) + at;
    const RowLoops::Ending ending{addend, behind_.low, behind_.high};
    if (s_.algorithm == dnnl::algorithm::pooling_max) return loops_.window_maximum(y, x, window, end - begin, ending);
    const bool all = s_.algorithm == dnnl::algorithm::pooling_avg_include_padding;
    const std::int64_t count = all ? element_count(s_.kernel) : slices.count * vertical.count * horizontal.count;
    loops_.window_sum(y, x, window, end - begin, behind_.factor / static_cast<float>(count), ending);
  }

 private:
  static constexpr std::int64_t kLine = 16;  // floats of a cache line

  PoolShape s_;
  std::int64_t columns_;
  Behind behind_;
  const RowLoops& loops_;
};

// Averages of row-major images over windows with long rows, usually whole images: vectorized along rows, accumulated in double.
class PlainAverageKernel final : public Kernel {
 public:
  PlainAverageKernel(PoolShape shape, Isa isa) : s_(of_three_axes(std::move(shape))), loops_(real_loops<float>(isa)) {}

  // Only shapes for which it is faster than oneDNN's loops.
  static bool serves(const PoolShape& shape) {
    const PoolShape s = of_three_axes(shape);
    const bool whole = s.kernel[2] == s.x[4] && s.y[4] == 1 && s.dilations[1] == 0;
    return s.dilations[2] == 0 && (whole ? s.kernel[1] * s.kernel[2] : s.kernel[2]) >= kLong;
  }

  void run(const Call& call) const override {
    const double taps = static_cast<double>(element_count(s_.y) * element_count(s_.kernel));
    call.workers.for_each(s_.x[0] * s_.x[1], taps / kElements, [&](std::int64_t plane, int) { run_plane(call, plane); });
  }

 private:
  static constexpr std::int64_t kLong = 128, kPart = 4096;

  void run_plane(const Call& call, std::int64_t plane) const {
    const std::int64_t size = s_.x[2] * s_.x[3] * s_.x[4], results = s_.y[2] * s_.y[3] * s_.y[4];
    const float* const x = reinterpret_cast<const float*>(call.inputs[0]) + plane * size;
    float* y = reinterpret_cast<float*>(call.outputs[0]) + plane * results;
    const bool all = s_.algorithm == dnnl::algorithm::pooling_avg_include_padding;
    for (std::int64_t o = 0; o < s_.y[2]; ++o)
      for (std::int64_t p = 0; p < s_.y[3]; ++p)
        for (std::int64_t q = 0; q < s_.y[4]; ++q) {
          const PoolShape::Taps slices = s_.taps(0, o), rows = s_.taps(1, p), columns = s_.taps(2, q);
          // Consecutive whole rows are merged into one.
          const bool whole = columns.count == s_.x[4] && s_.dilations[1] == 0;
          const std::int64_t runs = whole ? 1 : rows.count, length = whole ? rows.count * columns.count : columns.count;
          double total = 0;
          for (std::int64_t i = 0; i < slices.count; ++i)
            for (std::int64_t j = 0; j < runs; ++j) {
              const std::int64_t depth = slices.first + i * (s_.dilations[0] + 1), row = rows.first + j * (s_.dilations[1] + 1);
              const float* const from = x + (depth * s_.x[3] + row) * s_.x[4] + columns.first;
              for (std::int64_t at = 0; at < length; at += kPart)
                total += static_cast<double>(loops_.sum(from + at, std::min(kPart, length - at)));
            }
          const std::int64_t count = all ? element_count(s_.kernel) : slices.count * rows.count * columns.count;
          *y++ = static_cast<float>(total / static_cast<double>(count));
        }
  }

  PoolShape s_;
  const RealLoops<float>& loops_;
};

// Windows of row-major images, some rows of results at a time: for each, rows of the image are combined first, as vectors; then
// the columns of what results, with padding around it, and with strides separated by their remainders in one go for all rows.
class PlainWindowKernel final : public Kernel {
 public:
  PlainWindowKernel(PoolShape shape, Isa isa)
      : s_(of_three_axes(std::move(shape))), loops_(loops_for<RowLoops>(isa)), reals_(real_loops<float>(isa)) {
    constexpr std::int64_t kInCache = 2048;  // floats of combined rows
    const std::int64_t width = s_.y[4], size = (width - 1) * s_.strides[2] + (s_.kernel[2] - 1) * (s_.dilations[2] + 1) + 1;
    phase_ = (size + s_.strides[2] - 1) / s_.strides[2];
    together_ = std::clamp<std::int64_t>(kInCache / row_size(), 1, kMostRows);
    for (std::size_t a = 0; a < 2; ++a) reach_[a] = (s_.kernel[a] - 1) * (s_.dilations[a] + 1) + 1;
    for (std::int64_t q = 0; q < width; ++q) columns_.push_back(static_cast<float>(s_.taps(2, q).count));
    for (std::size_t a = 0; a < 2; ++a) {
      for (std::int64_t p = 0; p < s_.y[a + 2]; ++p) taps_[a].push_back(s_.taps(a, p));
      for (std::int64_t i = 0; i < s_.x[a + 2]; ++i) slots_[a].push_back(i % reach_[a] * (a == 0 ? reach_[1] : 1));
    }
    for (std::int64_t k = 0; k < s_.kernel[2]; ++k) {
      const std::int64_t column = k * (s_.dilations[2] + 1), stride = s_.strides[2];
      offsets_.push_back(column % stride * (stride == 1 ? 0 : together_ * phase_) + column / stride);
    }
  }

  static bool serves(const PoolShape& shape) {
    const PoolShape s = of_three_axes(shape);
    return s.kernel[0] * s.kernel[1] <= kMostTaps && s.kernel[2] <= kMostTaps;
  }

  // Elements that are combined, of all windows together.
  static double work(const PoolShape& shape) {
    const PoolShape s = of_three_axes(shape);
    const std::int64_t reach = (s.y[4] - 1) * s.strides[2] + (s.kernel[2] - 1) * (s.dilations[2] + 1) + 1;
    const std::int64_t results = element_count(s.y), rows = results / s.y[4] * s.kernel[0] * s.kernel[1];
    return static_cast<double>(rows * std::min(reach, s.x[4])) + static_cast<double>(results * s.kernel[2]);
  }

  void run(const Call& call) const override {
    const std::int64_t rows = s_.x[0] * s_.x[1] * s_.y[2] * s_.y[3];
    const std::int64_t pieces = call.workers.pieces(work(s_) / kElements, rows);
    call.workers.share(pieces, [&](std::int64_t piece, int) {
      Scratch scratch;
      const auto slots = static_cast<std::size_t>(s_.power > 0 ? reach_[0] * reach_[1] : 0);
      scratch.powers.resize(slots * static_cast<std::size_t>(s_.x[4]));
      scratch.numbers.assign(slots, -1);
      scratch.padded.assign(static_cast<std::size_t>(together_ * row_size()), filler());
      scratch.separated.resize(static_cast<std::size_t>(s_.strides[2] == 1 ? 0 : together_ * row_size()));
      scratch.factors.assign(columns_.size(), 1.0f);
      scratch.rows_counted = 0;
      const std::int64_t end = first_unit(rows, piece + 1, pieces);
      for (std::int64_t row = first_unit(rows, piece, pieces); row < end; row += together_)
        run_rows(call, row, std::min(together_, end - row), scratch);
    });
  }

 private:
  static constexpr std::int64_t kMostTaps = 64, kMostRows = 16;

  struct Scratch {
    std::vector<float> padded, separated, factors;
    std::vector<float> powers;          // of rows of the image, the last ones of each slice, ...
    std::vector<std::int64_t> numbers;  // ... with their numbers
    std::int64_t rows_counted = 0;      // of the window that the factors are for
  };

  std::int64_t row_size() const { return phase_ * s_.strides[2]; }
  bool is_maximum() const { return s_.algorithm == dnnl::algorithm::pooling_max; }
  float filler() const { return is_maximum() ? -std::numeric_limits<float>::infinity() : 0.0f; }

  void run_rows(const Call& call, std::int64_t first, std::int64_t count, Scratch& scratch) const {
    const float* columns[kMostRows];  // of each row, as taps of columns read it
    std::int64_t rows_of_window[kMostRows];
    const std::int64_t pitch = s_.strides[2] == 1 ? row_size() : phase_;
    bool is_copied = true, is_whole = true;  // is a row: in scratch, with a window in the image
    for (std::int64_t r = 0; r < count; ++r) {
      float* const padded = scratch.padded.data() + r * row_size();
      columns[r] = combined(call, first + r, padded, rows_of_window[r], scratch);
      is_copied = is_copied && columns[r] == padded;
      is_whole = is_whole && rows_of_window[r] > 0;
      if (s_.strides[2] != 1) columns[r] = scratch.separated.data() + r * phase_;
    }
    if (s_.strides[2] != 1)
      loops_.separate(scratch.separated.data(), together_ * phase_, scratch.padded.data(), s_.strides[2], count * phase_);
    const std::int64_t width = s_.y[4];
    float* const y = reinterpret_cast<float*>(call.outputs[0]) + first * width;
    if (is_maximum() && is_copied && is_whole && pitch == width) return combine_columns(y, columns[0], count * width);
    for (std::int64_t r = 0; r < count; ++r) {
      if (rows_of_window[r] == 0)  // dilations lead past the image
        std::fill_n(y + r * width, width, s_.power > 0 ? 0.0f : -std::numeric_limits<float>::infinity());
      else if (is_maximum())
        combine_columns(y + r * width, columns[r], width);
      else
        add_columns(y + r * width, columns[r], rows_of_window[r], scratch);
    }
  }

  void combine_columns(float* y, const float* columns, std::int64_t count) const {
    const float* taps[kMostTaps];
    for (std::size_t k = 0; k < offsets_.size(); ++k) taps[k] = columns + offsets_[k];
    loops_.taps_maximum(y, taps, static_cast<std::int64_t>(offsets_.size()), count);
  }

  // Sets the factors of windows with so many rows in the image.
  void count_for(std::int64_t rows, Scratch& scratch) const {
    const bool all = s_.algorithm == dnnl::algorithm::pooling_avg_include_padding;
    if (scratch.rows_counted == rows) return;
    scratch.rows_counted = rows;
    for (std::size_t q = 0; q < columns_.size(); ++q)
      scratch.factors[q] = 1 / (all ? static_cast<float>(element_count(s_.kernel)) : static_cast<float>(rows) * columns_[q]);
  }

  // `rows`: those that were added up for the columns.
  void add_columns(float* y, const float* columns, std::int64_t rows, Scratch& scratch) const {
    const float* taps[kMostTaps];
    for (std::size_t k = 0; k < offsets_.size(); ++k) taps[k] = columns + offsets_[k];
    if (s_.power == 0) count_for(rows, scratch);
    loops_.taps_sum(y, taps, static_cast<std::int64_t>(offsets_.size()), s_.y[4], scratch.factors.data());
    if (s_.power == 2) reals_.unary(functions::sqrt)(y, y, s_.y[4]);
  }

  // The maximum or sum of a window's rows of the image: in `padded`, or the only row where it is. `count`: the rows.
  const float* combined(const Call& call, std::int64_t row, float* padded, std::int64_t& count, Scratch& scratch) const {
    const float* rows[kMostTaps];
    count = rows_of_image(call, row, rows, scratch);
    const std::int64_t before = s_.pads_begin[2], size = std::min(row_size() - before, s_.x[4]);
    if (count == 0 || size <= 0) return padded;
    if (count == 1 && before == 0 && s_.strides[2] == 1 && size == row_size() && s_.power == 0) return rows[0];
    if (is_maximum())
      loops_.taps_maximum(padded + before, rows, count, size);
    else
      loops_.taps_sum(padded + before, rows, count, size, nullptr);
    return padded;
  }

  // The rows of a window for a row of results; returns how many.
  std::int64_t rows_of_image(const Call& call, std::int64_t row, const float** rows, Scratch& scratch) const {
    const std::int64_t slice = row / s_.y[3], plane = slice / s_.y[2];
    const PoolShape::Taps &slices = taps_[0][static_cast<std::size_t>(slice - plane * s_.y[2])],
                          &vertical = taps_[1][static_cast<std::size_t>(row - slice * s_.y[3])];
    std::int64_t count = 0;
    for (std::int64_t z = 0; z < slices.count; ++z)
      for (std::int64_t r = 0; r < vertical.count; ++r)
        rows[count++] = row_of_image(call, plane, slices.first + z * (s_.dilations[0] + 1),
                                     vertical.first + r * (s_.dilations[1] + 1), scratch);
    return count;
  }

  const float* row_of_image(const Call& call, std::int64_t plane, std::int64_t depth, std::int64_t row,
                            Scratch& scratch) const {
    const std::int64_t size = s_.x[4], number = (plane * s_.x[2] + depth) * s_.x[3] + row;
    const float* const x = reinterpret_cast<const float*>(call.inputs[0]) + number * size;
    if (s_.power == 0) return x;
    const auto slot =
        static_cast<std::size_t>(slots_[0][static_cast<std::size_t>(depth)] + slots_[1][static_cast<std::size_t>(row)]);
    float* const d = scratch.powers.data() + static_cast<std::int64_t>(slot) * size;
    if (scratch.numbers[slot] == number) return d;
    scratch.numbers[slot] = number;
    if (s_.power == 1)
      reals_.unary(functions::abs)(d, x, size);
    else
      reals_.multiply(d, x, x, size);
    return d;
  }

  PoolShape s_;
  const RowLoops& loops_;
  const RealLoops<float>& reals_;
  std::int64_t phase_, together_;         // columns of one remainder; rows that are combined before their columns are
  std::int64_t reach_[2];                 // slices and rows that a window spans
  std::vector<float> columns_;            // of a window that are inside the image, by result
  std::vector<PoolShape::Taps> taps_[2];  // by axis and position
  std::vector<std::int64_t> slots_[2];    // of slices and rows of the image among those with powers; their sum is a row's
  std::vector<std::int64_t> offsets_;     // of a row's taps
};

// Short windows of row-major images by vectors that have masks: a row of results is combined in registers.
class ShortWindowKernel final : public Kernel {
 public:
  ShortWindowKernel(const PoolShape& shape, Isa isa) : s_(of_three_axes(shape)), loops_(loops_for<RowLoops>(isa)) {
    const std::int64_t width = s_.y[4];
    const bool all = s_.algorithm == dnnl::algorithm::pooling_avg_include_padding;
    for (std::int64_t p = 0; p < s_.y[3]; ++p) {
      const PoolShape::Taps taps = s_.taps(1, p);
      first_.push_back(taps.first);
      counts_.push_back(taps.count);
    }
    if (is_maximum()) return;
    for (std::int64_t rows = 0; rows <= s_.kernel[1]; ++rows)
      for (std::int64_t q = 0; q < width; ++q)
        factors_.push_back(1 / (all ? static_cast<float>(element_count(s_.kernel))
                                    : static_cast<float>(rows) * static_cast<float>(s_.taps(2, q).count)));
    for (std::int64_t rows = 0; rows <= s_.kernel[1]; ++rows) by_rows_.push_back(factors_.data() + rows * width);
  }

  static bool serves(const PoolShape& shape, Isa isa) {
    const PoolShape s = of_three_axes(shape);
    if (loops_for<RowLoops>(isa).short_windows == nullptr || s.power != 0 || s.kernel[0] != 1 || s.dilations[2] != 0)
      return false;
    if (s.strides[2] > 2 || s.kernel[2] > 3 || s.kernel[1] > 5 || s.x[2] != s.y[2]) return false;
    for (std::int64_t p = 0; p < s.y[3]; ++p)
      if (s.taps(1, p).count == 0) return false;  // dilations lead past the image
    return true;
  }

  void run(const Call& call) const override {
    constexpr std::int64_t kInCache = 8192;  // floats of rows, which are read in columns of a vector
    const std::int64_t height = s_.y[3], rows = s_.x[0] * s_.x[1] * s_.x[2] * height;
    const std::int64_t most = std::max<std::int64_t>(1, kInCache / (s_.x[4] * s_.strides[1]));
    const std::int64_t pieces = call.workers.pieces(PlainWindowKernel::work(s_) / kElements, rows);
    call.workers.share(pieces, [&](std::int64_t piece, int) {
      const std::int64_t end = first_unit(rows, piece + 1, pieces);
      for (std::int64_t row = first_unit(rows, piece, pieces); row < end;) {
        const std::int64_t plane = row / height, p = row - plane * height, count = std::min({height - p, end - row, most});
        loops_.short_windows(reinterpret_cast<float*>(call.outputs[0]) + row * s_.y[4],
                             {reinterpret_cast<const float*>(call.inputs[0]) + plane * s_.x[3] * s_.x[4], first_.data() + p,
                              counts_.data() + p, s_.dilations[1] + 1, s_.x[4], s_.kernel[2], s_.strides[2], s_.pads_begin[2],
                              count, s_.y[4], is_maximum() ? nullptr : by_rows_.data()});
        row += count;
      }
    });
  }

 private:
  bool is_maximum() const { return s_.algorithm == dnnl::algorithm::pooling_max; }

  PoolShape s_;
  const RowLoops& loops_;
  std::vector<std::int64_t> first_, counts_;  // rows of windows, by row of the result
  std::vector<float> factors_;                // of averages, by number of rows and column
  std::vector<const float*> by_rows_;         // the same, by number of rows
};

// Windows of row-major images whose rows are short: some planes at a time become the channels of one image, which are last.
// Rows are combined first, then columns.
class NarrowWindowKernel final : public Kernel {
 public:
  NarrowWindowKernel(const PoolShape& shape, Isa isa)
      : s_(of_three_axes(shape)),
        planes_(s_.x[0] * s_.x[1]),
        reals_(real_loops<float>(isa)),
        loops_(loops_for<RowLoops>(isa)) {}

  static bool serves(const PoolShape& shape) {
    constexpr std::int64_t kShortRow = 32, kMostPixels = 1024, kFewPlanes = 8;
    const PoolShape s = of_three_axes(shape);
    return s.y[4] <= kShortRow && s.x[2] * s.x[3] * s.x[4] <= kMostPixels && s.x[0] * s.x[1] >= kFewPlanes;
  }

  void run(const Call& call) const override {
    const double nanoseconds = PlainWindowKernel::work(s_) / kElements + static_cast<double>(element_count(s_.x)) / kMoved;
    call.workers.for_each((planes_ + kTogether - 1) / kTogether, nanoseconds, [&](std::int64_t group, int) {
      const std::int64_t first = group * kTogether;
      run_planes(call, first, std::min(kTogether, planes_ - first));
    });
  }

 private:
  static constexpr std::int64_t kTogether = 64;  // four vectors of the widest kind
  static constexpr double kMoved = 4;            // elements a nanosecond

  void run_planes(const Call& call, std::int64_t first, std::int64_t count) const {
    static thread_local std::vector<float> memory;
    const std::int64_t pixels = s_.x[2] * s_.x[3] * s_.x[4], results = s_.y[2] * s_.y[3] * s_.y[4];
    memory.resize(static_cast<std::size_t>((pixels + results + s_.x[4]) * count));
    float *const x = memory.data(), *const y = x + pixels * count, *const row = y + results * count;
    reals_.transpose(x, reinterpret_cast<const float*>(call.inputs[0]) + first * pixels, pixels, pixels, count);
    for (std::int64_t p = 0; p < s_.y[2] * s_.y[3]; ++p) run_row(x, row, p, y + p * s_.y[4] * count, count);
    reals_.transpose(reinterpret_cast<float*>(call.outputs[0]) + first * results, y, count, count, results);
  }

  // One row of results; `row` has room for a row of the image.
  void run_row(const float* x, float* row, std::int64_t number, float* y, std::int64_t planes) const {
    const std::int64_t size = s_.x[4] * planes;
    const PoolShape::Taps slices = s_.taps(0, number / s_.y[3]), vertical = s_.taps(1, number % s_.y[3]);
    const bool is_maximum = s_.algorithm == dnnl::algorithm::pooling_max;
    const bool all = s_.algorithm == dnnl::algorithm::pooling_avg_include_padding;
    const std::int64_t count = slices.count * vertical.count;
    if (count > 0) {
      std::vector<const float*>& rows = taps();
      rows.clear();
      for (std::int64_t z = 0; z < slices.count; ++z)
        for (std::int64_t r = 0; r < vertical.count; ++r)
          rows.push_back(
              x + ((slices.first + z * (s_.dilations[0] + 1)) * s_.x[3] + vertical.first + r * (s_.dilations[1] + 1)) * size);
      if (is_maximum)
        loops_.taps_maximum(row, rows.data(), count, size);
      else
        loops_.taps_sum(row, rows.data(), count, size, nullptr);
    }
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const RowLoops::Ending ending{nullptr, -kInfinity, kInfinity};
    for (std::int64_t q = 0; q < s_.y[4]; ++q) {
      const PoolShape::Taps columns = s_.taps(2, q);
      const RowLoops::Window window{count > 0 ? 1 : 0, 0, columns.count, (s_.dilations[2] + 1) * planes};
      const float* const from = row + columns.first * planes;
      if (is_maximum) {
        loops_.window_maximum(y + q * planes, from, window, planes, ending);
        continue;
      }
      const std::int64_t counted = all ? element_count(s_.kernel) : count * columns.count;
      loops_.window_sum(y + q * planes, from, window, planes, 1 / static_cast<float>(counted), ending);
    }
  }

  static std::vector<const float*>& taps() {
    static thread_local std::vector<const float*> result;
    return result;
  }

  PoolShape s_;
  std::int64_t planes_;
  const RealLoops<float>& reals_;
  const RowLoops& loops_;
};

class PoolPlan final : public NodePlan, public ChoosesLayout {
 public:
  PoolPlan(const Node& node, PoolShape shape) : node_(node), shape_(std::move(shape)) {}

  // Absorbs a factor, then an addition, then bounds; computed in our own loops.
  bool absorb(Planner& planner, const Chain& chain) override {
    const ValueInfo &given = planner.info(chain.start), &result = planner.info(chain.result);
    if (behind_.bounded || given.sizes != result.sizes || given.type != result.type) return false;
    if (const auto function = match_eltwise(planner, chain)) {
      if (function->algorithm == dnnl::algorithm::eltwise_relu && function->alpha == 0) {
        behind_.low = 0;
        behind_.bounded = true;
      } else if (function->algorithm == dnnl::algorithm::eltwise_clip) {
        behind_.low = function->alpha;
        behind_.high = function->beta;
        behind_.bounded = true;
      } else if (function->algorithm == dnnl::algorithm::eltwise_linear && function->beta == 0 &&
                 shape_.algorithm != dnnl::algorithm::pooling_max && behind_.addend == kNoValue) {
        behind_.factor *= function->alpha;
      } else {
        return false;
      }
      return true;
    }
    const auto other = match_addition(planner, chain);
    if (!other || *other == chain.start || behind_.addend != kNoValue) return false;
    behind_.addend = *other;
    return true;
  }

  LayoutNeeds layout_needs(const Planner&) const override {
    const double taps = static_cast<double>(element_count(shape_.y) * element_count(shape_.kernel));
    const double plain = PlainWindowKernel::serves(shape_) ? PlainWindowKernel::work(shape_) * kPlainRowTap : taps * kPlainTap;
    LayoutNeeds needs{may_be_plain() ? plain : kNoSuchKernel, 0, {node_.inputs[0]}};
    if (behind_.addend != kNoValue) needs.operands.push_back(behind_.addend);
    return needs;
  }

  void emit(Planner& planner, ValueId result) override {
    const auto layouts = planner.layouts(node_.inputs[0]);
    Layout layout = layouts.empty() ? kPlain : layouts[0];
    if (const auto assigned = planner.assigned_layout(result); assigned && !layout.blocked()) layout = *assigned;
    if (layout.plain() && !may_be_plain()) layout = kChannelsLast;
    std::vector<int> inputs{planner.storage(node_.inputs[0], layout)};
    if (behind_.addend != kNoValue) inputs.push_back(planner.storage(behind_.addend, layout));
    const int target = planner.add_value(result, layout);
    if (!layout.plain()) {
      const std::int64_t columns = layout.blocked() ? layout.channels : shape_.x[1];
      planner.add_step(std::make_unique<WindowKernel>(shape_, columns, behind_, loops_for<RowLoops>(planner.options().isa)),
                       std::move(inputs), {target});
      return;
    }
    if (PlainAverageKernel::serves(shape_)) {
      planner.add_step(std::make_unique<PlainAverageKernel>(shape_, planner.options().isa), std::move(inputs), {target});
      return;
    }
    if (ShortWindowKernel::serves(shape_, planner.options().isa)) {
      planner.add_step(std::make_unique<ShortWindowKernel>(shape_, planner.options().isa), std::move(inputs), {target});
      return;
    }
    if (PlainWindowKernel::serves(shape_) && NarrowWindowKernel::serves(shape_)) {
      planner.add_step(std::make_unique<NarrowWindowKernel>(shape_, planner.options().isa), std::move(inputs), {target});
      return;
    }
    if (PlainWindowKernel::serves(shape_)) {
      planner.add_step(std::make_unique<PlainWindowKernel>(shape_, planner.options().isa), std::move(inputs), {target});
      return;
    }
    const auto d = describe(shape_, dnnl_desc(shape_.x, layout), dnnl_desc(shape_.y, layout));
    std::vector<DnnlKernel::Argument> arguments{{DNNL_ARG_SRC, d.src_desc(), 0, -1}, {DNNL_ARG_DST, d.dst_desc(), -1, 0}};
    planner.add_step(std::make_unique<DnnlKernel>(dnnl::pooling_forward(d), d.scratchpad_desc(), std::move(arguments)),
                     std::move(inputs), {target});
  }

 private:
  bool may_be_plain() const {
    const bool alone = behind_.factor == 1 && behind_.addend == kNoValue && !behind_.bounded;
    return alone && (shape_.algorithm != dnnl::algorithm::pooling_max || PlainWindowKernel::serves(shape_));
  }

  const Node& node_;
  PoolShape shape_;
  Behind behind_;
};

// LpPool of floats with p = 1 or 2.
class NormPoolPlan final : public NodePlan {
 public:
  NormPoolPlan(const Node& node, PoolShape shape) : node_(node), shape_(std::move(shape)) {}
  void emit(Planner& planner, ValueId result) override {
    const int x = planner.storage(node_.inputs[0], kPlain), y = planner.add_value(result, kPlain);
    planner.add_step(std::make_unique<PlainWindowKernel>(std::move(shape_), planner.options().isa), {x}, {y});
  }

 private:
  const Node& node_;
  PoolShape shape_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_pool(Planner& planner, const Node& node) {
  auto shape = read_pool(planner, node, node.op->name() == "AveragePool");
  if (!shape || planner.info(node.inputs[0]).type != DataType::kFloat) return nullptr;
  try {
    describe(*shape, dnnl_desc(shape->x, kPlain), dnnl_desc(shape->y, kPlain));
  } catch (const dnnl::error&) {
    return nullptr;
  }
  return std::make_unique<PoolPlan>(node, std::move(*shape));
}

std::unique_ptr<NodePlan> plan_norm_pool(Planner& planner, const Node& node) {
  auto shape = read_pool(planner, node, false);
  const std::int64_t power = AttributeReader(node).number("p");
  if (!shape || planner.info(node.inputs[0]).type != DataType::kFloat || power < 1 || power > 2) return nullptr;
  if (!PlainWindowKernel::serves(*shape)) return nullptr;
  shape->algorithm = dnnl::algorithm::pooling_avg_include_padding;
  shape->power = power;
  return std::make_unique<NormPoolPlan>(node, std::move(*shape));
}

std::unique_ptr<NodePlan> plan_global_average(Planner& planner, const Node& node) {
  auto shape = read_global_average(planner, node);
  if (!shape || planner.info(node.inputs[0]).type != DataType::kFloat || !planner.is_stored(node.inputs[0])) return nullptr;
  return std::make_unique<PoolPlan>(node, std::move(*shape));
}

}  // namespace rewright::cpu
