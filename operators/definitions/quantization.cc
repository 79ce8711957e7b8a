// Quantization: integers that stand for reals, x = (q - zero_point) * scale.
#include "operators/definitions/quantization.h"

#include <cmath>
#include <string>
#include <utility>

#include "expressions/small_float.h"
#include "operators/definitions/axes.h"
#include "operators/definitions/elementwise.h"
#include "operators/definitions/families.h"

namespace rewright::operators {

namespace {

std::pair<double, double> range_of(DataType type) {
  const int bits = packed_bits(type);
  return is_unsigned(type) ? std::pair(0.0, std::ldexp(1.0, bits) - 1)
                           : std::pair(-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1);
}

Element limited(const Element& e, double low, double high) { return minimum(maximum(e, real(low)), real(high)); }

bool can_be_quantized(DataType type) { return is_small_float(type) || (is_integer(type) && packed_bits(type) <= 32); }

// Selects the scale for an element: one for the tensor, one for each index of an axis, or one for each block along it.
struct Scales {
  std::size_t axis = 0;
  Index block_size = 0;

  Scales(Definition& d, const Operand& x, const Operand& scale, const Operand& zero_point, const Index& given_axis, Index block)
      : block_size(std::move(block)) {
    if (zero_point.present())
      d.require((is_single(scale) && is_single(zero_point)) || to_string(zero_point.shape()) == to_string(scale.shape()), [&] {
        return "the zero point's shape " + to_string(zero_point.shape()) + " is not the scale's " + to_string(scale.shape());
      });
    if (is_single(scale)) return;
    axis = static_cast<std::size_t>(canonical_axis(given_axis, x.rank()).value());
    if (block_size == Index(0)) {
      d.require_rank(scale, 1, "scale");
      d.require(equal(scale.size(0), x.size(axis)), [&] {
        return "scale has " + scale.size(0).to_string() + " elements for " + x.size(axis).to_string() + " along axis " +
               std::to_string(axis);
      });
      return;
    }
    d.require(less_equal(1, block_size), [&] { return "block_size is " + block_size.to_string(); });
    d.require_rank(scale, x.rank(), "scale");
    for (std::size_t a = 0; a < x.rank(); ++a)
      d.require(equal(scale.size(a), a == axis ? ceil_div(x.size(a), block_size) : x.size(a)), [&] {
        return "scale has shape " + to_string(scale.shape()) + " for blocks of " + block_size.to_string() + " along axis " +
               std::to_string(axis) + " of " + to_string(x.shape());
      });
  }

  static bool is_single(const Operand& p) { return p.rank() == 0 || (p.rank() == 1 && p.size(0) == Index(1)); }

  Element of(const Operand& p, const Indices& i) const {
    if (is_single(p)) return p(Indices(p.rank(), 0));
    if (block_size == Index(0)) return p({i[axis]});
    Indices at = i;
    at[axis] = floor_div(i[axis], block_size);
    return p(at);
  }
};

// y = x / scale + zero_point, rounded and limited to y's type.
struct QuantizeLinear {
  static constexpr std::string_view kName = "QuantizeLinear";
  static constexpr InputCount kInputs{2, 3};
  Index axis = 1;
  Index block_size = 0;
  DataType output_dtype = DataType::kUndefined;
  DataType precision = DataType::kUndefined;  // of the division; affects rounding only
  bool saturate = true;
  template <class V>
  void fields(V&& v) {
    v("axis", axis), v("block_size", block_size), v("output_dtype", output_dtype), v("precision", precision);
    v("saturate", saturate);
  }
  static void onnx(OnnxMapping& m) { m.since = 10; }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &scale = in[1], &zero_point = in[2];
    require_elements(d, x, Elements::kNumbers);
    require_elements(d, scale, Elements::kNumbers);
    const DataType type = zero_point.present()                   ? zero_point.type()
                          : output_dtype != DataType::kUndefined ? output_dtype
                                                                 : DataType::kUint8;
    d.require(can_be_quantized(type), [&] { return "quantized elements cannot be " + std::string(name(type)); });
    const Scales scales(d, x, scale, zero_point, axis, block_size);
    d.output(type, x.shape(), [=, *this](const Indices& i) {
      const Element scaled = quotient(as_real(x(i)), as_real(scales.of(scale, i)), x.type());
      return zero_point.present() ? quantized(scaled, scales.of(zero_point, i), type, saturate)
                                  : quantized(scaled, type, saturate);
    });
    return d;
  }
};

// y = (x - zero_point) * scale.
struct DequantizeLinear {
  static constexpr std::string_view kName = "DequantizeLinear";
  static constexpr InputCount kInputs{2, 3};
  Index axis = 1;
  Index block_size = 0;
  DataType output_dtype = DataType::kUndefined;
  template <class V>
  void fields(V&& v) {
    v("axis", axis), v("block_size", block_size), v("output_dtype", output_dtype);
  }
  static void onnx(OnnxMapping& m) { m.since = 10; }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &scale = in[1], &zero_point = in[2];
    d.require(can_be_quantized(x.type()), [&] { return "quantized elements cannot be " + std::string(name(x.type())); });
    require_elements(d, scale, Elements::kReals);
    if (zero_point.present()) d.require_same_type(x, zero_point);
    const DataType type = output_dtype != DataType::kUndefined ? output_dtype : scale.type();
    d.require(is_real(type), [&] { return "output_dtype is " + std::string(name(type)) + ", a real type is needed"; });
    const Scales scales(d, x, scale, zero_point, axis, block_size);
    d.output(type, x.shape(), [=](const Indices& i) {
      const Element q = as_real(x(i));
      return (zero_point.present() ? q - as_real(scales.of(zero_point, i)) : q) * scales.of(scale, i);
    });
    return d;
  }

  // The gradient of the scale: the output's gradient times x - zero_point, summed over all elements that use the scale.
  // Integers have no gradient.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    if (call.wants(0)) return derived_gradient(call);  // 8-bit reals
    GraphBuilder& b = call.graph;
    const TensorType scale = b.type_of(call.inputs[1]);
    DequantizeLinear alone = *this;
    alone.output_dtype = DataType::kUndefined;
    std::vector<ValueId> operands = call.inputs;
    operands[1] = b.filled(scale, 1);
    const ValueId steps = b.node(call.op, to_attributes(alone), operands).at(0);
    ValueId terms = b.add("Mul", {b.cast(call.output_gradients[0], scale.type), steps});
    const Indices shape = b.shape_of(terms);
    Indices summed = axes_from(0, shape.size());
    if (scale.rank() > 0 && !(scale.rank() == 1 && scale.shape[0] == Index(1))) {
      const auto along = static_cast<std::size_t>(canonical_axis(axis, shape.size()).value());
      if (block_size == Index(0)) {
        summed.erase(summed.begin() + static_cast<std::ptrdiff_t>(along));
      } else {
        Indices rest(shape.size(), 0), blocks = shape;
        blocks[along] = scale.shape[along];
        rest[along] = blocks[along] * block_size - shape[along];
        if (!(rest[along] == Index(0))) terms = b.add("Pad", {terms}, {{"pads_end", rest}});
        blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(along) + 1, block_size);
        terms = b.reshaped(terms, blocks);
        summed = {Index(along + 1)};
      }
    }
    std::vector<ValueId> result = call.none();
    result[1] = b.reshaped(b.summed(terms, summed), scale.shape);
    return result;
  }
};

// x as uint8, with the scale and the zero point for the range of its elements and 0. If all elements are 0 the scale is 1, as
// in ONNX Runtime: ONNX's formula divides 0 by 0.
struct DynamicQuantizeLinear {
  static constexpr std::string_view kName = "DynamicQuantizeLinear";
  static void onnx(OnnxMapping& m) { m.since = 11; }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_elements(d, x, Elements::kReals);
    const Slice all(x, axes_from(0, x.rank()), Indices(x.rank(), 0));
    const Element low = minimum(all.reduced(Reduction::kMin), real(0));
    const Element range = maximum(all.reduced(Reduction::kMax), real(0)) - low;
    const Element scale = select(apply(functions::equal, range, real(0)), real(1), quotient(range, real(255), x.type()));
    const Element zero_point = quantized(quotient(-low, scale, x.type()), DataType::kUint8);
    d.output(DataType::kUint8, x.shape(),
             [=](const Indices& i) { return quantized(quotient(x(i), scale, x.type()), zero_point, DataType::kUint8); });
    d.output(x.type(), {}, [=](const Indices&) { return scale; });
    d.output(DataType::kUint8, {}, [=](const Indices&) { return zero_point; });
    return d;
  }
};

}  // namespace

Element quotient(const Element& a, const Element& b, DataType type) {
  return type == DataType::kFloat ? apply(functions::nearest_float, a / b) : a / b;
}

Element quantized(const Element& e, DataType type, bool saturate) {
  if (is_small_float(type)) {
    const double largest = largest_small_float(type);
    return saturate ? limited(e, -largest, largest) : e;
  }
  const auto [low, high] = range_of(type);
  return convert(limited(apply(functions::round_even, e), low, high), Scalar::kInteger);
}

Element quantized(const Element& e, const Element& zero_point, DataType type, bool saturate) {
  if (is_small_float(type)) return quantized(e + zero_point, type, saturate);
  const auto [low, high] = range_of(type);
  return convert(limited(apply(functions::round_even, e) + as_real(zero_point), low, high), Scalar::kInteger);
}

Element parameter(const Operand& p, const Index& entry, const Indices& position) {
  if (p.rank() == 0) return p({});
  if (p.rank() == 1) return p({p.size(0) == Index(1) ? Index(0) : entry});
  return p.broadcast(position);
}

void require_parameter(Definition& d, const Operand& p, const Index& entries, const char* what) {
  if (!p.present() || p.rank() != 1 || p.size(0) == Index(1)) return;
  d.require(equal(p.size(0), entries),
            [&] { return std::string(what) + " has " + p.size(0).to_string() + " elements for " + entries.to_string(); });
}

Element centered(const Element& x, const Operand& zero_point, const Index& entry, const Indices& position) {
  return zero_point.present() ? x - parameter(zero_point, entry, position) : x;
}

void register_quantization(Registry& r) {
  r.add<QuantizeLinear>();
  r.add<DequantizeLinear>();
  r.add<DynamicQuantizeLinear>();
}

}  // namespace rewright::operators
