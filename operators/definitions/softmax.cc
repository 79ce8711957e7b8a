// Softmax and its logarithm.
#include <string>
#include <utility>

#include "operators/definitions/axes.h"
#include "operators/definitions/elementwise.h"
#include "operators/definitions/families.h"
#include "operators/gradient.h"

namespace rewright::operators {
namespace {

// From this opset on, one axis is normalized over (default: the last). Before, all axes from `axis` (default: 1) are.
constexpr int kOneAxis = 13;

// Swaps two axes; its own inverse.
Indices swap_axes(std::size_t rank, std::size_t a, std::size_t b) {
  Indices permutation = axes_from(0, rank);
  std::swap(permutation[a], permutation[b]);
  return permutation;
}

TensorType permuted(const TensorType& type, const Indices& permutation) {
  TensorType result{type.type, {}};
  for (const Index& axis : permutation) result.shape.push_back(type.shape[static_cast<std::size_t>(axis.value())]);
  return result;
}

// Exponentials of differences to the maximum, as in every implementation, so that large inputs stay finite.
template <FixedString Name, bool Logarithm>
struct SoftmaxLike {
  static constexpr std::string_view kName = Name.view();
  Index axis = -1;
  bool flatten = false;  // over all axes from `axis` on, together
  template <class V>
  void fields(V&& v) {
    v("axis", axis);
    v("flatten", flatten);
  }
  void normalize(const Inputs& in) {
    axis = canonical_axis(axis, in[0].rank());
    flatten = flatten && !rest_is_one(in[0].shape());
  }

  static void onnx(OnnxMapping& m) {
    m.internal_fields = {"flatten"};
    m.import = [](OnnxSource& source, std::string&) -> std::optional<std::vector<OnnxValue>> {
      SoftmaxLike op;
      op.flatten = source.opset() < kOneAxis;
      op.axis = source.integer("axis", op.flatten ? 1 : -1);
      return source.node(registry().get(kName), to_attributes(op), {source.input(0)});
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const auto op = from_attributes<SoftmaxLike>(attributes);
      const TensorType type = sink.type_of(inputs[0]);
      const std::string name(kName);
      if (sink.opset() >= kOneAxis ? !op.flatten : op.flatten || op.rest_is_one(type.shape)) {
        sink.node(name, {{"axis", op.axis}}, inputs, outputs);
        return true;
      }
      if (op.flatten) return false;  // the old form has no equivalent in new opsets
      const std::size_t last = type.rank() - 1;
      const Indices swap = swap_axes(type.rank(), static_cast<std::size_t>(op.axis.value()), last);
      const OnnxValue swapped = sink.fresh(permuted(type, swap)), result = sink.fresh(permuted(type, swap));
      sink.node("Transpose", {{"perm", swap}}, inputs, {swapped});
      sink.node(name, {{"axis", Index(last)}}, {swapped}, {result});
      sink.node("Transpose", {{"perm", swap}}, {result}, outputs);
      return true;
    };
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_elements(d, x, Elements::kReals);
    const Index first = canonical_axis(axis, x.rank());
    const Indices axes = flatten ? axes_from(static_cast<std::size_t>(first.value()), x.rank()) : Indices{first};
    d.output(x.type(), x.shape(), [=](const Indices& i) {
      const Slice slice(x, axes, i);
      const Element largest = slice.reduced(Reduction::kMax);
      const Element total =
          slice.reduced(Reduction::kSum, [&](const Element& e) { return apply(functions::exp, e - largest); });
      const Element shifted = x(i) - largest;
      return Logarithm ? shifted - apply(functions::log, total) : apply(functions::exp, shifted) / total;
    });
    return d;
  }

  // Softmax: y (g - sum(g y)); its logarithm: g - exp(y) sum(g).
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const ValueId y = call.outputs[0], g = call.output_gradients[0];
    const std::size_t rank = b.shape_of(y).size();
    const Index first = canonical_axis(axis, rank);
    const Indices axes = flatten ? axes_from(static_cast<std::size_t>(first.value()), rank) : Indices{first};
    const auto total = [&](ValueId v) { return b.add("ReduceSum", {v}, {{"axes", axes}}); };
    if (Logarithm) return {b.add("Sub", {g, b.add("Mul", {b.add("Exp", {y}), total(g)})})};
    return {b.add("Mul", {y, b.add("Sub", {g, total(b.add("Mul", {g, y}))})})};
  }

 private:
  // All axes after `axis` have size 1, so normalizing over one axis or over all from `axis` on is the same.
  bool rest_is_one(const Indices& shape) const {
    for (auto n = static_cast<std::size_t>(axis.value()) + 1; n < shape.size(); ++n)
      if (shape[n] != Index(1)) return false;
    return true;
  }
};

using Softmax = SoftmaxLike<"Softmax", false>;
using LogSoftmax = SoftmaxLike<"LogSoftmax", true>;

}  // namespace

void register_softmax(Registry& r) {
  r.add<Softmax>();
  r.add<LogSoftmax>();
}

}  // namespace rewright::operators
