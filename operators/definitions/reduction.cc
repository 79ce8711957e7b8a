// Reductions over axes.
#include <string>
#include <utility>

#include "operators/definitions/axes.h"
#include "operators/definitions/elementwise.h"
#include "operators/definitions/families.h"
#include "operators/gradient.h"

namespace rewright::operators {
namespace {

// The axes to reduce over. A scalar has none; the axes 0 and -1 are ignored there, because exporters write them (torch's of
// any, amax or a norm) and ONNX Runtime accepts them.
Indices reduced_axes(const Indices& axes, std::size_t rank) {
  if (rank > 0) return canonical_axes(axes, rank);
  for (const Index& axis : axes)
    if (!(axis == Index(0) || axis == Index(-1))) canonical_axis(axis, rank);
  return {};
}

// Sizes after reducing; the reduced axes stay with size 1 if `keep`.
Indices reduced_shape(const Indices& shape, const Indices& axes, bool keep) {
  Indices result;
  for (std::size_t n = 0; n < shape.size(); ++n) {
    if (std::find(axes.begin(), axes.end(), Index(n)) == axes.end())
      result.push_back(shape[n]);
    else if (keep)
      result.emplace_back(1);
  }
  return result;
}

// The operand's position for a position of the result; reduced axes get 0.
Indices full_position(const Indices& position, const Indices& axes, std::size_t rank, bool keep) {
  if (keep) return position;
  Indices full;
  std::size_t next = 0;
  for (std::size_t n = 0; n < rank; ++n) {
    const bool reduced = std::find(axes.begin(), axes.end(), Index(n)) != axes.end();
    full.push_back(reduced ? Index(0) : position[next++]);
  }
  return full;
}

// Reduces slices of the operand by F. From opset `Since` on, the axes are an input.
template <FixedString Name, Elements Allowed, Element (*F)(const Slice&), int Since>
struct Reduce {
  static constexpr std::string_view kName = Name.view();
  Indices axes;  // none: all, or (noop_with_empty_axes) none
  bool keepdims = true;
  bool noop_with_empty_axes = false;
  template <class V>
  void fields(V&& v) {
    v("axes", axes);
    v("keepdims", keepdims);
    v("noop_with_empty_axes", noop_with_empty_axes);
  }
  void normalize(const Inputs& in) {
    const std::size_t rank = in[0].rank();
    axes = axes.empty() && !noop_with_empty_axes ? axes_from(0, rank) : reduced_axes(axes, rank);
    noop_with_empty_axes = axes.empty() && rank > 0;
  }
  static void onnx(OnnxMapping& m) { m.field_inputs = {{"axes", 1, Since}}; }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_elements(d, x, Allowed);
    Reduce canonical = *this;
    canonical.normalize(in);
    d.output(x.type(), reduced_shape(x.shape(), canonical.axes, keepdims),
             [=, over = canonical.axes, keep = keepdims](const Indices& i) {
               return F(Slice(x, over, full_position(i, over, x.rank(), keep)));
             });
    return d;
  }
};

std::vector<std::uint64_t> unsigned_integers(const Tensor& t) {
  const std::vector<std::int64_t> integers = t.integers();
  return {integers.begin(), integers.end()};
}

// A real function of a sum that may be an integer.
Element through_reals(const Function& f, const Element& e) { return convert(apply(f, convert(e, Scalar::kReal)), e->scalar); }

// Truth values are reduced as integers 0 and 1. Of an empty slice, the largest is 0 and the smallest 1.
Element extreme(const Slice& s, Reduction kind) {
  const auto key = [&](const Element& e) { return order_key(e, s.type()); };
  if (s.scalar() != Scalar::kBoolean) return key(s.reduced(kind, key));
  const Element e = s.reduced(kind, [](const Element& x) { return convert(x, Scalar::kInteger); });
  return convert(kind == Reduction::kMax ? maximum(e, integer(0)) : e, Scalar::kBoolean);
}

Element square(const Element& e) { return e * e; }
Element absolute(const Element& e) { return apply(functions::abs, e); }

Element total(const Slice& s) { return s.reduced(Reduction::kSum); }
Element mean(const Slice& s) { return s.mean(); }
Element largest(const Slice& s) { return extreme(s, Reduction::kMax); }
Element smallest(const Slice& s) { return extreme(s, Reduction::kMin); }
Element product_of(const Slice& s) { return s.reduced(Reduction::kProduct); }
Element sum_of_squares(const Slice& s) { return s.reduced(Reduction::kSum, square); }
Element l1_norm(const Slice& s) { return s.reduced(Reduction::kSum, absolute); }
Element l2_norm(const Slice& s) { return through_reals(functions::sqrt, sum_of_squares(s)); }
Element log_of_sum(const Slice& s) { return through_reals(functions::log, total(s)); }
// log(sum(exp(x))), with differences to the maximum so that large elements stay finite. An infinite maximum is handled
// separately: infinity minus infinity is NaN.
Element log_of_sum_of_exp(const Slice& s) {
  const auto as_real = [](const Element& e) { return convert(e, Scalar::kReal); };
  const Element most = as_real(s.reduced(Reduction::kMax));
  const Element shift = select(apply(functions::is_infinite, most), real(0), most);
  const Element sum = s.reduced(Reduction::kSum, [&](const Element& e) { return apply(functions::exp, as_real(e) - shift); });
  return convert(apply(functions::log, sum) + shift, s.scalar());
}

using ReduceSum = Reduce<"ReduceSum", Elements::kNumbers, total, 13>;
using ReduceMean = Reduce<"ReduceMean", Elements::kNumbers, mean, 18>;
using ReduceMax = Reduce<"ReduceMax", Elements::kAll, largest, 18>;
using ReduceMin = Reduce<"ReduceMin", Elements::kAll, smallest, 18>;
using ReduceProd = Reduce<"ReduceProd", Elements::kNumbers, product_of, 18>;
using ReduceSumSquare = Reduce<"ReduceSumSquare", Elements::kNumbers, sum_of_squares, 18>;
using ReduceL1 = Reduce<"ReduceL1", Elements::kNumbers, l1_norm, 18>;
using ReduceL2 = Reduce<"ReduceL2", Elements::kNumbers, l2_norm, 18>;
using ReduceLogSum = Reduce<"ReduceLogSum", Elements::kNumbers, log_of_sum, 18>;
using ReduceLogSumExp = Reduce<"ReduceLogSumExp", Elements::kNumbers, log_of_sum_of_exp, 18>;

// The sum (or product) of the elements up to each position along an axis: without the element itself if exclusive, from the
// end if reverse.
template <FixedString Name, Reduction kKind, int Since>
struct Cumulative {
  static constexpr std::string_view kName = Name.view();
  Index axis = 0;
  bool exclusive = false;
  bool reverse = false;
  template <class V>
  void fields(V&& v) {
    v("axis", axis);
    v("exclusive", exclusive);
    v("reverse", reverse);
  }
  void normalize(const Inputs& in) { axis = canonical_axis(axis, in[0].rank()); }

  static void onnx(OnnxMapping& m) {
    m.since = Since;
    m.field_inputs = {{"axis", 1, Since}};
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      if (sink.opset() < Since) return false;
      const auto op = from_attributes<Cumulative>(attributes);
      const OnnxValue axis = sink.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector{op.axis.value()}));
      sink.node(std::string(kName), {{"exclusive", op.exclusive}, {"reverse", op.reverse}}, {inputs[0], axis}, outputs);
      return true;
    };
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_elements(d, x, Elements::kNumbers);
    const auto along = static_cast<std::size_t>(canonical_axis(axis, x.rank()).value());
    d.output(x.type(), x.shape(), [=, *this](const Indices& i) {
      const auto body = [&](const Indices& t) {
        Indices position = i;
        position[along] = t[0];
        return x(position);
      };
      const auto counts = [&](const Indices& t) {
        const Index &first = reverse ? i[along] : t[0], &last = reverse ? t[0] : i[along];
        return std::vector{exclusive ? less(first, last) : less_equal(first, last)};
      };
      return reduce(kKind, "t", {x.size(along)}, body, counts);
    });
    return d;
  }

  // For a sum: the sum in the other direction. For a product: the product of the elements before i, times the sum over all j of
  // the gradient at j times the product of the elements between i and j. Without division, so that elements may be 0.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const auto cumulated = [&](const Cumulative& op, ValueId v) {
      return b.node(registry().get(kName), to_attributes(op), {v}).at(0);
    };
    if constexpr (kKind == Reduction::kSum) {
      Cumulative adjoint = *this;
      adjoint.reverse = !reverse;
      return {cumulated(adjoint, call.output_gradients[0])};
    } else {
      const ValueId x = call.inputs[0];
      const Indices shape = b.shape_of(x);
      const auto rank = shape.size(), along = static_cast<std::size_t>(canonical_axis(axis, rank).value());
      Cumulative before = *this, between = *this;
      before.exclusive = true, between.axis = Index(rank);
      // Positions i along the axis, j along a new last axis.
      const auto counted = [&](std::size_t at) {
        Indices sizes(rank + 1, 1);
        sizes[at] = shape[along];
        return b.reshaped(b.add("Range", {}, {{"count", shape[along]}}), sizes);
      };
      const auto along_last = [&](ValueId v) {
        Indices perm, sizes = b.shape_of(v);
        for (std::size_t a = 0; a < rank; ++a)
          if (a != along) perm.emplace_back(a);
        perm.emplace_back(along);
        sizes.push_back(sizes[along]), sizes[along] = 1;
        const ValueId last = b.transposed(v, perm);  // [others..., j]
        return b.reshaped(last, sizes);
      };
      const ValueId i = counted(along), j = counted(rank), first = reverse ? j : i, second = reverse ? i : j;
      const ValueId follows = b.add("Less", {first, second});
      const ValueId used = exclusive ? follows : b.add("LessOrEqual", {first, second});
      const DataType type = b.type_of(x).type;
      const ValueId products = cumulated(between, b.add("Where", {follows, along_last(x), b.scalar(type, 1)}));
      const ValueId terms = b.add("Mul", {products, along_last(call.output_gradients[0])});
      const ValueId sums = b.summed(b.add("Where", {used, terms, b.scalar(type, 0)}), {Index(rank)});
      return {b.add("Mul", {cumulated(before, x), sums})};
    }
  }
};

using CumSum = Cumulative<"CumSum", Reduction::kSum, 11>;
using CumProd = Cumulative<"CumProd", Reduction::kProduct, 26>;

// The position of the largest (or smallest) element along an axis; among equal ones the first or the last. Executed, without a
// denotation.
template <FixedString Name, bool Largest>
struct Arg {
  static constexpr std::string_view kName = Name.view();
  Index axis = 0;
  bool keepdims = true;
  bool select_last_index = false;
  template <class V>
  void fields(V&& v) {
    v("axis", axis);
    v("keepdims", keepdims);
    v("select_last_index", select_last_index);
  }
  // A scalar counts as one element along axis 0 or -1, as with reductions.
  void normalize(const Inputs& in) { axis = canonical_axis(axis, std::max<std::size_t>(in[0].rank(), 1)); }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_elements(d, x, Elements::kNumbers);
    const Index along = canonical_axis(axis, std::max<std::size_t>(x.rank(), 1));
    if (x.rank() > 0)
      d.require(less_equal(1, x.size(static_cast<std::size_t>(along.value()))),
                [&] { return "axis " + along.to_string() + " has no elements (" + to_string(x.shape()) + ")"; });
    d.output_without_denotation(DataType::kInt64, reduced_shape(x.shape(), {along}, keepdims));
    return d;
  }

  std::vector<Tensor> execute(std::span<const Tensor> inputs) const {
    const Tensor x = inputs[0].sizes().empty() ? inputs[0].reshaped({1}) : inputs[0];
    const auto along = static_cast<std::size_t>(canonical_axis(axis, x.sizes().size()).value());
    const std::int64_t size = x.sizes()[along];
    const auto first = x.sizes().begin(), middle = first + static_cast<std::ptrdiff_t>(along);
    const std::int64_t outer = element_count({first, middle}), inner = element_count({middle + 1, x.sizes().end()});
    Sizes sizes = values(reduced_shape(to_indices(inputs[0].sizes()), {Index(along)}, keepdims));
    Tensor result(DataType::kInt64, std::move(sizes));
    const auto find = [&](const auto& elements) {
      for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t n = 0; n < inner; ++n) {
          std::int64_t best = 0;
          const auto at = [&](std::int64_t t) { return elements[static_cast<std::size_t>((o * size + t) * inner + n)]; };
          for (std::int64_t t = 1; t < size; ++t) {
            const auto candidate = at(t), current = at(best);
            const bool better = Largest ? candidate > current : candidate < current;
            const bool nan_comes_first = candidate != candidate && current == current;  // NOLINT: asks for NaN
            if (better || nan_comes_first || (select_last_index && candidate == current)) best = t;
          }
          result.mutable_data<std::int64_t>()[static_cast<std::size_t>(o * inner + n)] = best;
        }
    };
    if (is_real(x.type()))
      find(x.reals());
    else if (x.type() == DataType::kUint64)
      find(unsigned_integers(x));
    else
      find(x.integers());
    return {result};
  }
};

using ArgMax = Arg<"ArgMax", true>;
using ArgMin = Arg<"ArgMin", false>;

}  // namespace

void register_reduction(Registry& r) {
  r.add<ReduceSum>();
  r.add<ReduceMean>();
  r.add<ReduceMax>();
  r.add<ReduceMin>();
  r.add<ReduceProd>();
  r.add<ReduceSumSquare>();
  r.add<ReduceL1>();
  r.add<ReduceL2>();
  r.add<ReduceLogSum>();
  r.add<ReduceLogSumExp>();
  r.add<CumSum>();
  r.add<CumProd>();
  r.add<ArgMax>();
  r.add<ArgMin>();
}

}  // namespace rewright::operators
