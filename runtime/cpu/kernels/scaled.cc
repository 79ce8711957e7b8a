// Bounded linear functions of one tensor, with numbers by channel (a batch normalization alone, HardSigmoid, Clip), two
// slopes that meet at 0 (LeakyRelu, PRelu), and linear functions of integers of 8 bits (DequantizeLinear): one loop, where the
// tile engine has one for each operation. Numbers may be computed when the step runs, as statistics of a batch are.
#include <algorithm>
#include <array>
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

// One number, or one for each channel.
struct Numbers {
  Element element;
  bool by_channel = false, is_known = true;
};
Numbers number(double value) { return {real(value)}; }

// min(high, max(low, (x - center) * factor + shift)), in the order in which it is written; or x times `factor` below 0, else x.
struct ScaledForm {
  int operand = -1;
  Numbers center = number(0), factor = number(1), shift = number(-0.0);  // x + -0 is x
  bool has_center = false, has_factor = false, has_shift = false;
  bool two_slopes = false;
  bool of_integers = false;  // of 8 bits
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();

  bool bounded() const {
    return low != -std::numeric_limits<double>::infinity() || high != std::numeric_limits<double>::infinity();
  }
  bool is_linear() const { return !bounded() && !two_slopes; }
  bool is_plain() const { return is_linear() && !has_center && !has_factor && !has_shift; }
  bool by_channel() const { return center.by_channel || factor.by_channel || shift.by_channel; }
  bool is_known() const { return center.is_known && factor.is_known && shift.is_known; }
};

bool is_byte(DataType type) { return type == DataType::kUint8 || type == DataType::kInt8; }

template <class F>
Numbers each(const Numbers& a, const Numbers& b, F f) {
  return {f(a.element, b.element), a.by_channel || b.by_channel, a.is_known && b.is_known};
}

class ScaledReader {
 public:
  using Kind = ElementNode::Kind;

  ScaledReader(const Planner& planner, const Expression& e, const Sizes& sizes, std::size_t axis)
      : planner_(planner), e_(e), sizes_(sizes), axis_(axis) {}

  std::optional<ScaledForm> read(const Element& e) const {
    switch (e->kind) {
      case Kind::kRead:
        return read_operand(*e, false);
      case Kind::kConvert:
        if (e->scalar != Scalar::kReal || e->arguments[0]->kind != Kind::kRead) return std::nullopt;
        return read_operand(*e->arguments[0], true);
      case Kind::kAdd:
        if (auto slopes = two_slopes(*e)) return slopes;
        return with_number(*e, [](ScaledForm f, const Numbers& c) { return added(std::move(f), c); });
      case Kind::kMultiply:
        return with_number(*e, [](ScaledForm f, const Numbers& c) {
          return scaled(std::move(f), c, [](const Element& x, const Element& y) { return x * y; });
        });
      case Kind::kDivide: {
        const auto c = numbers(e->arguments[1]);
        auto f = c ? read(e->arguments[0]) : std::nullopt;
        if (!f || f->of_integers) return std::nullopt;  // 255 / 255 - 1 is 0, with a reciprocal it is not
        return scaled(std::move(*f), *c, [](const Element& x, const Element& y) { return x / y; });
      }
      case Kind::kMaximum:
      case Kind::kMinimum:
        return with_number(*e, [&](ScaledForm f, const Numbers& c) -> std::optional<ScaledForm> {
          const auto bound = c.by_channel || !c.is_known || f.two_slopes ? std::nullopt : evaluated(c);
          if (!bound || std::isnan((*bound)[0])) return std::nullopt;
          f.low = e->kind == Kind::kMaximum ? std::max(f.low, (*bound)[0]) : std::min(f.low, (*bound)[0]);
          f.high = e->kind == Kind::kMaximum ? std::max(f.high, (*bound)[0]) : std::min(f.high, (*bound)[0]);
          return f;
        });
      default:
        return std::nullopt;
    }
  }

  // A program for the numbers, which are double. Null if it cannot be compiled.
  std::unique_ptr<TileProgram> program_of(const Numbers& numbers) const {
    std::vector<TileOperand> operands;
    for (const ValueId v : e_.operands)
      operands.push_back(v == kNoValue ? TileOperand() : TileOperand{planner_.info(v).type, planner_.info(v).sizes, kPlain});
    const Indices position = numbers.by_channel ? Indices{e_.position[axis_]} : Indices();
    return compile_tiles(numbers.element, position, {DataType::kDouble, sizes_of(numbers), kPlain}, std::move(operands),
                         {Isa::kBaseline, true});
  }

  // The values of known numbers.
  std::optional<std::vector<double>> evaluated(const Numbers& numbers) const {
    if (numbers.element->kind == Kind::kConstant) return std::vector{numbers.element->real.value};
    std::vector<double> result(static_cast<std::size_t>(element_count(sizes_of(numbers))));
    std::vector<Tensor> tensors;
    std::vector<const std::byte*> bytes;
    for (const ValueId v : e_.operands) {
      tensors.push_back(v == kNoValue ? Tensor() : planner_.constant(v));
      bytes.push_back(tensors.back() ? tensors.back().bytes().data() : nullptr);
    }
    const auto program = program_of(numbers);
    if (!program) return std::nullopt;
    program->run(bytes.data(), reinterpret_cast<std::byte*>(result.data()), Workers(1));
    return result;
  }

 private:
  Sizes sizes_of(const Numbers& numbers) const { return numbers.by_channel ? Sizes{sizes_[axis_]} : Sizes(); }

  std::optional<ScaledForm> read_operand(const ElementNode& e, bool of_integers) const {
    const ValueId value = e_.operands[static_cast<std::size_t>(e.operand)];
    const ValueInfo& info = planner_.info(value);
    const bool fits = of_integers ? is_byte(info.type) : info.type == DataType::kFloat;
    if (e.zero_outside || planner_.constant(value) || !fits || info.sizes != sizes_ ||
        !at_result_position(e, e_.position, sizes_))
      return std::nullopt;
    ScaledForm result;
    result.operand = e.operand;
    result.of_integers = of_integers;
    return result;
  }

  // Numbers that depend on the position along the axis alone, if at all.
  std::optional<Numbers> numbers(const Element& e) const {
    if (e->scalar != Scalar::kReal || (e->kind == Kind::kConstant && !e->real.symbol.empty())) return std::nullopt;
    Numbers result{e};
    bool may_be_read = true;
    rewrite(e,
            [&](const ElementNode& read) -> Element {
              const ValueId value = e_.operands[static_cast<std::size_t>(read.operand)];
              if (planner_.constant(value)) return nullptr;
              result.is_known = false;
              may_be_read = may_be_read && planner_.info(value).type == DataType::kFloat;
              return nullptr;
            },
            {});
    FreeVariables free;
    for (const std::uint64_t id : free.of(*e)) {
      const Atom* const atom = axis_ < e_.position.size() ? e_.position[axis_].as_atom() : nullptr;
      if (atom == nullptr || atom->id != id) return std::nullopt;
      result.by_channel = true;
    }
    if (!may_be_read) return std::nullopt;
    return result;
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
    if (!f.is_linear()) return std::nullopt;
    if (!f.has_center && !f.has_factor && !f.has_shift) {
      f.center = each(number(-1), c, [](const Element& x, const Element& y) { return x * y; });
      f.has_center = true;
    } else {
      f.shift = f.has_shift ? each(f.shift, c, [](const Element& x, const Element& y) { return x + y; }) : c;
      f.has_shift = true;
    }
    return f;
  }
  template <class By>
  static std::optional<ScaledForm> scaled(ScaledForm f, const Numbers& c, By by) {
    if (!f.is_linear()) return std::nullopt;
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
      if (!positive || positive->has_factor || positive->has_shift || positive->has_center || positive->low != 0 ||
          positive->high != kInfinity)
        continue;
      for (std::size_t n = 0; n < 2; ++n) {
        const auto negative = below->arguments[n]->kind == Kind::kMinimum ? read(below->arguments[n]) : std::nullopt;
        if (!negative || negative->operand != positive->operand || negative->has_factor || negative->has_shift ||
            negative->has_center || negative->low != -kInfinity || negative->high != 0)
          continue;
        const auto slope = numbers(below->arguments[1 - n]);
        if (!slope) return std::nullopt;
        ScaledForm result;
        result.operand = positive->operand;
        result.factor = *slope;
        result.two_slopes = true;
        result.of_integers = positive->of_integers;
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

// The center, the factor and the shift: values, or a program that computes them from the step's inputs.
struct ChannelNumbers {
  std::vector<double> values;
  std::unique_ptr<TileProgram> program;
  bool by_channel = false;
};

class ScaledKernel final : public Kernel {
 public:
  // The tensor is [..., channels, row], and input `operand` of the step.
  ScaledKernel(const ScaledForm& form, DataType type, std::array<ChannelNumbers, 3> numbers, int operand, Count rows,
               Count channels, Count row, const ScalingLoops& loops)
      : numbers_(std::move(numbers)),
        type_(type),
        operand_(static_cast<std::size_t>(operand)),
        rows_(rows),
        channels_(channels),
        row_(row),
        two_slopes_(form.two_slopes),
        low_(static_cast<float>(form.low)),
        high_(static_cast<float>(form.high)),
        loops_(loops) {}

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(channels_) * (sizeof(double) + numbers_.size() * sizeof(float));
  }

  void run(const Call& call) const override {
    float* const numbers = evaluate(call);
    const std::byte* const x = call.inputs[operand_];
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    if (channels_ > 1 && row_ <= kShort && !two_slopes_) {
      const Count together = kPart / row_;
      return call.workers.for_each(
          (rows_ + together - 1) / together, static_cast<double>(rows_ * row_) / kElements,
          [&](Count unit, int) { scale_rows(numbers, x, y, unit * together, std::min(rows_, (unit + 1) * together)); });
    }
    const Count parts = (row_ + kPart - 1) / kPart;
    call.workers.for_each(rows_ * parts, static_cast<double>(rows_ * row_) / kElements, [&](Count unit, int) {
      const Count row = unit / parts, first = unit % parts * kPart, at = row * row_ + first, n = std::min(kPart, row_ - first);
      const float *const center = numbers + row % channels_, *const factor = center + channels_,
                         *const shift = factor + channels_;
      const ScalingLoops::Scaling scaling{*center, *factor, *shift, low_, high_};
      if (type_ == DataType::kUint8)
        loops_.scale_uint8(y + at, reinterpret_cast<const std::uint8_t*>(x) + at, n, scaling);
      else if (type_ == DataType::kInt8)
        loops_.scale_int8(y + at, reinterpret_cast<const std::int8_t*>(x) + at, n, scaling);
      else if (two_slopes_)
        loops_.two_slopes(y + at, reinterpret_cast<const float*>(x) + at, n, *factor);
      else
        loops_.scale(y + at, reinterpret_cast<const float*>(x) + at, n, scaling);
    });
  }

 private:
  // Elements of a row, or of short rows, that are computed at once; of a short row.
  static constexpr Count kPart = 1 << 14, kShort = 512;
  static constexpr double kElements = 4;  // per nanosecond

  void scale_rows(const float* numbers, const std::byte* x, float* y, Count first, Count last) const {
    for (Count row = first; row < last;) {
      const Count channel = row % channels_, count = std::min(last - row, channels_ - channel), at = row * row_;
      const float* const center = numbers + channel;
      const ScalingLoops::RowScalings scalings{center, center + channels_, center + 2 * channels_, low_, high_};
      if (type_ == DataType::kUint8)
        loops_.scale_uint8_rows(y + at, reinterpret_cast<const std::uint8_t*>(x) + at, count, row_, scalings);
      else if (type_ == DataType::kInt8)
        loops_.scale_int8_rows(y + at, reinterpret_cast<const std::int8_t*>(x) + at, count, row_, scalings);
      else
        loops_.scale_rows(y + at, reinterpret_cast<const float*>(x) + at, count, row_, scalings);
      row += count;
    }
  }

  // Numbers as floats, one kind after the other.
  float* evaluate(const Call& call) const {
    auto* const computed = reinterpret_cast<double*>(call.scratch);
    auto* const result = reinterpret_cast<float*>(computed + channels_);
    float* next = result;
    for (const ChannelNumbers& n : numbers_) {
      if (n.program) n.program->run(call.inputs.data(), call.scratch, Workers(1));
      const double* const values = n.program ? computed : n.values.data();
      for (Count c = 0; c < channels_; ++c) *next++ = static_cast<float>(values[n.by_channel ? c : 0]);
    }
    return result;
  }

  std::array<ChannelNumbers, 3> numbers_;
  DataType type_;
  std::size_t operand_;
  Count rows_, channels_, row_;
  bool two_slopes_;
  float low_, high_;
  const ScalingLoops& loops_;
};

// nullopt if numbers cannot be computed, or are known and not finite.
std::optional<std::array<ChannelNumbers, 3>> channel_numbers(const ScaledReader& reader, const ScaledForm& form) {
  std::array<ChannelNumbers, 3> result;
  std::size_t next = 0;
  for (const Numbers* numbers : {&form.center, &form.factor, &form.shift}) {
    ChannelNumbers& n = result[next++];
    n.by_channel = numbers->by_channel;
    if (!numbers->is_known) {
      n.program = reader.program_of(*numbers);
      if (!n.program) return std::nullopt;
      continue;
    }
    auto values = reader.evaluated(*numbers);
    if (!values || !std::all_of(values->begin(), values->end(), [](double v) { return std::isfinite(v); })) return std::nullopt;
    n.values = std::move(*values);
  }
  return result;
}

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
  constexpr Count kShortRow = 2, kLongRow = 64, kWorthComputing = 4096;
  const Kind kind = e.element->kind;
  if (kind != Kind::kAdd && kind != Kind::kMultiply && kind != Kind::kMaximum && kind != Kind::kMinimum) return false;
  const ValueInfo& out = planner.info(e.result);
  if (out.type != DataType::kFloat || element_count(out.sizes) == 0) return false;
  if (const auto assigned = planner.assigned_layout(e.result); assigned && !assigned->plain()) return false;
  Count row = element_count(out.sizes);
  for (std::size_t axis = 0; axis < std::max<std::size_t>(1, out.sizes.size()); ++axis) {
    if (axis < out.sizes.size()) row /= out.sizes[axis];
    if (row < kShortRow && axis > 0) return false;
    const ScaledReader reader(planner, e, out.sizes, axis);
    const auto form = reader.read(e.element);
    if (!form) continue;
    const bool by_channel = form->by_channel();
    // A number for each long row is worth a loop as well: the tile engine repeats it in memory.
    if (!is_worth_a_loop(e.element) && !form->of_integers && !(by_channel && row >= kLongRow)) return false;
    if (form->is_plain() || !has_exact_bounds(*form)) return false;
    if (form->of_integers ? form->two_slopes : !(by_channel || form->bounded() || form->two_slopes)) return false;
    if (by_channel && row < kShortRow) return false;
    const Count all = element_count(out.sizes), length = by_channel ? row : all;
    const bool has_all = std::find(e.operands.begin(), e.operands.end(), kNoValue) == e.operands.end();
    if (!form->is_known() && (all < kWorthComputing || !has_all)) return false;
    const ValueId operand = e.operands[static_cast<std::size_t>(form->operand)];
    if (const auto layouts = planner.layouts(operand); !layouts.empty() && !layouts[0].plain()) return false;
    auto numbers = channel_numbers(reader, *form);
    if (!numbers) return false;
    std::vector<int> inputs;
    for (const ValueId v : e.operands)
      if (!form->is_known() || v == operand) inputs.push_back(planner.storage(v, kPlain));
    const int place = form->is_known() ? 0 : form->operand, x = inputs[static_cast<std::size_t>(place)],
              y = planner.add_value(e.result, kPlain);
    Step& step = planner.add_step(std::make_unique<ScaledKernel>(*form, planner.info(operand).type, std::move(*numbers), place,
                                                                 all / length, by_channel ? out.sizes[axis] : 1, length,
                                                                 loops_for<ScalingLoops>(planner.options().isa)),
                                  std::move(inputs), {y});
    if (!planner.options().replacements.empty() && !form->of_integers) step.read_in_place = {x};
    return true;
  }
  return false;
}

}  // namespace rewright::cpu
