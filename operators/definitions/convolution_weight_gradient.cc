// The gradient of a convolution in its weight, as an operator.
#include "operators/definitions/convolution.h"

namespace rewright::operators {

namespace {

// The gradient of sum(n, k, p) g[n, k, p...] * conv(x, w)[n, k, p...] in w:
// y[k, c, r...] = sum(n, p...) x[n, group of k * C/group + c, p * stride + r * dilation - pad] * g[n, k, p...].
struct ConvWeightGradient {
  static constexpr std::string_view kName = "ConvWeightGradient";
  static constexpr InputCount kInputs{2, 2};
  Indices kernel, strides, dilations, pads_begin;
  Index group = 1;

  template <class V>
  void fields(V&& v) {
    v("kernel", kernel), v("strides", strides), v("dilations", dilations), v("pads_begin", pads_begin), v("group", group);
  }

  void normalize(const Inputs&) {
    const std::size_t rank = kernel.size();
    fill_absent(strides, rank, 1), fill_absent(dilations, rank, 1), fill_absent(pads_begin, rank, 0);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &g = in[1];
    require_reals(d, x, g);
    require_ranks(d, x, g, "gradient", group);
    d.require_rank(x, kernel.size() + 2, "input");
    d.require(equal(x.size(0), g.size(0)),
              [&] { return "gradient is of " + g.size(0).to_string() + " examples, input of " + x.size(0).to_string(); });
    require_groups(d, x.size(1), group, "input", "channels");
    require_groups(d, g.size(1), group, "gradient", "channels");
    const Window window{kernel, strides, dilations, pads_begin, Indices(kernel.size(), 1)};
    window.require_sound(d, x, true);
    const Index depth = floor_div(x.size(1), group);
    Indices shape{g.size(1), depth};
    shape.insert(shape.end(), kernel.begin(), kernel.end());
    d.output(x.type(), shape, [=, *this](const Indices& i) {
      const Index first = first_of_group(i[0], g.size(1), depth, group);
      const Indices taps(i.begin() + 2, i.end());
      return sum("n", x.size(0), [&](const Index& n) {
        return reduce(Reduction::kSum, "p", spatial_part(g.shape()), [&](const Indices& p) {
          Indices place{n, i[0]};
          place.insert(place.end(), p.begin(), p.end());
          return x.padded(window.position(place, first + i[1], taps)) * g(place);
        });
      });
    });
    return d;
  }

  static void onnx(OnnxMapping& m);

  // The operator is linear in both operands. Its gradients are the convolution with the weights `seed`, and that convolution's
  // adjoint.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const ValueId x = call.inputs[0], g = call.inputs[1], seed = call.output_gradients[0];
    const Indices xs = b.shape_of(x), gs = b.shape_of(g);
    Window window{kernel, strides, dilations, pads_begin, {}};
    for (std::size_t a = 0; a < window.rank(); ++a)  // only where positions of the gradient reach
      window.pads_end.push_back(max(strides[a] * (gs[a + 2] - 1) + window.extent(a) - xs[a + 2] - pads_begin[a], 0));
    std::vector<ValueId> result = call.none();
    if (call.wants(0)) result[0] = input_gradient(b, xs, g, seed, window, group);
    if (call.wants(1)) result[1] = convolved(b, x, seed, window, group, gs);
    return result;
  }
};

// In ONNX: the convolution of x with g over axis n as channels, with strides and dilations swapped.
class AsConvolution {
 public:
  AsConvolution(OnnxSink& sink, const ConvWeightGradient& op) : sink_(sink), op_(op) {}

  bool write(const std::vector<OnnxValue>& inputs, const std::vector<OnnxValue>& outputs) {
    const TensorType x = sink_.type_of(inputs[0]), g = sink_.type_of(inputs[1]);
    const Index depth = floor_div(x.shape[1], op_.group);
    Indices pads_end, whole{depth, g.shape[1]}, wanted = whole;  // a stride with a remainder gives positions beyond the kernel
    for (std::size_t a = 0; a < op_.kernel.size(); ++a) {
      const Index reach = op_.strides[a] * (g.shape[a + 2] - 1) + 1, size = x.shape[a + 2] + op_.pads_begin[a];
      pads_end.push_back(max((op_.kernel[a] - 1) * op_.dilations[a] + reach - size, 0));
      whole.push_back(floor_div(size + pads_end.back() - reach, op_.dilations[a]) + 1);
      wanted.push_back(op_.kernel[a]);
    }
    if (!all_constant(pads_end)) return false;
    const Window window{{}, op_.dilations, op_.strides, op_.pads_begin, pads_end};
    const OnnxValue images = examples_as_channels(inputs[0], x), kernels = swapped(inputs[1], g);
    const OnnxValue result = sink_.fresh({x.type, whole});
    sink_.node("Conv", window_attributes(sink_, window, op_.group, kernels), {images, kernels}, {result});
    sink_.node("Transpose", {{"perm", swapped_axes(x.shape.size())}}, {cut(result, {x.type, whole}, wanted)}, outputs);
    return true;
  }

 private:
  static Indices swapped_axes(std::size_t rank) {
    Indices axes = axes_from(0, rank);
    std::swap(axes[0], axes[1]);
    return axes;
  }

  // With the first two axes exchanged.
  OnnxValue swapped(OnnxValue value, TensorType type) {
    std::swap(type.shape[0], type.shape[1]);
    const OnnxValue result = sink_.fresh(type);
    sink_.node("Transpose", {{"perm", swapped_axes(type.shape.size())}}, {value}, {result});
    return result;
  }

  // [n, group, depth, spatial...] as [depth, group * n, spatial...].
  OnnxValue examples_as_channels(OnnxValue value, const TensorType& x) {
    if (op_.group == Index(1)) return swapped(value, x);
    const Index n = x.shape[0], depth = floor_div(x.shape[1], op_.group);
    const Indices spatial = spatial_part(x.shape);
    const auto with_spatial = [&](Indices first) {
      first.insert(first.end(), spatial.begin(), spatial.end());
      return first;
    };
    const auto reshaped = [&](OnnxValue from, const Indices& shape) {
      const OnnxValue result = sink_.fresh({x.type, shape});
      sink_.node("Reshape", {}, {from, sink_.index_tensor(shape)}, {result});
      return result;
    };
    Indices perm = axes_from(0, x.shape.size() + 1);
    std::swap(perm[0], perm[2]);
    const OnnxValue moved = sink_.fresh({x.type, with_spatial({depth, op_.group, n})});
    sink_.node("Transpose", {{"perm", perm}}, {reshaped(value, with_spatial({n, op_.group, depth}))}, {moved});
    return reshaped(moved, with_spatial({depth, op_.group * n}));
  }

  // The leading part of this shape.
  OnnxValue cut(OnnxValue value, const TensorType& type, const Indices& shape) {
    if (type.shape == shape) return value;
    const OnnxValue result = sink_.fresh({type.type, shape});
    sink_.node("Slice", {},
               {value, sink_.index_tensor(Indices(shape.size(), 0)), sink_.index_tensor(shape),
                sink_.index_tensor(axes_from(0, shape.size()))},
               {result});
    return result;
  }

  OnnxSink& sink_;
  const ConvWeightGradient& op_;
};

void ConvWeightGradient::onnx(OnnxMapping& m) {
  m.type = {};
  m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
               const std::vector<OnnxValue>& outputs) {
    const ConvWeightGradient op = from_attributes<ConvWeightGradient>(attributes);
    return AsConvolution(sink, op).write(inputs, outputs);
  };
}

}  // namespace

void register_convolution_weight_gradient(Registry& r) { r.add<ConvWeightGradient>(); }

}  // namespace rewright::operators
