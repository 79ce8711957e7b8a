// Transposed convolutions as matrix products: each pixel of the image times the weights of all window positions at once;
// overlapping results are added. Vectors run along window and outputs, so that few outputs fill them.
#include <algorithm>
#include <cstring>

#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/kernels/product/packed_product.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kTogether = 64;           // pixels of a product at least, if rows of the image are shorter
constexpr std::int64_t kMostFloats = 256 << 10;  // of a product
constexpr double kMultiplications = 100;         // a nanosecond

class TransposedConvolution final : public Kernel {
 public:
  TransposedConvolution(const ImageShape& shape, const Weights& weights, Finish finish, Isa isa, int threads)
      : s_(shape), finish_(std::move(finish)), loops_(loops_for<ProductLoops>(isa)), threads_(threads) {
    const std::int64_t window = s_.kernel[0] * s_.kernel[1], columns = window * s_.outputs;
    rows_together_ = std::clamp<std::int64_t>(kTogether / s_.width, 1, s_.height);
    task_.loops = &loops_;
    task_.b = packed_shape(loops_, rows_together_ * s_.width, s_.channels, columns);
    task_.b.columns = task_.b.panels() * task_.b.width;  // columns that pad the last panel are computed as well
    task_.a_rows = s_.channels;
    task_.y_rows = task_.b.columns;
    while (rows_together_ > 1 && product_floats() > kMostFloats) --rows_together_;
    const std::string how = "transposed " + std::to_string(task_.b.width);
    weights_ = weights.prepared(how, sizeof(float) * static_cast<std::size_t>(task_.b.floats()), [&](std::byte* bytes) {
      const Tensor plain = weights.plain();  // [channels, outputs, window]
      const float* const w = plain.data<float>().data();
      std::vector<float> matrix(static_cast<std::size_t>(s_.channels * task_.b.columns));  // [channels][window][outputs]
      for (std::int64_t c = 0; c < s_.channels; ++c)
        for (std::int64_t k = 0; k < s_.outputs; ++k)
          for (std::int64_t p = 0; p < window; ++p)
            matrix[static_cast<std::size_t>(c * task_.b.columns + p * s_.outputs + k)] = w[(c * s_.outputs + k) * window + p];
      pack(loops_, matrix.data(), {s_.channels, task_.b.columns, task_.b.columns}, task_.b, {}, reinterpret_cast<float*>(bytes),
           0, task_.b.panels());
    });
    if (finish_.bias.empty()) finish_.bias.assign(static_cast<std::size_t>(s_.outputs), 0);
    for (std::int64_t column = 0; column < s_.out_width; ++column)
      bias_row_.insert(bias_row_.end(), finish_.bias.begin(), finish_.bias.end());
  }

  std::size_t scratch_bytes() const override { return sizeof(float) * static_cast<std::size_t>(threads_ * product_floats()); }

  void run(const Call& call) const override {
    const std::int64_t rows = s_.images * s_.out_height;
    const double nanoseconds = static_cast<double>(s_.images * s_.height * s_.width * task_.b.floats()) / kMultiplications;
    const std::int64_t pieces = call.workers.pieces(nanoseconds, rows);
    call.workers.share(pieces, [&](std::int64_t piece, int thread) {
      const std::int64_t first = first_unit(rows, piece, pieces), last = first_unit(rows, piece + 1, pieces);
      float* const product = reinterpret_cast<float*>(call.scratch) + thread * product_floats();
      for (std::int64_t image = first / s_.out_height; image * s_.out_height < last; ++image) {
        const std::int64_t before = image * s_.out_height;
        compute(call, image, std::max(first - before, std::int64_t{0}), std::min(last - before, s_.out_height), product);
      }
    });
  }

 private:
  std::int64_t product_floats() const { return rows_together_ * s_.width * task_.b.columns; }

  // Computes rows of one image's result, from the first up to the last (exclusive).
  void compute(const Call& call, std::int64_t image, std::int64_t first, std::int64_t last, float* product) const {
    const std::int64_t reach = (s_.kernel[0] - 1) * s_.dilations[0], step = s_.strides[0], pad = s_.pads_begin[0];
    // Rows begin <= row < end of the image contribute to these rows.
    const std::int64_t above = first + pad - reach;
    const std::int64_t begin = std::min(above <= 0 ? 0 : (above + step - 1) / step, s_.height);
    const std::int64_t end = std::clamp<std::int64_t>((last - 1 + pad) / step + 1, begin, s_.height);
    std::int64_t begun = first, ended = first;  // rows of the result
    const auto begin_rows = [&](std::int64_t to) {
      for (; begun < std::min(to, last); ++begun) begin_row(call, image, begun);
    };
    const auto end_rows = [&](std::int64_t to) {
      begin_rows(to);
      for (; ended < std::min(to, last); ++ended) end_row(call, image, ended);
    };
    for (std::int64_t from = begin; from < end; from += rows_together_) {
      const std::int64_t to = std::min(from + rows_together_, end);
      multiply(call, image, from, to, product);
      for (std::int64_t row = from; row < to; ++row) {
        const std::int64_t top = row * step - pad;
        begin_rows(top + reach + 1);
        for (std::int64_t i = 0; i < s_.kernel[0]; ++i) {
          const std::int64_t at = top + i * s_.dilations[0];
          if (at >= first && at < last)
            add_row(product + (row - from) * s_.width * task_.b.columns + i * s_.kernel[1] * s_.outputs,
                    result(call, image, at));
        }
        end_rows(top + step);  // the next image row contributes from there on
      }
    }
    end_rows(last);
  }

  void multiply(const Call& call, std::int64_t image, std::int64_t from, std::int64_t to, float* product) const {
    const float* const x = reinterpret_cast<const float*>(call.inputs[0]) + (image * s_.height + from) * s_.width * s_.channels;
    ProductTask task = task_;
    task.rows = (to - from) * s_.width;
    task.run(x, reinterpret_cast<const float*>(weights_.bytes().data()), product, {}, {0, task.rows, 0, task.b.panels()});
  }

  float* result(const Call& call, std::int64_t image, std::int64_t row) const {
    return reinterpret_cast<float*>(call.outputs[0]) + (image * s_.out_height + row) * row_floats();
  }
  std::int64_t row_floats() const { return s_.out_width * s_.outputs; }

  void begin_row(const Call& call, std::int64_t image, std::int64_t row) const {
    float* const y = result(call, image, row);
    std::copy(bias_row_.begin(), bias_row_.end(), y);
    if (!finish_.addend) return;
    const std::int64_t at = (image * s_.out_height + row) * row_floats();
    loops_.add(y, 0, reinterpret_cast<const float*>(call.inputs[1]) + at, 0, 1, row_floats());
  }

  void end_row(const Call& call, std::int64_t image, std::int64_t row) const {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    float* const y = result(call, image, row);
    if (finish_.low != -kInfinity || finish_.high != kInfinity)
      loops_.apply(RowFunction::kClip, finish_.low, finish_.high, y, 0, 1, row_floats());
    if (finish_.function) finish_.function(y, row_floats());
  }

  // Adds the products of one image row with one window row to a row of the result. In a dense window, the products of a pixel
  // belong to neighbouring pixels of the result and are added as one run; in a dilated one each is a run.
  void add_row(const float* product, float* y) const {
    const bool dense = s_.dilations[1] == 1;
    const std::int64_t runs = dense ? 1 : s_.kernel[1], length = dense ? s_.kernel[1] : 1;
    for (std::int64_t j = 0; j < runs; ++j)
      add_runs(product + j * s_.outputs, j * s_.dilations[1] - s_.pads_begin[1], length, y);
  }

  // Adds a run for each pixel of the row: `length` pixels of the result, starting at `offset` for the first.
  void add_runs(const float* product, std::int64_t offset, std::int64_t length, float* y) const {
    const std::int64_t step = s_.strides[1], stride = task_.b.columns;
    const auto add = [&](std::int64_t pixel, std::int64_t apart, std::int64_t count, std::int64_t from, std::int64_t to) {
      loops_.add(y + (pixel * step + offset + from) * s_.outputs, apart * step * s_.outputs,
                 product + pixel * stride + from * s_.outputs, apart * stride, count, (to - from) * s_.outputs);
    };
    // Runs whole <= pixel < after are inside the result; others are clipped.
    std::int64_t whole = offset >= 0 ? 0 : (-offset + step - 1) / step;
    whole = std::min(whole, s_.width);
    const std::int64_t room = s_.out_width - length - offset;
    const std::int64_t after = std::clamp<std::int64_t>(room < 0 ? 0 : room / step + 1, whole, s_.width);
    const auto add_part = [&](std::int64_t pixel) {
      const std::int64_t at = pixel * step + offset;
      const std::int64_t from = std::max<std::int64_t>(0, -at), to = std::min(length, s_.out_width - at);
      if (from < to) add(pixel, 0, 1, from, to);
    };
    for (std::int64_t pixel = 0; pixel < whole; ++pixel) add_part(pixel);
    // Overlapping runs are not added consecutively, since loads of just stored data stall.
    const std::int64_t apart = (length + step - 1) / step;
    for (std::int64_t first = whole; first < std::min(whole + apart, after); ++first)
      add(first, apart, (after - first + apart - 1) / apart, 0, length);
    for (std::int64_t pixel = after; pixel < s_.width; ++pixel) add_part(pixel);
  }

  ImageShape s_;
  Finish finish_;
  const ProductLoops& loops_;
  int threads_;
  ProductTask task_;
  std::int64_t rows_together_ = 1;  // image rows in one product
  Tensor weights_;
  std::vector<float> bias_row_;
};

}  // namespace

std::unique_ptr<Kernel> make_transposed_convolution(const ImageShape& shape, const Weights& weights, Finish finish, Isa isa,
                                                    int threads) {
  return std::make_unique<TransposedConvolution>(shape, weights, std::move(finish), isa, threads);
}

}  // namespace rewright::cpu
