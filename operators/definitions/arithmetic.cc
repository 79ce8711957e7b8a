// Arithmetic, comparisons and logic: elementwise operators of two or more operands that broadcast against each other.
#include <string>
#include <utility>

#include "operators/definitions/elementwise.h"
#include "operators/definitions/families.h"

namespace rewright::operators {
namespace {

Element greater(Element a, Element b) { return apply(functions::less, std::move(b), std::move(a)); }
Element greater_equal(Element a, Element b) { return apply(functions::less_equal, std::move(b), std::move(a)); }

constexpr DataType kTruth = DataType::kBool;
using Add = Binary<"Add", Elements::kNumbers, operator+, 7, true>;
using Sub = Binary<"Sub", Elements::kNumbers, operator-, 7>;
using Mul = Binary<"Mul", Elements::kNumbers, operator*, 7, true>;
using Equal = Binary<"Equal", Elements::kAll, applied<functions::equal>, 7, true, kTruth>;
using Less = Binary<"Less", Elements::kNumbers, applied<functions::less>, 7, false, kTruth, Asks::kOrder>;
using LessOrEqual = Binary<"LessOrEqual", Elements::kNumbers, applied<functions::less_equal>, 12, false, kTruth, Asks::kOrder>;
using Greater = Binary<"Greater", Elements::kNumbers, greater, 7, false, kTruth, Asks::kOrder>;
using GreaterOrEqual = Binary<"GreaterOrEqual", Elements::kNumbers, greater_equal, 12, false, kTruth, Asks::kOrder>;
using And = Binary<"And", Elements::kTruthValues, applied<functions::logical_and>, 7, true>;
using Or = Binary<"Or", Elements::kTruthValues, applied<functions::logical_or>, 7, true>;
using Xor = Binary<"Xor", Elements::kTruthValues, applied<functions::logical_xor>, 7, true>;
using BitwiseAnd = Binary<"BitwiseAnd", Elements::kIntegers, applied<functions::bit_and>, 18, true>;
using BitwiseOr = Binary<"BitwiseOr", Elements::kIntegers, applied<functions::bit_or>, 18, true>;
using BitwiseXor = Binary<"BitwiseXor", Elements::kIntegers, applied<functions::bit_xor>, 18, true>;
using Min = Variadic<"Min", Elements::kNumbers, minimum, Asks::kOrder>;
using Max = Variadic<"Max", Elements::kNumbers, maximum, Asks::kOrder>;
using Sum = Variadic < "Sum", Elements::kReals, operator+>;

struct Mean {
  static constexpr std::string_view kName = "Mean";
  static constexpr InputCount kInputs{1, kVariadic};
  static constexpr bool kCommutative = true;
  Definition define(const Inputs& in) const {
    Definition d(in);
    require_elements(d, in[0], Elements::kReals);
    std::vector<Indices> shapes;
    for (std::size_t n = 0; n < in.count(); ++n) {
      d.require_same_type(in[0], in[n]);
      shapes.push_back(in[n].shape());
    }
    d.output(in[0].type(), broadcast_shapes(d, shapes), [=](const Indices& i) {
      Element total = in[0].broadcast(i);
      for (std::size_t n = 1; n < in.count(); ++n) total = total + in[n].broadcast(i);
      return total / real(static_cast<double>(in.count()));
    });
    return d;
  }
};

struct Div {
  static constexpr std::string_view kName = "Div";
  static constexpr InputCount kInputs{2, 2};
  static void onnx(OnnxMapping& m) { m.since = 7; }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &a = in[0], &b = in[1];
    require_elements(d, a, Elements::kNumbers);
    d.require_same_type(a, b);
    d.output(a.type(), broadcast_shapes(d, {a.shape(), b.shape()}),
             [=](const Indices& i) { return quotient_of(a.type(), a.broadcast(i), b.broadcast(i)); });
    return d;
  }
};

// The exponent may have another type; the result has the base's.
struct Pow {
  static constexpr std::string_view kName = "Pow";
  static constexpr InputCount kInputs{2, 2};
  static void onnx(OnnxMapping& m) { m.since = 7; }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &base = in[0], &exponent = in[1];
    require_elements(d, base, Elements::kNumbers);
    require_elements(d, exponent, Elements::kNumbers);
    d.output(base.type(), broadcast_shapes(d, {base.shape(), exponent.shape()}), [=](const Indices& i) {
      const Element x = base.broadcast(i), y = exponent.broadcast(i);
      if (base.scalar() == exponent.scalar()) return apply(functions::pow, x, y);
      return convert(apply(functions::pow, convert(x, Scalar::kReal), convert(y, Scalar::kReal)), base.scalar());
    });
    return d;
  }
};

// fmod = 0: the remainder has the sign of the divisor (Python's %); fmod = 1: that of the dividend (C's fmod).
struct Mod {
  static constexpr std::string_view kName = "Mod";
  static constexpr InputCount kInputs{2, 2};
  bool fmod = false;
  template <class V>
  void fields(V&& v) {
    v("fmod", fmod);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &a = in[0], &b = in[1];
    require_elements(d, a, Elements::kNumbers);
    d.require_same_type(a, b);
    const Function& modulo = fmod ? functions::truncated_modulo : functions::floor_modulo;
    d.output(a.type(), broadcast_shapes(d, {a.shape(), b.shape()}), [=, &modulo](const Indices& i) {
      const Element x = a.broadcast(i), y = b.broadcast(i);
      return a.type() == DataType::kUint64 ? x - quotient_of(a.type(), x, y) * y : apply(modulo, x, y);
    });
    return d;
  }
};

struct BitShift {
  static constexpr std::string_view kName = "BitShift";
  static constexpr InputCount kInputs{2, 2};
  std::string direction = "LEFT";
  template <class V>
  void fields(V&& v) {
    v("direction", direction);
  }
  // ONNX has no default for the direction: it is always written.
  static void onnx(OnnxMapping& m) {
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      sink.node("BitShift", {{"direction", attributes[0]}}, inputs, outputs);
      return true;
    };
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    d.require(direction == "LEFT" || direction == "RIGHT",
              [&] { return "direction is " + direction + ", must be LEFT or RIGHT"; });
    const Operand &a = in[0], &b = in[1];
    require_elements(d, a, Elements::kIntegers);
    d.require_same_type(a, b);
    const Function& right = is_unsigned(a.type()) ? functions::shift_right_unsigned : functions::shift_right;
    const Function& shift = direction == "LEFT" ? functions::shift_left : right;
    d.output(a.type(), broadcast_shapes(d, {a.shape(), b.shape()}),
             [=, &shift](const Indices& i) { return apply(shift, a.broadcast(i), b.broadcast(i)); });
    return d;
  }
};

struct Where {
  static constexpr std::string_view kName = "Where";
  static constexpr InputCount kInputs{3, 3};
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &condition = in[0], &x = in[1], &y = in[2];
    require_elements(d, condition, Elements::kTruthValues);
    require_elements(d, x, Elements::kAll);
    d.require_same_type(x, y);
    d.output(x.type(), broadcast_shapes(d, {condition.shape(), x.shape(), y.shape()}),
             [=](const Indices& i) { return select(condition.broadcast(i), x.broadcast(i), y.broadcast(i)); });
    return d;
  }
};

}  // namespace

void register_arithmetic(Registry& r) {
  r.add<Add>();
  r.add<Sub>();
  r.add<Mul>();
  r.add<Div>();
  r.add<Pow>();
  r.add<Mod>();
  r.add<Min>();
  r.add<Max>();
  r.add<Sum>();
  r.add<Mean>();
  r.add<Equal>();
  r.add<Less>();
  r.add<LessOrEqual>();
  r.add<Greater>();
  r.add<GreaterOrEqual>();
  r.add<And>();
  r.add<Or>();
  r.add<Xor>();
  r.add<BitwiseAnd>();
  r.add<BitwiseOr>();
  r.add<BitwiseXor>();
  r.add<BitShift>();
  r.add<Where>();
}

}  // namespace rewright::operators
