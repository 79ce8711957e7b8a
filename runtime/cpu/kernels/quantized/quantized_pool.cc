// Pools of 8-bit integers: maxima and averages of a dequantized tensor, computed from its integers, and maxima of integers. A
// following quantization is fused.
#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/cpu/kernels/pool_shape.h"
#include "runtime/cpu/kernels/quantized/affine_form.h"
#include "runtime/cpu/loops/quantized_loops.h"
#include "runtime/cpu/planning/layout_assignment.h"

namespace rewright::cpu {

namespace {

constexpr double kElements = 32;                       // of windows, per nanosecond
constexpr std::int64_t kMostPixels = (1 << 24) / 256;  // in a window: sums are later converted to float
constexpr std::int64_t kMostCounts = 256;              // different pixel counts of windows that extend beyond the image
constexpr std::int64_t kWidest = 64;                   // elements of the widest vector

bool is_8_bits(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

// The smallest number of a window's pixels inside the image.
std::int64_t least_pixels(const PoolShape& s) {
  std::int64_t result = 1;
  for (std::size_t a = 0; a < s.kernel.size(); ++a) {
    std::int64_t least = s.kernel[a];
    for (std::int64_t p = 0; p < s.y[a + 2]; ++p) least = std::min(least, s.taps(a, p).count);
    result *= std::max<std::int64_t>(least, 0);
  }
  return result;
}

// The meaning of the integers v, and the function of the result: y = round(clamp(factor * r + constant, low, high)) +
// zero_point for the pool r of scale * (v - offset), or r itself.
struct Function {
  bool is_signed = false;
  double scale = 1;
  int offset = 0;
  DataType type = DataType::kFloat;  // of y; floats are r
  double factor = 1, constant = 0;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  int zero_point = 0;
};

class QuantizedPool : public Kernel {
 public:
  QuantizedPool(PoolShape shape, const Function& function, Isa isa, int threads)
      : s_(of_three_axes(std::move(shape))),
        f_(function),
        // Any table: loops over windows do not depend on the words.
        loops_(*quantized_loops(isa, false)),
        channels_(s_.x[1]),
        stored_((channels_ + kWidest - 1) / kWidest * kWidest),
        threads_(threads) {}

  void run(const Call& call) const override {
    const std::int64_t depth = s_.y[2], height = s_.y[3], width = s_.y[4], rows = s_.x[0] * depth * height;
    const std::int64_t row_stride = s_.x[4] * channels_, slice_stride = s_.x[3] * row_stride;
    const double taken = static_cast<double>(rows * width * channels_ * element_count(s_.kernel));
    const std::int64_t bytes = f_.type == DataType::kFloat ? 4 : 1;
    call.workers.for_each(rows, taken / kElements, [&](std::int64_t row, int thread) {
      const PoolShape::Taps slices = s_.taps(0, row / height % depth), vertical = s_.taps(1, row % height);
      QuantizedLoops::Window w{};
      w.slices = slices.count;
      w.slice_stride = (s_.dilations[0] + 1) * slice_stride;
      w.rows = vertical.count;
      w.row_stride = (s_.dilations[1] + 1) * row_stride;
      w.column_stride = (s_.dilations[2] + 1) * channels_;
      w.is_signed = f_.is_signed;
      for (std::int64_t q = 0; q < width; ++q) {
        const PoolShape::Taps horizontal = s_.taps(2, q);
        w.columns = horizontal.count;
        w.x = call.inputs[0] + (row / height / depth * s_.x[2] + slices.first) * slice_stride + vertical.first * row_stride +
              horizontal.first * channels_;
        pixel(w, call.scratch + thread * pixel_bytes(), call.outputs[0] + (row * width + q) * channels_ * bytes);
      }
    });
  }
  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(threads_ * pixel_bytes()); }

 protected:
  virtual void pixel(const QuantizedLoops::Window& window, std::byte* scratch, std::byte* y) const = 0;
  std::int64_t pixel_bytes() const { return stored_ * static_cast<std::int64_t>(sizeof(std::int32_t)); }

  PoolShape s_;
  Function f_;
  const QuantizedLoops& loops_;
  std::int64_t channels_, stored_, threads_;
};

// An increasing function of the maximum: one of 256 numbers.
class MaximumPool final : public QuantizedPool {
 public:
  MaximumPool(PoolShape shape, const Function& function, Isa isa, int threads)
      : QuantizedPool(std::move(shape), function, isa, threads) {
    is_copy_ = f_.type != DataType::kFloat;
    for (int n = 0; n < 256; ++n) {
      const int v = f_.is_signed ? static_cast<std::int8_t>(n) : n;
      const auto real = static_cast<float>(v - f_.offset) * static_cast<float>(f_.scale);
      reals_[static_cast<std::size_t>(n)] = real;
      const double t = f_.factor * f_.scale * (v - f_.offset) + f_.constant;
      const double y = std::nearbyint(std::clamp<double>(t, f_.low, f_.high)) + f_.zero_point;
      bytes_[static_cast<std::size_t>(n)] = static_cast<std::byte>(f_.type == DataType::kFloat ? 0 : static_cast<int>(y) & 255);
      is_copy_ = is_copy_ && bytes_[static_cast<std::size_t>(n)] == static_cast<std::byte>(n);
    }
  }

 private:
  void pixel(const QuantizedLoops::Window& window, std::byte* scratch, std::byte* y) const override {
    loops_.window_maximum(window, channels_, f_.type == DataType::kFloat ? scratch : y);
    if (is_copy_) return;
    if (f_.type == DataType::kFloat) {
      for (std::int64_t c = 0; c < channels_; ++c)
        reinterpret_cast<float*>(y)[c] = reals_[static_cast<std::size_t>(scratch[c])];
    } else {
      for (std::int64_t c = 0; c < channels_; ++c) y[c] = bytes_[static_cast<std::size_t>(y[c])];
    }
  }

  std::array<float, 256> reals_{};
  std::array<std::byte, 256> bytes_{};
  bool is_copy_ = true;  // the table is the identity
};

class AveragePool final : public QuantizedPool {
 public:
  AveragePool(PoolShape shape, const Function& function, Isa isa, int threads)
      : QuantizedPool(std::move(shape), function, isa, threads) {
    const std::int64_t most = element_count(s_.kernel);
    least_ = least_pixels(s_);
    const bool all = s_.algorithm == dnnl::algorithm::pooling_avg_include_padding;
    for (std::int64_t count = least_; count <= most; ++count)
      by_count_.emplace_back(
          numbers(f_.factor * f_.scale / static_cast<double>(all ? most : count)),
          std::vector<std::int32_t>(static_cast<std::size_t>(stored_), static_cast<std::int32_t>(-count * f_.offset)));
    shift_ = numbers(f_.constant);
  }

 private:
  std::vector<float> numbers(double value) const {
    return std::vector<float>(static_cast<std::size_t>(stored_), static_cast<float>(value));
  }

  void pixel(const QuantizedLoops::Window& window, std::byte* scratch, std::byte* y) const override {
    auto* const sums = reinterpret_cast<std::int32_t*>(scratch);
    loops_.window_sum(window, channels_, sums);
    const auto& [factor, offset] = by_count_[static_cast<std::size_t>(window.slices * window.rows * window.columns - least_)];
    QuantizedLoops::Finish f{};
    f.sums = sums;
    f.rows = 1;
    f.columns = channels_;
    f.offset = offset.data();
    f.factor = factor.data();
    f.shift = shift_.data();
    f.low = f_.low;
    f.high = f_.high;
    f.zero_point = f_.zero_point;
    f.type = f_.type == DataType::kFloat  ? QuantizedLoops::Type::kFloat
             : f_.type == DataType::kInt8 ? QuantizedLoops::Type::kInt8
                                          : QuantizedLoops::Type::kUint8;
    f.y = y;
    loops_.finish(f);
  }

  std::int64_t least_ = 1;  // fewest pixels of a window inside the image
  std::vector<std::pair<std::vector<float>, std::vector<std::int32_t>>> by_count_;
  std::vector<float> shift_;
};

class QuantizedPoolPlan final : public NodePlan, public ChoosesLayout {
 public:
  QuantizedPoolPlan(PoolShape shape, ValueId source, std::optional<ValueId> dequantized, const Function& function)
      : shape_(std::move(shape)), source_(source), function_(function) {
    if (dequantized) ahead_ = {*dequantized};
  }

  std::vector<ValueId> computed_ahead() const override { return ahead_; }

  bool absorb(Planner& planner, const Chain& chain) override {
    const ValueInfo &from = planner.info(chain.start), &to = planner.info(chain.result);
    if (from.type != DataType::kFloat || from.sizes != to.sizes || !is_8_bits(to.type)) return false;
    const auto rounded = rounded_form(chain.element());
    if (!rounded) return false;
    const auto form = affine_form(
        {planner, rounded->inner, chain.position(), to.sizes, chain.operands(), 1, [](int operand) { return operand == 0; }});
    if (!form || form->terms.size() != 1 || form->terms[0].factor.size() != 1 || form->constant.size() != 1) return false;
    Function& f = function_;
    f.type = to.type;
    f.factor = form->terms[0].factor[0];
    f.constant = form->constant[0];
    f.zero_point = static_cast<int>(rounded->zero_point);
    f.low = static_cast<float>(std::max(form->low, static_cast<double>(rounded->low - rounded->zero_point)));
    f.high = static_cast<float>(std::min(form->high, static_cast<double>(rounded->high - rounded->zero_point)));
    return true;
  }

  LayoutNeeds layout_needs(const Planner&) const override { return {kNoSuchKernel, 0, {source_}}; }

  void emit(Planner& planner, ValueId result) override {
    const PlanOptions& options = planner.options();
    std::unique_ptr<Kernel> kernel;
    if (shape_.algorithm == dnnl::algorithm::pooling_max)
      kernel = std::make_unique<MaximumPool>(shape_, function_, options.isa, options.threads);
    else
      kernel = std::make_unique<AveragePool>(shape_, function_, options.isa, options.threads);
    std::vector<int> inputs{planner.storage(source_, kChannelsLast)};
    const int target = planner.add_value(result, kChannelsLast);
    planner.add_step(std::move(kernel), std::move(inputs), {target});
  }

 private:
  PoolShape shape_;
  ValueId source_;
  Function function_;
  std::vector<ValueId> ahead_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_quantized_pool(Planner& planner, const Node& node) {
  const std::optional<PoolShape> read = node.op->name() == "GlobalAveragePool"
                                            ? read_global_average(planner, node)
                                            : read_pool(planner, node, node.op->name() == "AveragePool");
  if (!read) return nullptr;
  const PoolShape& shape = *read;
  const bool maximum = shape.algorithm == dnnl::algorithm::pooling_max;
  const std::int64_t least = least_pixels(shape), most = element_count(shape.kernel);
  if (least == 0 || most > kMostPixels || (!maximum && most - least > kMostCounts)) return nullptr;
  Function function;
  ValueId source = node.inputs[0];
  std::optional<ValueId> dequantized;
  if (is_8_bits(planner.info(source).type)) {
    if (!maximum) return nullptr;
    function.type = planner.info(source).type;
    function.low = function.type == DataType::kInt8 ? -128 : 0;
    function.high = function.low + 255;
  } else {
    const Node* const producer = planner.producer(source);
    const auto form = producer == nullptr ? std::nullopt : match_dequantized(planner, *producer, 1);
    if (!form || form->scale.size() != 1 || form->zero_points.size() != 1) return nullptr;
    if (maximum && !(form->scale[0] > 0)) return nullptr;
    dequantized = source;
    source = form->source;
    function.scale = form->scale[0];
    function.offset = form->zero_points[0];
  }
  if (planner.is_constant(source)) return nullptr;
  function.is_signed = planner.info(source).type == DataType::kInt8;
  return std::make_unique<QuantizedPoolPlan>(shape, source, dequantized, function);
}

}  // namespace rewright::cpu
