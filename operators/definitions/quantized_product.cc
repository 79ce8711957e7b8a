// Matrix products and convolutions of quantized elements.
#include <string>

#include "operators/definitions/convolution.h"
#include "operators/definitions/elementwise.h"
#include "operators/definitions/families.h"
#include "operators/definitions/quantization.h"

namespace rewright::operators {

namespace {

void require_quantized(Definition& d, const Operand& x, const char* what) {
  d.require(is_integer(x.type()) && packed_bits(x.type()) <= 8, [&] {
    return std::string(what) + " is " + std::string(name(x.type())) + ", integers of 8 bits or less are needed";
  });
}

// The product of two quantized matrices (leading axes broadcast), each minus its zero point: one for the matrix, or one for
// each row of a and each column of b.
struct Product {
  Operand a, b, a_zero_point, b_zero_point;
  std::size_t batch = 0;
  Indices shape;

  Product(Definition& d, const Operand& left, const Operand& right, const Operand& left_zero, const Operand& right_zero)
      : a(left), b(right), a_zero_point(left_zero), b_zero_point(right_zero) {
    d.require(a.rank() >= 2 && b.rank() >= 2, [] { return std::string("operands must have rank 2 at least"); });
    d.require(equal(depth(), b.size(b.rank() - 2)),
              [&] { return "a has " + depth().to_string() + " columns, b has " + b.size(b.rank() - 2).to_string() + " rows"; });
    shape =
        broadcast_shapes(d, {Indices(a.shape().begin(), a.shape().end() - 2), Indices(b.shape().begin(), b.shape().end() - 2)});
    batch = shape.size();
    shape.push_back(rows());
    shape.push_back(columns());
    require_parameter(d, a_zero_point, rows(), "a's zero point");
    require_parameter(d, b_zero_point, columns(), "b's zero point");
  }
  const Index& depth() const { return a.size(a.rank() - 1); }
  const Index& rows() const { return a.size(a.rank() - 2); }
  const Index& columns() const { return b.size(b.rank() - 1); }

  Element operator()(const Indices& i) const {
    return sum("k", depth(), [&](const Index& k) {
      Indices left(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(batch)), right = left;
      left.insert(left.end(), {i[batch], k});
      right.insert(right.end(), {k, i[batch + 1]});
      return centered(a.broadcast(left), a_zero_point, i[batch], left) *
             centered(b.broadcast(right), b_zero_point, i[batch + 1], right);
    });
  }
};

// y = sum(k) (a[..., m, k] - a_zero_point) * (b[..., k, n] - b_zero_point), as int32.
struct MatMulInteger {
  static constexpr std::string_view kName = "MatMulInteger";
  static constexpr InputCount kInputs{2, 4};
  static void onnx(OnnxMapping& m) { m.since = 10; }

  Definition define(const Inputs& in) const {
    Definition d(in);
    require_quantized(d, in[0], "a");
    require_quantized(d, in[1], "b");
    const Product product(d, in[0], in[1], in[2], in[3]);
    d.output(DataType::kInt32, product.shape, product);
    return d;
  }
};

// The product of a and b as reals, quantized again. Inputs: a, its scale and zero point, b, its, the result's.
struct QLinearMatMul {
  static constexpr std::string_view kName = "QLinearMatMul";
  static constexpr InputCount kInputs{8, 8};
  static void onnx(OnnxMapping& m) { m.since = 10; }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &a_scale = in[1], &b_scale = in[4], &y_scale = in[6], &y_zero_point = in[7];
    require_quantized(d, in[0], "a");
    require_quantized(d, in[3], "b");
    require_quantized(d, y_zero_point, "the result's zero point");
    for (const Operand* scale : {&a_scale, &b_scale, &y_scale}) require_elements(d, *scale, Elements::kReals);
    const Product product(d, in[0], in[3], in[2], in[5]);
    require_parameter(d, a_scale, product.rows(), "a's scale");
    require_parameter(d, b_scale, product.columns(), "b's scale");
    require_parameter(d, y_scale, product.rows(), "the result's scale");
    require_parameter(d, y_zero_point, product.rows(), "the result's zero point");
    d.output(y_zero_point.type(), product.shape, [=](const Indices& i) {
      const Index &row = i[product.batch], &column = i[product.batch + 1];
      const Element scale = parameter(a_scale, row, i) * parameter(b_scale, column, i) / parameter(y_scale, row, i);
      return quantized(as_real(product(i)) * scale, parameter(y_zero_point, row, i), y_zero_point.type());
    });
    return d;
  }
};

// A convolution of quantized elements, each minus its zero point. Elements outside of x equal the zero point.
struct Convolution {
  Operand x, w, x_zero_point, w_zero_point;
  Window window;
  Index group;
  Indices shape;

  Convolution(Definition& d, const Operand& input, const Operand& weight, const Operand& input_zero, const Operand& weight_zero,
              Window sliding, Index groups)
      : x(input),
        w(weight),
        x_zero_point(input_zero),
        w_zero_point(weight_zero),
        window(std::move(sliding)),
        group(std::move(groups)) {
    require_quantized(d, x, "input");
    require_quantized(d, w, "weight");
    require_weight(d, x, w, group);
    window.require_sound(d, x);
    require_parameter(d, x_zero_point, 1, "input's zero point");
    require_parameter(d, w_zero_point, w.size(0), "weight's zero point");
    shape = {x.size(0), w.size(0)};
    for (Index& i : window.counts(x, false)) shape.push_back(std::move(i));
  }

  Element operator()(const Indices& i) const {
    const Index first = first_of_group(i[1], w.size(0), w.size(1), group);
    return sum("c", w.size(1), [&](const Index& c) {
      return reduce(
          Reduction::kSum, "r", window.kernel,
          [&](const Indices& r) {
            const Indices at = window.position(i, first + c, r);
            Indices tap{i[1], c};
            tap.insert(tap.end(), r.begin(), r.end());
            return centered(x(at), x_zero_point, 0, at) * centered(w(tap), w_zero_point, i[1], tap);
          },
          [&](const Indices& r) { return window.inside(x, window.spatial(i, r), false); });
    });
  }
};

// The attributes of both convolutions and their ONNX form.
template <class Op>
struct QuantizedConvolution {
  Indices strides, dilations, pads_begin, pads_end;
  Index group = 1;

  template <class V>
  void fields(V&& v) {
    v("strides", strides), v("dilations", dilations), v("pads_begin", pads_begin), v("pads_end", pads_end);
    v("group", group);
  }
  void normalize(const Inputs& in) { fill_absent_window(*this, spatial_part(in[Op::kWeight].shape()).size()); }
  Window window(const Inputs& in) const {
    return {spatial_part(in[Op::kWeight].shape()), strides, dilations, pads_begin, pads_end};
  }

  static void onnx(OnnxMapping& m) {
    m.since = 10;
    m.import = [](OnnxSource& source, std::string& reason) { return import_convolution<Op>(source, Op::kWeight, reason); };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const Op op = from_attributes<Op>(attributes);
      const Window window{{}, op.strides, op.dilations, op.pads_begin, op.pads_end};
      sink.node(std::string(Op::kName), window_attributes(sink, window, op.group, inputs[Op::kWeight]), inputs, outputs);
      return true;
    };
  }
};

// y as int32, from x and w minus their zero points.
struct ConvInteger : QuantizedConvolution<ConvInteger> {
  static constexpr std::string_view kName = "ConvInteger";
  static constexpr InputCount kInputs{2, 4};
  static constexpr std::size_t kWeight = 1;

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Convolution convolution(d, in[0], in[1], in[2], in[3], window(in), group);
    d.output(DataType::kInt32, convolution.shape, convolution);
    return d;
  }
};

// The convolution of x and w as reals, quantized again. Inputs: x, its scale and zero point, w, its, the result's, and a bias
// in units of x's scale times w's.
struct QLinearConv : QuantizedConvolution<QLinearConv> {
  static constexpr std::string_view kName = "QLinearConv";
  static constexpr InputCount kInputs{8, 9};
  static constexpr std::size_t kWeight = 3;

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x_scale = in[1], &w_scale = in[4], &y_scale = in[6], &y_zero_point = in[7], &bias = in[8];
    const Convolution convolution(d, in[0], in[3], in[2], in[5], window(in), group);
    require_quantized(d, y_zero_point, "the result's zero point");
    for (const Operand* scale : {&x_scale, &w_scale, &y_scale}) require_elements(d, *scale, Elements::kReals);
    require_parameter(d, x_scale, 1, "input's scale");
    require_parameter(d, w_scale, in[3].size(0), "weight's scale");
    require_parameter(d, y_scale, 1, "the result's scale");
    require_parameter(d, y_zero_point, 1, "the result's zero point");
    if (bias.present()) {
      d.require_rank(bias, 1, "bias");
      d.require(is_integer(bias.type()), [&] { return "bias is " + std::string(name(bias.type())) + ", int32 is needed"; });
      d.require(equal(bias.size(0), in[3].size(0)), [&] {
        return "bias has " + bias.size(0).to_string() + " elements for " + in[3].size(0).to_string() + " output channels";
      });
    }
    d.output(y_zero_point.type(), convolution.shape, [=](const Indices& i) {
      const Element product = bias.present() ? convolution(i) + bias({i[1]}) : convolution(i);
      const Element scale = parameter(x_scale, 0, i) * parameter(w_scale, i[1], i) / parameter(y_scale, 0, i);
      return quantized(as_real(product) * scale, parameter(y_zero_point, 0, i), y_zero_point.type());
    });
    return d;
  }
};

}  // namespace

void register_quantized_product(Registry& r) {
  r.add<MatMulInteger>();
  r.add<QLinearMatMul>();
  r.add<ConvInteger>();
  r.add<QLinearConv>();
}

}  // namespace rewright::operators
