// QuantizeLinear of floats that are in memory, to integers of 8 bits with constant parameters: one loop, where the tile engine
// has one for each operation.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "expressions/element.h"
#include "expressions/tensor.h"
#include "runtime/cpu/loops/scaling_loops.h"
#include "runtime/cpu/planning/matching.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

// A constant number, or one for each position of an axis.
struct Steps {
  std::vector<float> values;
  int axis = -1;
};

// min(high, max(low, round(x / scale) + zero))
struct QuantizedForm {
  int operand = -1;
  Steps scale, zero;
  float low = 0, high = 0;
};

class QuantizedReader {
 public:
  QuantizedReader(const Planner& planner, const Expression& e, const Sizes& sizes) : planner_(planner), e_(e), sizes_(sizes) {}

  std::optional<QuantizedForm> read() const {
    if (e_.element->kind != Kind::kConvert) return std::nullopt;
    QuantizedForm form;
    const Element* inner = &e_.element->arguments[0];
    for (const Kind kind : {Kind::kMinimum, Kind::kMaximum}) {
      if ((*inner)->kind != kind || (*inner)->arguments[1]->kind != Kind::kConstant) return std::nullopt;
      (kind == Kind::kMinimum ? form.high : form.low) = static_cast<float>((*inner)->arguments[1]->real.value);
      inner = &(*inner)->arguments[0];
    }
    form.zero.values = {0};
    if ((*inner)->kind == Kind::kAdd) {
      auto zero = steps((*inner)->arguments[1]);
      if (!zero) return std::nullopt;
      form.zero = std::move(*zero);
      inner = &(*inner)->arguments[0];
    }
    if (!is_function(**inner, functions::round_even)) return std::nullopt;
    inner = &(*inner)->arguments[0];
    if (is_function(**inner, functions::nearest_float)) inner = &(*inner)->arguments[0];
    if ((*inner)->kind != Kind::kDivide || (*inner)->arguments[0]->kind != Kind::kRead) return std::nullopt;
    const ElementNode& x = *(*inner)->arguments[0];
    const ValueId value = e_.operands[static_cast<std::size_t>(x.operand)];
    if (x.zero_outside || planner_.is_constant(value) || planner_.info(value).type != DataType::kFloat ||
        planner_.info(value).sizes != sizes_ || x.position != e_.position)
      return std::nullopt;
    form.operand = x.operand;
    auto scale = steps((*inner)->arguments[1]);
    if (!scale || (scale->axis >= 0 && form.zero.axis >= 0 && scale->axis != form.zero.axis)) return std::nullopt;
    form.scale = std::move(*scale);
    return form;
  }

 private:
  static bool is_function(const ElementNode& e, const Function& function) {
    return e.kind == Kind::kApply && e.function == &function;
  }

  std::optional<Steps> steps(const Element& e) const {
    const ElementNode& read = e->kind == Kind::kConvert ? *e->arguments[0] : *e;
    if (read.kind == Kind::kConstant)
      return Steps{{static_cast<float>(read.scalar == Scalar::kReal ? read.real.value : static_cast<double>(read.integer))},
                   -1};
    if (read.kind != Kind::kRead || read.zero_outside) return std::nullopt;
    const Tensor& tensor = planner_.constant(e_.operands[static_cast<std::size_t>(read.operand)]);
    if (!tensor || (tensor.size() != 1 && tensor.sizes().size() != 1)) return std::nullopt;
    Steps result;
    for (const double v : tensor.reals()) result.values.push_back(static_cast<float>(v));
    if (tensor.size() == 1) return result;
    const auto axis = std::find(e_.position.begin(), e_.position.end(), read.position[0]);
    if (axis == e_.position.end()) return std::nullopt;
    result.axis = static_cast<int>(axis - e_.position.begin());
    return result;
  }

  const Planner& planner_;
  const Expression& e_;
  const Sizes& sizes_;
};

class QuantizedRowsKernel final : public Kernel {
 public:
  // The tensor is [rows of `row` elements], whose parameters repeat after as many as there are.
  QuantizedRowsKernel(QuantizedForm form, std::int64_t rows, std::int64_t row, const ScalingLoops& loops)
      : form_(std::move(form)), rows_(rows), row_(row), loops_(loops) {}

  void run(const Call& call) const override {
    const auto* const x = reinterpret_cast<const float*>(call.inputs[0]);
    auto* const y = reinterpret_cast<std::uint8_t*>(call.outputs[0]);
    const std::int64_t parts = (row_ + kPart - 1) / kPart;
    call.workers.for_each(rows_ * parts, static_cast<double>(rows_ * row_) / kElements, [&](std::int64_t unit, int) {
      const std::int64_t row = unit / parts, first = unit % parts * kPart, at = row * row_ + first;
      loops_.quantize(y + at, x + at, std::min(kPart, row_ - first),
                      {of(form_.scale, row), of(form_.zero, row), form_.low, form_.high});
    });
  }

 private:
  static constexpr std::int64_t kPart = 1 << 14;
  static constexpr double kElements = 4;  // a nanosecond

  static float of(const Steps& steps, std::int64_t row) {
    return steps.values[static_cast<std::size_t>(row % std::ssize(steps.values))];
  }

  QuantizedForm form_;
  std::int64_t rows_, row_;
  const ScalingLoops& loops_;
};

}  // namespace

bool plan_quantized_rows(Planner& planner, const Expression& e) {
  constexpr std::int64_t kShortRow = 16;
  const ValueInfo out = planner.info(e.result);
  if ((out.type != DataType::kUint8 && out.type != DataType::kInt8) || element_count(out.sizes) == 0) return false;
  if (const auto assigned = planner.assigned_layout(e.result); assigned && !assigned->plain()) return false;
  auto form = QuantizedReader(planner, e, out.sizes).read();
  if (!form) return false;
  const ValueId operand = e.operands[static_cast<std::size_t>(form->operand)];
  if (const auto layouts = planner.layouts(operand); !layouts.empty() && !layouts[0].plain()) return false;
  const int axis = std::max(form->scale.axis, form->zero.axis);
  const std::int64_t all = element_count(out.sizes);
  const std::int64_t row = axis < 0 ? all : element_count(std::span(out.sizes).subspan(static_cast<std::size_t>(axis) + 1));
  if (axis >= 0 && row < kShortRow) return false;
  const int x = planner.storage(operand, kPlain), y = planner.add_value(e.result, kPlain);
  planner.add_step(
      std::make_unique<QuantizedRowsKernel>(std::move(*form), all / row, row, loops_for<ScalingLoops>(planner.options().isa)),
      {x}, {y});
  return true;
}

}  // namespace rewright::cpu
