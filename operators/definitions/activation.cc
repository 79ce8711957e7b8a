// Elementwise operators of one tensor: functions and activations.
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "operators/definitions/elementwise.h"
#include "operators/definitions/families.h"

namespace rewright::operators {
namespace {

using Sqrt = Unary<"Sqrt", Elements::kReals, functions::sqrt>;
using Exp = Unary<"Exp", Elements::kReals, functions::exp>;
using Log = Unary<"Log", Elements::kReals, functions::log>;
using Abs = Unary<"Abs", Elements::kNumbers, functions::abs>;
using Sign = Unary<"Sign", Elements::kNumbers, functions::sign>;
using Erf = Unary<"Erf", Elements::kReals, functions::erf>;
using Floor = Unary<"Floor", Elements::kReals, functions::floor>;
using Ceil = Unary<"Ceil", Elements::kReals, functions::ceil>;
using Round = Unary<"Round", Elements::kReals, functions::round_even>;
using Sin = Unary<"Sin", Elements::kReals, functions::sin>;
using Cos = Unary<"Cos", Elements::kReals, functions::cos>;
using Tan = Unary<"Tan", Elements::kReals, functions::tan>;
using Asin = Unary<"Asin", Elements::kReals, functions::asin>;
using Acos = Unary<"Acos", Elements::kReals, functions::acos>;
using Atan = Unary<"Atan", Elements::kReals, functions::atan>;
using Sinh = Unary<"Sinh", Elements::kReals, functions::sinh>;
using Cosh = Unary<"Cosh", Elements::kReals, functions::cosh>;
using Asinh = Unary<"Asinh", Elements::kReals, functions::asinh>;
using Acosh = Unary<"Acosh", Elements::kReals, functions::acosh>;
using Atanh = Unary<"Atanh", Elements::kReals, functions::atanh>;
using Tanh = Unary<"Tanh", Elements::kReals, functions::tanh>;
using Sigmoid = Unary<"Sigmoid", Elements::kReals, functions::sigmoid>;
using Softplus = Unary<"Softplus", Elements::kReals, functions::softplus>;
using IsNaN = Unary<"IsNaN", Elements::kReals, functions::is_nan>;
using Not = Unary<"Not", Elements::kTruthValues, functions::logical_not>;
using BitwiseNot = Unary<"BitwiseNot", Elements::kIntegers, functions::bit_not>;

// An operator of one tensor without attributes that is a formula over several functions.
template <FixedString Name, Elements Allowed, Element (*F)(const Element&)>
struct Formula {
  static constexpr std::string_view kName = Name.view();
  Definition define(const Inputs& in) const { return elementwise(in, Allowed, F); }
};

Element positive_part(const Element& x) { return maximum(x, constant(x->scalar, 0)); }
Element negative_part(const Element& x) { return minimum(x, constant(x->scalar, 0)); }
Element clamp(const Element& x, double low, double high) { return minimum(maximum(x, real(low)), real(high)); }
Element negated(const Element& x) { return -x; }
Element reciprocal(const Element& x) { return real(1) / x; }
Element softsign(const Element& x) { return x / (real(1) + apply(functions::abs, x)); }
Element mish(const Element& x) { return x * apply(functions::tanh, apply(functions::softplus, x)); }
Element hard_swish(const Element& x) { return x * clamp(x / real(6) + real(0.5), 0, 1); }

using Relu = Formula<"Relu", Elements::kSigned, positive_part>;
using Neg = Formula<"Neg", Elements::kSigned, negated>;
using Reciprocal = Formula<"Reciprocal", Elements::kReals, reciprocal>;
using Softsign = Formula<"Softsign", Elements::kReals, softsign>;
using Mish = Formula<"Mish", Elements::kReals, mish>;
using HardSwish = Formula<"HardSwish", Elements::kReals, hard_swish>;

struct IsInf {
  static constexpr std::string_view kName = "IsInf";
  bool detect_negative = true;
  bool detect_positive = true;
  template <class V>
  void fields(V&& v) {
    v("detect_negative", detect_negative);
    v("detect_positive", detect_positive);
  }
  Definition define(const Inputs& in) const {
    const auto detect = [=, *this](const Element& x) -> Element {
      const Element infinite = apply(functions::is_infinite, x);
      if (detect_negative && detect_positive) return infinite;
      if (!detect_negative && !detect_positive) return boolean(false);
      return apply(functions::logical_and, infinite,
                   detect_negative ? apply(functions::less, x, real(0)) : apply(functions::less, real(0), x));
    };
    return elementwise(in, Elements::kReals, detect, DataType::kBool);
  }
};

// alpha has single precision, like ONNX's default, so that the default and the same value given explicitly are equal.
struct LeakyRelu {
  static constexpr std::string_view kName = "LeakyRelu";
  Real alpha = 0.01f;
  template <class V>
  void fields(V&& v) {
    v("alpha", alpha);
  }
  Definition define(const Inputs& in) const {
    return elementwise(in, Elements::kReals,
                       [a = alpha](const Element& x) { return positive_part(x) + real(a) * negative_part(x); });
  }
};

// The slope broadcasts to the shape of x.
struct PRelu {
  static constexpr std::string_view kName = "PRelu";
  static constexpr InputCount kInputs{2, 2};
  static void onnx(OnnxMapping& m) { m.since = 7; }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &slope = in[1];
    require_elements(d, x, Elements::kNumbers);
    d.require_same_type(x, slope);
    require_broadcast_to(d, slope, x.shape(), "slope");
    d.output(x.type(), x.shape(),
             [=](const Indices& i) { return positive_part(x(i)) + slope.broadcast(i) * negative_part(x(i)); });
    return d;
  }
};

struct Elu {
  static constexpr std::string_view kName = "Elu";
  Real alpha = 1.0;
  template <class V>
  void fields(V&& v) {
    v("alpha", alpha);
  }
  Definition define(const Inputs& in) const {
    return elementwise(in, Elements::kReals, [a = alpha](const Element& x) {
      return positive_part(x) + real(a) * (apply(functions::exp, negative_part(x)) - real(1));
    });
  }
};

struct Selu {
  static constexpr std::string_view kName = "Selu";
  Real alpha = 1.67326319217681884765625;
  Real gamma = 1.05070102214813232421875;
  template <class V>
  void fields(V&& v) {
    v("alpha", alpha);
    v("gamma", gamma);
  }
  Definition define(const Inputs& in) const {
    return elementwise(in, Elements::kReals, [a = alpha, g = gamma](const Element& x) {
      return real(g) * (positive_part(x) + real(a) * (apply(functions::exp, negative_part(x)) - real(1)));
    });
  }
};

struct Celu {
  static constexpr std::string_view kName = "Celu";
  Real alpha = 1.0;
  template <class V>
  void fields(V&& v) {
    v("alpha", alpha);
  }
  Definition define(const Inputs& in) const {
    return elementwise(in, Elements::kReals, [a = alpha](const Element& x) {
      return positive_part(x) + negative_part(real(a) * (apply(functions::exp, x / real(a)) - real(1)));
    });
  }
};

struct ThresholdedRelu {
  static constexpr std::string_view kName = "ThresholdedRelu";
  Real alpha = 1.0;
  template <class V>
  void fields(V&& v) {
    v("alpha", alpha);
  }
  Definition define(const Inputs& in) const {
    return elementwise(in, Elements::kReals,
                       [a = alpha](const Element& x) { return select(apply(functions::less, real(a), x), x, real(0)); });
  }
};

// Elements between -lambd and lambd become 0, the others move towards 0 by the bias.
struct Shrink {
  static constexpr std::string_view kName = "Shrink";
  Real bias = 0.0;
  Real lambd = 0.5;
  template <class V>
  void fields(V&& v) {
    v("bias", bias);
    v("lambd", lambd);
  }
  Definition define(const Inputs& in) const {
    return elementwise(in, Elements::kReals, [b = bias, l = lambd](const Element& x) {
      const Element positive = select(apply(functions::less, real(l), x), x - real(b), real(0));
      return select(apply(functions::less, x, -real(l)), x + real(b), positive);
    });
  }
};

struct HardSigmoid {
  static constexpr std::string_view kName = "HardSigmoid";
  Real alpha = 0.2f;
  Real beta = 0.5;
  template <class V>
  void fields(V&& v) {
    v("alpha", alpha);
    v("beta", beta);
  }
  Definition define(const Inputs& in) const {
    return elementwise(in, Elements::kReals,
                       [a = alpha, b = beta](const Element& x) { return clamp(real(a) * x + real(b), 0, 1); });
  }
};

struct Swish {
  static constexpr std::string_view kName = "Swish";
  Real alpha = 1.0;
  template <class V>
  void fields(V&& v) {
    v("alpha", alpha);
  }
  static void onnx(OnnxMapping& m) { m.since = 24; }
  Definition define(const Inputs& in) const {
    return elementwise(in, Elements::kReals, [a = alpha](const Element& x) {
      const bool plain = a == Real(1.0);
      return x * apply(functions::sigmoid, plain ? x : real(a) * x);
    });
  }
};

// "none": x * P(X <= x) for a normally distributed X; "tanh": Hendrycks and Gimpel, arXiv:1606.08415.
struct Gelu {
  static constexpr std::string_view kName = "Gelu";
  std::string approximate = "none";
  template <class V>
  void fields(V&& v) {
    v("approximate", approximate);
  }
  static void onnx(OnnxMapping& m) { m.since = 20; }
  Definition define(const Inputs& in) const {
    if (approximate != "none" && approximate != "tanh")
      throw Error(ErrorCode::kBadInput, "approximate is " + approximate + ", must be none or tanh");
    return elementwise(in, Elements::kReals, [tanh = approximate == "tanh"](const Element& x) {
      // sqrt(2 / pi) (x + 0.044715 x^3), with factors that the prover need not multiply: theirs would be beyond 64 bits.
      const double slope = std::sqrt(2 / std::numbers::pi);
      const Element gate = tanh ? apply(functions::tanh, real(slope) * x + real(slope * 0.044715) * (x * x * x))
                                : apply(functions::erf, x / real(std::numbers::sqrt2));
      return real(0.5) * x * (real(1) + gate);
    });
  }
};

// min(max(x, low), high); each bound is a tensor of one element, and may be absent.
struct Clip {
  static constexpr std::string_view kName = "Clip";
  static constexpr InputCount kInputs{1, 3};

  // Before opset 11 the bounds are attributes.
  static constexpr int kBoundsAreInputs = 11;
  static void onnx(OnnxMapping& m) {
    m.since = 6;
    m.import = [](OnnxSource& source, std::string& reason) -> std::optional<std::vector<OnnxValue>> {
      const Operator& clip = registry().get(kName);
      if (source.opset() >= kBoundsAreInputs) return import_default(clip, source, reason);
      std::vector<OnnxValue> inputs{source.input(0), kAbsent, kAbsent};
      const DataType type = source.type_of(inputs[0]).type;
      if (source.has("min")) inputs[1] = source.constant(Tensor::scalar(type, source.real("min", 0)));
      if (source.has("max")) inputs[2] = source.constant(Tensor::scalar(type, source.real("max", 0)));
      while (inputs.back() == kAbsent) inputs.pop_back();
      return source.node(clip, {}, inputs);
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      if (sink.opset() >= kBoundsAreInputs) return write_default(registry().get(kName), sink, attributes, inputs, outputs);
      OnnxSink::NamedAttributes bounds;
      for (std::size_t n = 1; n < inputs.size(); ++n) {
        if (inputs[n] == kAbsent) continue;
        const std::optional<Tensor> bound = sink.constant_value(inputs[n]);
        if (!bound || bound->size() != 1) return false;
        bounds.emplace_back(n == 1 ? "min" : "max", Real(bound->reals()[0]));
      }
      sink.node("Clip", std::move(bounds), {inputs[0]}, outputs);
      return true;
    };
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &low = in[1], &high = in[2];
    require_elements(d, x, Elements::kNumbers);
    require_bound(d, x, low, "min");
    require_bound(d, x, high, "max");
    d.output(x.type(), x.shape(), [=](const Indices& i) {
      const auto key = [&](const Element& e) { return order_key(e, x.type()); };
      Element e = key(x(i));
      if (low.present()) e = maximum(e, key(low(Indices(low.rank(), 0))));
      if (high.present()) e = minimum(e, key(high(Indices(high.rank(), 0))));
      return key(e);
    });
    return d;
  }

 private:
  static void require_bound(Definition& d, const Operand& x, const Operand& bound, std::string_view what) {
    if (!bound.present()) return;
    d.require_same_type(x, bound);
    for (const Index& size : bound.shape())
      d.require(equal(size, 1),
                [&] { return std::string(what) + " has shape " + to_string(bound.shape()) + ", must be one element"; });
  }
};

}  // namespace

void register_activation(Registry& r) {
  r.add<Sqrt>();
  r.add<Exp>();
  r.add<Log>();
  r.add<Abs>();
  r.add<Sign>();
  r.add<Erf>();
  r.add<Floor>();
  r.add<Ceil>();
  r.add<Round>();
  r.add<Sin>();
  r.add<Cos>();
  r.add<Tan>();
  r.add<Asin>();
  r.add<Acos>();
  r.add<Atan>();
  r.add<Sinh>();
  r.add<Cosh>();
  r.add<Asinh>();
  r.add<Acosh>();
  r.add<Atanh>();
  r.add<Tanh>();
  r.add<Sigmoid>();
  r.add<Softplus>();
  r.add<IsNaN>();
  r.add<Not>();
  r.add<BitwiseNot>();
  r.add<Relu>();
  r.add<Neg>();
  r.add<Reciprocal>();
  r.add<Softsign>();
  r.add<Mish>();
  r.add<HardSwish>();
  r.add<IsInf>();
  r.add<LeakyRelu>();
  r.add<PRelu>();
  r.add<Elu>();
  r.add<Selu>();
  r.add<Celu>();
  r.add<ThresholdedRelu>();
  r.add<Shrink>();
  r.add<HardSigmoid>();
  r.add<Swish>();
  r.add<Gelu>();
  r.add<Clip>();
}

}  // namespace rewright::operators
