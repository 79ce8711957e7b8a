// Convolutions and products of 8-bit integers: quantized operators, and others between dequantization and quantization.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/cpu/kernels/quantized/affine_form.h"
#include "runtime/cpu/kernels/quantized/quantized_convolution.h"
#include "runtime/cpu/planning/layout_assignment.h"
#include "runtime/planning/node_shapes.h"

namespace rewright::cpu {

namespace {

bool is_8_bits(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

double range_low(DataType type) { return type == DataType::kInt8 ? -128 : 0; }
double range_high(DataType type) { return type == DataType::kInt8 ? 127 : 255; }

// The image of a convolution over one or two axes; `weight`: the number of the weights' input.
std::optional<ImageShape> image_of(const Planner& planner, const Node& node, std::size_t weight) {
  const Sizes &x = planner.info(node.inputs[0]).sizes, &w = planner.info(node.inputs[weight]).sizes;
  const Sizes& y = planner.info(node.outputs[0]).sizes;
  const auto c = x.size() > 4 ? std::nullopt : planning::read_convolution_node(node, x, w, y);
  if (!c) return std::nullopt;
  ImageShape s;
  s.images = x[0];
  s.channels = x[1];
  s.outputs = y[1];
  s.group = c->group;
  s.width = x.back();
  s.out_width = y.back();
  const std::size_t axes = x.size() - 2;
  if (axes == 2) {
    s.height = x[2];
    s.out_height = y[2];
  }
  for (std::size_t a = 0; a < axes; ++a) {
    const std::size_t to = 2 - axes + a;
    s.kernel[to] = w[2 + a];
    s.strides[to] = c->strides[a];
    s.dilations[to] = c->dilations[a];
    s.pads_begin[to] = c->pads_begin[a];
  }
  return s;
}

// The positions of a convolution's weights, or of a product's right operand.
QuantizedWeights convolution_weights(const Tensor& tensor) {
  const Sizes w = tensor.sizes();
  std::int64_t window = 1;
  for (std::size_t a = 2; a < w.size(); ++a) window *= w[a];
  return {tensor, {0}, window * w[1], window, 1};
}
QuantizedWeights product_weights(const Tensor& tensor, bool transposed) {
  const Sizes b = tensor.sizes();
  return transposed ? QuantizedWeights{tensor, {0}, b[1], 1, 1} : QuantizedWeights{tensor, {0}, 1, b[1], 1};
}

// A product as a convolution of one row of pixels.
std::optional<ImageShape> product_shape(const Sizes& a, const Sizes& b, bool transposed) {
  if (a.size() < 2 || b.size() != 2 || element_count(a) == 0 || element_count(b) == 0) return std::nullopt;
  ImageShape s;
  s.channels = a.back();
  s.width = s.out_width = element_count(a) / a.back();
  s.outputs = b[transposed ? 0 : 1];
  return s;
}

std::vector<double> repeated(std::vector<double> numbers, std::int64_t count) {
  if (numbers.size() == 1) numbers.resize(static_cast<std::size_t>(count), numbers[0]);
  return numbers;
}

class QuantizedPlan final : public NodePlan, public ChoosesLayout {
 public:
  // `axis`: the result's axis of outputs.
  QuantizedPlan(QuantizedTask task, ValueId x, ValueId zero_point, std::size_t axis, Layout layout)
      : task_(std::move(task)), x_(x), zero_point_(zero_point), axis_(axis), layout_(layout) {}

  void set_ahead(std::vector<ValueId> values) { ahead_ = std::move(values); }
  std::vector<ValueId> computed_ahead() const override { return ahead_; }

  bool absorb(Planner& planner, const Chain& chain) override {
    if (planner.info(chain.result).sizes != planner.info(chain.start).sizes || task_.finish.exact) return false;
    const DataType from = planner.info(chain.start).type, to = planner.info(chain.result).type;
    if (from == DataType::kInt32) return absorb_sums(planner, chain, to);
    if (from == DataType::kFloat && to == DataType::kFloat) {
      const auto form = form_of(planner, chain, chain.element());
      return form && form->terms.size() == 1 && follow(*form);
    }
    if (!is_8_bits(to)) return false;
    const auto rounded = rounded_form(chain.element());
    if (!rounded) return false;
    const auto form = form_of(planner, chain, rounded->inner);
    if (!form) return false;
    if (from == DataType::kFloat) {
      if (form->terms.size() != 1 || !follow(*form)) return false;
    } else if (!follow_rounded(planner, chain, *form)) {
      return false;
    }
    quantize(to, *rounded);
    return true;
  }

  LayoutNeeds layout_needs(const Planner&) const override {
    LayoutNeeds needs{layout_.plain() ? 0 : kNoSuchKernel, layout_.plain() ? kNoSuchKernel : 0, {x_}};
    if (addend_ != kNoValue) needs.operands.push_back(addend_);
    return needs;
  }

  void emit(Planner& planner, ValueId result) override {
    std::vector<int> inputs{planner.storage(x_, layout_)};
    if (zero_point_ != kNoValue) inputs.push_back(planner.storage(zero_point_, kPlain));
    if (addend_ != kNoValue) inputs.push_back(planner.storage(addend_, layout_));
    auto kernel = make_quantized_convolution(
        task_,
        [&](const std::string& how, std::size_t bytes, const std::function<void(std::byte*)>& fill) {
          return planner.prepared(origin(), how, bytes, fill);
        },
        planner.options().isa);
    const int target = planner.add_value(result, layout_);
    planner.add_step(std::move(kernel), std::move(inputs), {target});
  }

 private:
  // Operators behind the sums: the addition of integers, or reals, which may be quantized.
  bool absorb_sums(const Planner& planner, const Chain& chain, DataType to) {
    const auto rounded = is_8_bits(to) ? rounded_form(chain.element()) : std::nullopt;
    if (!rounded && to != DataType::kFloat && to != DataType::kInt32) return false;
    const auto form = form_of(planner, chain, rounded ? rounded->inner : chain.element());
    if (!form || form->terms.size() != 1) return false;
    QuantizedTask given = task_;
    if (to == DataType::kInt32) {
      if (add_bias(*form) && fits_in_sums(task_)) return true;
    } else {
      const auto outputs = static_cast<std::size_t>(task_.shape.outputs);
      task_.finish.factor.assign(outputs, 1);
      task_.finish.shift.assign(outputs, 0);
      task_.finish.type = DataType::kFloat;
      if (follow(*form)) {
        if (rounded) quantize(to, *rounded);
        return true;
      }
    }
    task_ = std::move(given);
    return false;
  }

  bool add_bias(const AffineForm& form) {
    constexpr double kMost = std::numeric_limits<std::int32_t>::max();
    if (form.bounded() || std::ranges::any_of(form.terms[0].factor, [](double by) { return by != 1; })) return false;
    const std::vector<double> plus = repeated(form.constant, task_.shape.outputs);
    std::vector<std::int32_t>& bias = task_.finish.bias;
    bias.resize(plus.size());
    for (std::size_t n = 0; n < plus.size(); ++n) {
      const double sum = bias[n] + plus[n];
      if (!(std::fabs(sum) <= kMost) || sum != std::nearbyint(sum)) return false;
      bias[n] = static_cast<std::int32_t>(sum);
    }
    return true;
  }

  void quantize(DataType type, const RoundedForm& rounded) {
    Requantization& f = task_.finish;
    f.type = type;
    f.zero_point = static_cast<int>(rounded.zero_point);
    f.low = std::max(f.low, static_cast<float>(rounded.low - rounded.zero_point));
    f.high = std::min(f.high, static_cast<float>(rounded.high - rounded.zero_point));
  }

  // The expression over the chain's start, and over other 8-bit tensors of the same sizes if the start is one.
  std::optional<AffineForm> form_of(const Planner& planner, const Chain& chain, const Element& element) const {
    const bool from_integers = is_8_bits(planner.info(chain.start).type);
    const Sizes& sizes = planner.info(chain.result).sizes;
    auto form = affine_form({planner, element, chain.position(), sizes, chain.operands(), axis_, [&](int operand) {
                               const ValueId value = chain.operands()[static_cast<std::size_t>(operand)];
                               return operand == 0 ||
                                      (from_integers && !planner.constant(value) && is_8_bits(planner.info(value).type));
                             }});
    if (!form || form->term(0) == nullptr) return std::nullopt;
    return form;
  }

  // Applies an affine function to the real result, which may already be clamped.
  bool follow(const AffineForm& form) {
    Requantization& f = task_.finish;
    const std::vector<double> by = repeated(form.terms[0].factor, task_.shape.outputs);
    const std::vector<double> plus = repeated(form.constant, task_.shape.outputs);
    double low = form.low, high = form.high;
    if (std::isfinite(f.low) || std::isfinite(f.high)) {
      const double scale = form.terms[0].factor[0], shift = form.constant[0];
      if (form.terms[0].factor.size() != 1 || form.constant.size() != 1 || !(scale > 0)) return false;
      low = std::clamp(f.low * scale + shift, low, high);
      high = std::clamp(f.high * scale + shift, form.low, form.high);
    }
    f.low = static_cast<float>(low);
    f.high = static_cast<float>(high);
    for (std::size_t n = 0; n < by.size(); ++n) {
      f.factor[n] *= by[n];
      f.shift[n] = f.shift[n] * by[n] + plus[n];
    }
    return true;
  }

  // Applies a function of the quantized result and at most one other tensor.
  bool follow_rounded(const Planner& planner, const Chain& chain, const AffineForm& form) {
    Requantization& f = task_.finish;
    const AffineForm::Term& start = *form.term(0);
    if (f.second || start.factor.size() != 1 || form.terms.size() > 2) return false;
    Requantization::Second second;
    second.inner_low = f.low;
    second.inner_high = f.high;
    second.carry = static_cast<float>(start.factor[0]);
    second.constant = repeated(form.constant, task_.shape.outputs);
    for (double& c : second.constant) c += start.factor[0] * f.zero_point;
    for (const AffineForm::Term& t : form.terms) {
      if (t.operand == 0) continue;
      const ValueId value = chain.operands()[static_cast<std::size_t>(t.operand)];
      if (t.factor.size() != 1 || value == chain.start) return false;
      addend_ = value;
      second.addend = planner.info(value).type;
      second.factor = static_cast<float>(t.factor[0]);
    }
    f.second = std::move(second);
    f.low = static_cast<float>(form.low);
    f.high = static_cast<float>(form.high);
    return true;
  }

  // Identifies the packed weights for plans of other sizes.
  ConstantOrigin origin() const {
    const QuantizedWeights& w = task_.weights;
    const ImageShape& s = task_.shape;
    ConstantOrigin result(w.tensor);
    result.add(std::span(w.zero_points)).add(w.output_stride).add(w.input_stride).add(w.pixel_stride);
    for (const std::int64_t size : {s.channels, s.outputs, s.group, s.kernel[0], s.kernel[1], s.dilations[1]}) result.add(size);
    return result.add(task_.is_signed);
  }

  QuantizedTask task_;
  ValueId x_, zero_point_ = kNoValue, addend_ = kNoValue;
  std::size_t axis_;
  Layout layout_;
  std::vector<ValueId> ahead_;
};

// ---- Between dequantization and quantization
struct Factors {
  Dequantized x, w;
  Tensor weights;
};

std::optional<Factors> dequantized_operands(const Planner& planner, const Node& node, std::size_t weight_axis) {
  const auto producer = [&](ValueId value) { return planner.producer(value); };
  const Node *const x = producer(node.inputs[0]), *const w = producer(node.inputs[1]);
  if (x == nullptr || w == nullptr) return std::nullopt;
  auto left = match_dequantized(planner, *x, 0), right = match_dequantized(planner, *w, weight_axis);
  if (!left || !right || left->scale.size() != 1 || planner.constant(left->source)) return std::nullopt;
  Tensor weights = planner.constant(right->source);
  if (!weights) return std::nullopt;
  return Factors{std::move(*left), std::move(*right), std::move(weights)};
}

// Sets the operands and the real bias.
std::unique_ptr<NodePlan> make_dequantized(const Planner& planner, const Node& node, const Factors& factors, QuantizedTask task,
                                           double alpha, const std::vector<double>& bias, std::size_t axis, Layout layout) {
  task.is_signed = planner.info(factors.x.source).type == DataType::kInt8;
  task.zero_point = factors.x.zero_points[0];
  task.weights.zero_points = factors.w.zero_points;
  task.finish.type = DataType::kFloat;
  task.finish.factor = repeated(factors.w.scale, task.shape.outputs);
  for (double& f : task.finish.factor) f *= alpha * factors.x.scale[0];
  task.finish.shift = repeated(bias, task.shape.outputs);
  if (!fits_in_sums(task)) return nullptr;
  auto plan = std::make_unique<QuantizedPlan>(std::move(task), factors.x.source, kNoValue, axis, layout);
  plan->set_ahead({node.inputs[0]});
  return plan;
}

// A bias with one element, or with one for each column or channel.
std::optional<std::vector<double>> constant_bias(const Planner& planner, const Node& node, double by, std::int64_t outputs) {
  if (!planner.has(node, 2)) return std::vector<double>{0.0};
  const Tensor& t = planner.constant(node.inputs[2]);
  if (!t || (t.size() != 1 && (t.size() != outputs || t.sizes().back() != outputs))) return std::nullopt;
  std::vector<double> result = t.reals();
  for (double& b : result) {
    b *= by;
    if (!std::isfinite(b)) return std::nullopt;
  }
  return result;
}

// ---- Quantized operators. Inputs: x, (its scale,) its zero point, ..., as in ONNX.
struct QuantizedInputs {
  std::size_t x = 0, x_zero = 0, w = 0, w_zero = 0;
};

// Integer parameters if all are known; absent ones are 0.
std::optional<std::vector<int>> zero_points(const Planner& planner, const Node& node, std::size_t input) {
  if (!planner.has(node, input)) return std::vector<int>{0};
  const Tensor& t = planner.constant(node.inputs[input]);
  if (!t || t.sizes().size() > 1) return std::nullopt;
  std::vector<int> result;
  for (const std::int64_t v : t.integers()) result.push_back(static_cast<int>(v));
  return result;
}

// Sets x and w. The zero point of x may be known only when the step runs.
bool set_operands(const Planner& planner, const Node& node, const QuantizedInputs& at, QuantizedTask& task) {
  if (!is_8_bits(planner.info(node.inputs[at.x]).type) || !is_8_bits(planner.info(node.inputs[at.w]).type)) return false;
  if (planner.constant(node.inputs[at.x])) return false;
  const auto w_zero = zero_points(planner, node, at.w_zero);
  if (!w_zero || (w_zero->size() != 1 && static_cast<std::int64_t>(w_zero->size()) != task.shape.outputs)) return false;
  task.weights.zero_points = *w_zero;
  task.is_signed = planner.info(node.inputs[at.x]).type == DataType::kInt8;
  if (planner.has(node, at.x_zero) && !planner.constant(node.inputs[at.x_zero])) {
    if (element_count(planner.info(node.inputs[at.x_zero]).sizes) != 1) return false;
  } else {
    const auto x_zero = zero_points(planner, node, at.x_zero);
    if (!x_zero || x_zero->size() != 1) return false;
    task.zero_point = (*x_zero)[0];
  }
  return true;
}

// Sets the result's scale and zero point, in the order of the operators' definition, so that all bits agree.
bool set_requantization(const Planner& planner, const Node& node, std::size_t x_scale, std::size_t w_scale, std::size_t y_scale,
                        QuantizedTask& task) {
  const auto known = [&](std::size_t input, std::int64_t most) {
    const Tensor& t = planner.constant(node.inputs[input]);
    return t && t.sizes().size() <= 1 && (t.size() == 1 || t.size() == most) ? t.reals() : std::vector<double>{};
  };
  const auto x = known(x_scale, 1), w = known(w_scale, task.shape.outputs), y = known(y_scale, 1);
  const auto zero = zero_points(planner, node, y_scale + 1);
  if (x.empty() || w.empty() || y.empty() || !zero || zero->size() != 1) return false;
  Requantization& f = task.finish;
  for (const double s : repeated(w, task.shape.outputs)) {
    f.factor.push_back(x[0] * s / y[0]);
    if (!std::isfinite(f.factor.back())) return false;
  }
  f.exact = true;
  f.type = planner.info(node.outputs[0]).type;
  if (!is_8_bits(f.type)) return false;
  f.zero_point = (*zero)[0];
  f.low = static_cast<float>(range_low(f.type) - f.zero_point);
  f.high = static_cast<float>(range_high(f.type) - f.zero_point);
  return true;
}

std::unique_ptr<NodePlan> finished(QuantizedTask task, const Node& node, const QuantizedInputs& at, std::size_t axis,
                                   Layout layout) {
  if (!fits_in_sums(task)) return nullptr;
  const ValueId zero_point = task.zero_point ? kNoValue : node.inputs[at.x_zero];
  return std::make_unique<QuantizedPlan>(std::move(task), node.inputs[at.x], zero_point, axis, layout);
}

}  // namespace

std::unique_ptr<NodePlan> plan_quantized_convolution(Planner& planner, const Node& node) {
  const bool requantized = node.op->name() == "QLinearConv";
  const QuantizedInputs at = requantized ? QuantizedInputs{0, 2, 3, 5} : QuantizedInputs{0, 2, 1, 3};
  const auto shape = image_of(planner, node, at.w);
  const Tensor& w = planner.constant(node.inputs[at.w]);
  if (!shape || !w) return nullptr;
  QuantizedTask task;
  task.shape = *shape;
  if (!is_8_bits(w.type())) return nullptr;
  task.weights = convolution_weights(w);
  if (!set_operands(planner, node, at, task)) return nullptr;
  if (requantized) {
    if (!set_requantization(planner, node, 1, 4, 6, task)) return nullptr;
    if (planner.has(node, 8)) {
      const Tensor& bias = planner.constant(node.inputs[8]);
      if (!bias || bias.type() != DataType::kInt32) return nullptr;
      const auto b = bias.data<std::int32_t>();
      task.finish.bias.assign(b.begin(), b.end());
    }
  }
  return finished(std::move(task), node, at, 1, kChannelsLast);
}

std::unique_ptr<NodePlan> plan_quantized_product(Planner& planner, const Node& node) {
  const bool requantized = node.op->name() == "QLinearMatMul";
  const QuantizedInputs at = requantized ? QuantizedInputs{0, 2, 3, 5} : QuantizedInputs{0, 2, 1, 3};
  const Tensor& b = planner.constant(node.inputs[at.w]);
  if (!b || !is_8_bits(b.type())) return nullptr;
  const Sizes& a = planner.info(node.inputs[at.x]).sizes;
  const auto shape = product_shape(a, b.sizes(), false);
  if (!shape) return nullptr;
  QuantizedTask task;
  task.shape = *shape;
  task.weights = product_weights(b, false);
  if (!set_operands(planner, node, at, task)) return nullptr;
  if (requantized && !set_requantization(planner, node, 1, 4, 6, task)) return nullptr;
  return finished(std::move(task), node, at, a.size() - 1, kPlain);
}

std::unique_ptr<NodePlan> plan_dequantized_convolution(Planner& planner, const Node& node) {
  const auto factors = dequantized_operands(planner, node, 0);
  const auto shape = factors ? image_of(planner, node, 1) : std::nullopt;
  if (!shape) return nullptr;
  const auto bias = constant_bias(planner, node, 1, shape->outputs);
  if (!bias) return nullptr;
  QuantizedTask task;
  task.shape = *shape;
  task.weights = convolution_weights(factors->weights);
  return make_dequantized(planner, node, *factors, std::move(task), 1, *bias, 1, kChannelsLast);
}

std::unique_ptr<NodePlan> plan_dequantized_product(Planner& planner, const Node& node) {
  const auto [alpha, beta, trans_a, trans_b] = planning::read_product_attributes(node);
  const Sizes &a = planner.info(node.inputs[0]).sizes, &b = planner.info(node.inputs[1]).sizes;
  if (trans_a || b.size() != 2) return nullptr;
  const auto factors = dequantized_operands(planner, node, trans_b ? 0 : 1);
  const auto shape = factors ? product_shape(a, b, trans_b) : std::nullopt;
  if (!shape) return nullptr;
  const auto bias = constant_bias(planner, node, beta, shape->outputs);
  if (!bias) return nullptr;
  QuantizedTask task;
  task.shape = *shape;
  task.weights = product_weights(factors->weights, trans_b);
  return make_dequantized(planner, node, *factors, std::move(task), alpha, *bias, a.size() - 1, kPlain);
}

}  // namespace rewright::cpu
