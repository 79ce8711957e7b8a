// Bounded linear functions of one tensor, with numbers by channel (a batch normalization alone, HardSigmoid, Clip), and two
// slopes that meet at 0 (LeakyRelu, PRelu): one loop, where the tile engine has one for each operation.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "expressions/element.h"
#include "expressions/free_variables.h"
#include "runtime/cpu/loops/scaling_loops.h"
#include "runtime/cpu/planning/matching.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/program.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;
using Numbers = std::vector<double>;

// min(high, max(low, (x - center) * factor + shift)), in the order in which it is written; or x times `factor` below 0, else x.
// Numbers: one, or one for each channel.
struct ScaledForm {
  int operand = -1;
  Numbers center{0.0}, factor{1.0}, shift{-0.0};  // x + -0 is x
  bool has_factor = false, has_shift = false;
  bool two_slopes = false;
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();

  bool bounded() const {
    return low != -std::numeric_limits<double>::infinity() || high != std::numeric_limits<double>::infinity();
  }
  bool is_plain() const { return !has_factor && !has_shift && !bounded() && !two_slopes && center == Numbers{0.0}; }
};

template <class F>
Numbers each(const Numbers& a, const Numbers& b, F f) {
  Numbers result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
  return result;
}

class ScaledReader {
 public:
  using Kind = ElementNode::Kind;

  ScaledReader(const Planner& planner, const Expression& e, const Sizes& sizes, std::size_t axis)
      : planner_(planner), e_(e), sizes_(sizes), axis_(axis) {}

  std::optional<ScaledForm> read(const Element& e) const {
    switch (e->kind) {
      case Kind::kRead:
        return read_operand(*e);
      case Kind::kAdd:
        if (auto slopes = two_slopes(*e)) return slopes;
        return with_number(*e, [](ScaledForm f, const Numbers& c) { return added(std::move(f), c); });
      case Kind::kMultiply:
        return with_number(*e, [](ScaledForm f, const Numbers& c) {
          return scaled(std::move(f), c, [](double x, double y) { return x * y; });
        });
      case Kind::kDivide: {
        const auto c = numbers(e->arguments[1]);
        auto f = c ? read(e->arguments[0]) : std::nullopt;
        if (!f) return std::nullopt;
        return scaled(std::move(*f), *c, [](double x, double y) { return x / y; });
      }
      case Kind::kMaximum:
      case Kind::kMinimum:
        return with_number(*e, [&](ScaledForm f, const Numbers& c) -> std::optional<ScaledForm> {
          if (c.size() != 1 || f.two_slopes || !(c[0] == c[0])) return std::nullopt;  // NOLINT: asks for NaN
          f.low = e->kind == Kind::kMaximum ? std::max(f.low, c[0]) : std::min(f.low, c[0]);
          f.high = e->kind == Kind::kMaximum ? std::max(f.high, c[0]) : std::min(f.high, c[0]);
          return f;
        });
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<ScaledForm> read_operand(const ElementNode& e) const {
    const ValueId value = e_.operands[static_cast<std::size_t>(e.operand)];
    const ValueInfo info = planner_.info(value);
    if (e.zero_outside || planner_.constant(value) || info.type != DataType::kFloat || info.sizes != sizes_ ||
        !at_result_position(e, e_.position, sizes_))
      return std::nullopt;
    ScaledForm result;
    result.operand = e.operand;
    return result;
  }

  // Known numbers: one, or one for each position along the axis.
  std::optional<Numbers> numbers(const Element& e) const {
    if (e->kind == Kind::kConstant && e->scalar == Scalar::kReal && e->real.symbol.empty()) return Numbers{e->real.value};
    bool known = e->scalar == Scalar::kReal;
    std::vector<TileOperand> operands(e_.operands.size());
    std::vector<Tensor> tensors(e_.operands.size());
    std::vector<const std::byte*> bytes(e_.operands.size());
    rewrite(e,
            [&](const ElementNode& read) -> Element {
              const auto n = static_cast<std::size_t>(read.operand);
              tensors[n] = planner_.constant(e_.operands[n]);
              known = known && tensors[n];
              if (!known) return nullptr;
              operands[n] = {tensors[n].type(), tensors[n].sizes(), kPlain};
              bytes[n] = tensors[n].bytes().data();
              return nullptr;
            },
            {});
    FreeVariables free;
    Indices position;
    Sizes sizes;
    for (const std::uint64_t id : free.of(*e)) {
      const Atom* const atom = axis_ < e_.position.size() ? e_.position[axis_].as_atom() : nullptr;
      if (atom == nullptr || atom->id != id) return std::nullopt;
      position = {e_.position[axis_]};
      sizes = {sizes_[axis_]};
    }
    if (!known) return std::nullopt;
    Numbers result(static_cast<std::size_t>(element_count(sizes)));
    const auto program =
        compile_tiles(e, position, {DataType::kDouble, sizes, kPlain}, std::move(operands), {Isa::kBaseline, true});
    if (!program) return std::nullopt;
    program->run(bytes.data(), reinterpret_cast<std::byte*>(result.data()), Workers(1));
    const bool finite = std::all_of(result.begin(), result.end(), [](double v) { return std::isfinite(v); });
    return finite ? std::optional(std::move(result)) : std::nullopt;
  }

  template <class F>
  std::optional<ScaledForm> with_number(const ElementNode& e, F f) const {
    for (std::size_t side = 0; side < 2; ++side) {
      auto form = read(e.arguments[side]);
      if (!form) continue;
      const auto c = numbers(e.arguments[1 - side]);
      if (!c) return std::nullopt;
      return f(std::move(*form), *c);
    }
    return std::nullopt;
  }

  static std::optional<ScaledForm> added(ScaledForm f, const Numbers& c) {
    if (f.bounded() || f.two_slopes) return std::nullopt;
    if (!f.has_factor && !f.has_shift && f.center == Numbers{0.0})
      f.center = each(c, Numbers{0.0}, [](double x, double) { return -x; });
    else
      f.shift = f.has_shift ? each(f.shift, c, [](double x, double y) { return x + y; }) : c, f.has_shift = true;
    return f;
  }
  template <class By>
  static std::optional<ScaledForm> scaled(ScaledForm f, const Numbers& c, By by) {
    if (f.bounded() || f.two_slopes) return std::nullopt;
    f.factor = each(f.factor, c, by);
    if (f.has_shift) f.shift = each(f.shift, c, by);
    f.has_factor = true;
    return f;
  }

  // max(x, 0) + slope * min(x, 0)
  std::optional<ScaledForm> two_slopes(const ElementNode& e) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (std::size_t side = 0; side < 2; ++side) {
      const Element &above = e.arguments[side], &below = e.arguments[1 - side];
      if (above->kind != Kind::kMaximum || below->kind != Kind::kMultiply) continue;
      const auto positive = read(above);
      if (!positive || positive->has_factor || positive->has_shift || positive->center != Numbers{0.0} || positive->low != 0 ||
          positive->high != kInfinity)
        continue;
      for (std::size_t n = 0; n < 2; ++n) {
        const auto negative = below->arguments[n]->kind == Kind::kMinimum ? read(below->arguments[n]) : std::nullopt;
        if (!negative || negative->operand != positive->operand || negative->has_factor || negative->has_shift ||
            negative->center != Numbers{0.0} || negative->low != -kInfinity || negative->high != 0)
          continue;
        const auto slope = numbers(below->arguments[1 - n]);
        if (!slope) return std::nullopt;
        ScaledForm result;
        result.operand = positive->operand;
        result.factor = *slope;
        result.two_slopes = true;
        return result;
      }
    }
    return std::nullopt;
  }

  const Planner& planner_;
  const Expression& e_;
  const Sizes& sizes_;
  std::size_t axis_;
};

class ScaledKernel final : public Kernel {
 public:
  // The tensor is [..., channels, row].
  ScaledKernel(const ScaledForm& form, Count rows, Count channels, Count row, const ScalingLoops& loops)
      : rows_(rows), row_(row), two_slopes_(form.two_slopes), loops_(loops) {
    const auto at = [](const Numbers& numbers, std::size_t c) {
      return static_cast<float>(numbers[numbers.size() == 1 ? 0 : c]);
    };
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c)
      channels_.push_back({at(form.center, c), at(form.factor, c), at(form.shift, c)});
    low_ = static_cast<float>(form.low), high_ = static_cast<float>(form.high);
  }

  void run(const Call& call) const override {
    const auto* const x = reinterpret_cast<const float*>(call.inputs[0]);
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    const Count parts = (row_ + kPart - 1) / kPart, channels = std::ssize(channels_);
    call.workers.for_each(rows_ * parts, static_cast<double>(rows_ * row_) / kElements, [&](Count unit, int) {
      const Count row = unit / parts, first = unit % parts * kPart, at = row * row_ + first, n = std::min(kPart, row_ - first);
      const Channel& c = channels_[static_cast<std::size_t>(row % channels)];
      if (two_slopes_)
        loops_.two_slopes(y + at, x + at, n, c.factor);
      else
        loops_.scale(y + at, x + at, n, {c.center, c.factor, c.shift, low_, high_});
    });
  }

 private:
  static constexpr Count kPart = 1 << 14;  // elements of a row that are computed at once
  static constexpr double kElements = 4;   // per nanosecond
  struct Channel {
    float center, factor, shift;
  };
  Count rows_, row_;
  bool two_slopes_;
  const ScalingLoops& loops_;
  std::vector<Channel> channels_;
  float low_ = 0, high_ = 0;
};

// Is more done than one loop of the tile engine does?
bool is_worth_a_loop(const Element& e) {
  const auto operations = operation_count(e).constant();
  return operations && *operations >= 2;
}

bool has_exact_bounds(const ScaledForm& f) {
  return static_cast<double>(static_cast<float>(f.low)) == f.low && static_cast<double>(static_cast<float>(f.high)) == f.high;
}

}  // namespace

bool plan_scaled(Planner& planner, const Expression& e) {
  using Kind = ElementNode::Kind;
  constexpr Count kShortRow = 8;
  const Kind kind = e.element->kind;
  if (kind != Kind::kAdd && kind != Kind::kMultiply && kind != Kind::kMaximum && kind != Kind::kMinimum) return false;
  const ValueInfo out = planner.info(e.result);
  if (out.type != DataType::kFloat || element_count(out.sizes) == 0 || !is_worth_a_loop(e.element)) return false;
  if (const auto assigned = planner.assigned_layout(e.result); assigned && !assigned->plain()) return false;
  Count row = element_count(out.sizes);
  for (std::size_t axis = 0; axis < std::max<std::size_t>(1, out.sizes.size()); ++axis) {
    if (axis < out.sizes.size()) row /= out.sizes[axis];
    if (row < kShortRow && axis > 0) return false;
    const auto form = ScaledReader(planner, e, out.sizes, axis).read(e.element);
    if (!form) continue;
    const bool by_channel = form->center.size() > 1 || form->factor.size() > 1 || form->shift.size() > 1;
    if (form->is_plain() || !(by_channel || form->bounded() || form->two_slopes) || !has_exact_bounds(*form)) return false;
    if (by_channel && row < kShortRow) return false;
    const ValueId operand = e.operands[static_cast<std::size_t>(form->operand)];
    if (const auto layouts = planner.layouts(operand); !layouts.empty() && !layouts[0].plain()) return false;
    const Count all = element_count(out.sizes), length = by_channel ? row : all;
    const int x = planner.storage(operand, kPlain), y = planner.add_value(e.result, kPlain);
    Step& step = planner.add_step(std::make_unique<ScaledKernel>(*form, all / length, by_channel ? out.sizes[axis] : 1, length,
                                                                 loops_for<ScalingLoops>(planner.options().isa)),
                                  {x}, {y});
    if (!planner.options().replacements.empty()) step.read_in_place = {x};
    return true;
  }
  return false;
}

}  // namespace rewright::cpu
