// Operators that are executed and have no denotation: writing at positions given as data, and sorting. What the first of them
// compute is specified all the same, for proofs (operators/specification.h).
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "operators/definitions/families.h"
#include "operators/definitions/lists.h"
#include "operators/gradient.h"
#include "operators/onnx.h"
#include "operators/specification.h"
#include "operators/texts.h"

namespace rewright::operators {

namespace {

using Imported = std::optional<std::vector<OnnxValue>>;

// The elements of a tensor, to be combined and written back.
class Combinable {
 public:
  explicit Combinable(const Tensor& t) : type_(t.type()), real_(is_real(t.type())) {
    if (type_ == DataType::kString)
      texts_.assign(t.strings().begin(), t.strings().end());
    else if (real_)
      reals_ = t.reals();
    else
      integers_ = t.integers();
  }
  // this[i] = this[i] (reduction) from[k]
  void combine(std::size_t i, const std::string& reduction, const Combinable& from, std::size_t k) {
    if (type_ == DataType::kString)
      texts_[i] = from.texts_[k];  // reductions exist only for numbers
    else if (real_)
      reals_[i] = combined(reduction, reals_[i], from.reals_[k]);
    else
      integers_[i] = static_cast<std::int64_t>(combined(reduction, static_cast<std::uint64_t>(integers_[i]),
                                                        static_cast<std::uint64_t>(from.integers_[k]), key(integers_[i]),
                                                        key(from.integers_[k])));
  }
  // NaN comes after all numbers, and is as large as another NaN.
  bool less(std::size_t i, std::size_t k) const {
    if (!real_) return key(integers_[i]) < key(integers_[k]);
    return std::isnan(reals_[k]) ? !std::isnan(reals_[i]) : reals_[i] < reals_[k];
  }
  Tensor picked(const std::vector<std::size_t>& which, Sizes sizes) const {
    std::vector<double> r;
    std::vector<std::int64_t> n;
    for (const std::size_t i : which)
      if (real_)
        r.push_back(reals_[i]);
      else
        n.push_back(integers_[i]);
    return real_ ? Tensor::from_reals(type_, std::move(sizes), r) : Tensor::from_integers(type_, std::move(sizes), n);
  }
  Tensor tensor(Sizes sizes) const {
    if (type_ == DataType::kString) return Tensor::from_strings(std::move(sizes), texts_);
    return real_ ? Tensor::from_reals(type_, std::move(sizes), reals_)
                 : Tensor::from_integers(type_, std::move(sizes), integers_);
  }

 private:
  // A key in the order of the type's elements.
  std::int64_t key(std::int64_t element) const {
    return type_ == DataType::kUint64 ? element ^ std::numeric_limits<std::int64_t>::min() : element;
  }
  static double combined(const std::string& reduction, double a, double b) {
    if (reduction == "add") return a + b;
    if (reduction == "mul") return a * b;
    if (reduction == "max") return std::max(a, b);
    return reduction == "min" ? std::min(a, b) : b;
  }
  // Sums and products wrap around, so they are computed unsigned.
  static std::uint64_t combined(const std::string& reduction, std::uint64_t a, std::uint64_t b, std::int64_t signed_a,
                                std::int64_t signed_b) {
    if (reduction == "add") return a + b;
    if (reduction == "mul") return a * b;
    if (reduction == "max") return signed_a > signed_b ? a : b;
    return reduction == "min" && signed_a < signed_b ? a : b;
  }

  DataType type_;
  bool real_;
  std::vector<double> reals_;
  std::vector<std::int64_t> integers_;
  std::vector<std::string> texts_;
};

void require_reduction(Definition& d, const std::string& reduction, const Operand& x) {
  if (reduction != "none") refuse_texts(x);
  d.require(reduction == "none" || reduction == "add" || reduction == "mul" || reduction == "max" || reduction == "min",
            [&] { return "reduction is '" + reduction + "'"; });
}

// Whether indices(at) is the position `here` on an axis of this size; below 0 it counts from the end.
Element is_at(const Operand& indices, const Indices& at, const Index& here, const Index& size) {
  const Element index = indices(at);
  return apply(functions::equal, select(apply(functions::less, index, integer(0)), index + from_index(size), index),
               from_index(here));
}

// Whether a condition holds for any position of a range.
Element any_of(const std::string& name, const Indices& bounds, const BodyN& condition, const WhereN& where = {}) {
  const auto number = [&](const Indices& r) { return convert(condition(r), Scalar::kInteger); };
  return apply(functions::less, integer(0), maximum(reduce(Reduction::kMax, name, bounds, number, where), integer(0)));
}

// The element of a scatter of which `updates` are `update(r)` for all r < bounds, of which those for which `hits(r)` meet it.
Element scattered(const std::string& reduction, const Element& before, const Indices& bounds, const BodyN& hits,
                  const BodyN& update) {
  const Scalar kind = before->scalar;
  const auto all = [&](Reduction by, const Element& neutral) {
    return reduce(by, "r", bounds, [&](const Indices& r) { return select(hits(r), update(r), neutral); });
  };
  if (reduction == "add") return before + all(Reduction::kSum, constant(kind, 0));
  if (reduction == "mul") return before * all(Reduction::kProduct, constant(kind, 1));
  // Updates of other positions count as the old element.
  if (reduction == "max") return maximum(before, all(Reduction::kMax, before));
  if (reduction == "min") return minimum(before, all(Reduction::kMin, before));
  // The last one counts.
  const auto follows = [&](const Indices& r, const Indices& l) {
    Index first = 0, second = 0;
    for (std::size_t a = 0; a < bounds.size(); ++a) first = first * bounds[a] + r[a], second = second * bounds[a] + l[a];
    return less(first, second);
  };
  const Element last = reduce(Reduction::kSum, "r", bounds, [&](const Indices& r) {
    const Element again = any_of("l", bounds, hits, [&](const Indices& l) { return std::vector{follows(r, l)}; });
    return select(apply(functions::logical_and, hits(r), apply(functions::logical_not, again)), update(r), constant(kind, 0));
  });
  return select(any_of("r", bounds, hits), last, before);
}

bool is_number(DataType type) { return is_real(type) || is_integer(type); }

// The gradients of a scatter. `scatter` writes or combines updates at the node's positions, `gather` reads there.
template <class Scatter, class Gather>
class ScatterGradient {
 public:
  ScatterGradient(const GradientCall& call, const Scatter& scatter, const Gather& gather)
      : b_(call.graph),
        call_(call),
        scatter_(scatter),
        gather_(gather),
        x_(call.inputs[0]),
        updates_(call.inputs[2]),
        g_(call.output_gradients[0]),
        type_(b_.type_of(x_).type) {}

  // Positions written more than once without a reduction have no defined value, and no useful gradient.
  std::vector<ValueId> written() {
    return wanted([&] { return scatter_(g_, b_.filled(b_.type_of(updates_), 0), "none"); }, [&] { return gather_(g_); });
  }
  std::vector<ValueId> added() {
    return wanted([&] { return g_; }, [&] { return gather_(g_); });
  }

  // Equal elements share the gradient.
  std::vector<ValueId> extreme() {
    const ValueId result = call_.outputs[0];
    const ValueId of_x = equal(x_, result), of_updates = equal(updates_, gather_(result));
    const ValueId share = b_.add("Div", {g_, scatter_(of_x, of_updates, "add")});
    return wanted([&] { return product(of_x, share); }, [&] { return product(of_updates, gather_(share)); });
  }

  // Avoids dividing by factors that may be 0: a zero factor gets the product of the others if it is the only zero.
  std::vector<ValueId> multiplied() {
    const ValueId one = b_.scalar(type_, 1), zero = b_.scalar(type_, 0);
    const auto is_zero = [&](ValueId v) { return equal(v, zero); };
    const auto others = [&](ValueId v) { return b_.add("Where", {b_.add("Equal", {v, zero}), one, v}); };
    const ValueId zeros = scatter_(is_zero(x_), is_zero(updates_), "add"),
                  product_of_others = scatter_(others(x_), others(updates_), "mul");
    const auto gradient = [&](ValueId factor, ValueId zeros_here, ValueId product_here, ValueId g_here) {
      const ValueId rest = b_.add("Equal", {b_.add("Sub", {zeros_here, is_zero(factor)}), zero});  // the others have no zero
      return b_.add("Where", {rest, product(g_here, b_.add("Div", {product_here, others(factor)})), zero});
    };
    return wanted([&] { return gradient(x_, zeros, product_of_others, g_); },
                  [&] { return gradient(updates_, gather_(zeros), gather_(product_of_others), gather_(g_)); });
  }

 private:
  ValueId product(ValueId a, ValueId c) { return b_.add("Mul", {a, c}); }
  ValueId equal(ValueId a, ValueId c) { return b_.cast(b_.add("Equal", {a, c}), type_); }
  template <class OfX, class OfUpdates>
  std::vector<ValueId> wanted(const OfX& of_x, const OfUpdates& of_updates) {
    std::vector<ValueId> result = call_.none();
    if (call_.wants(0)) result[0] = of_x();
    if (call_.wants(2)) result[2] = of_updates();
    return result;
  }

  GraphBuilder& b_;
  const GradientCall& call_;
  const Scatter& scatter_;
  const Gather& gather_;
  const ValueId x_, updates_, g_;
  const DataType type_;
};

template <class Scatter, class Gather>
std::vector<ValueId> gradient_of_scatter(const GradientCall& call, const std::string& reduction, const Scatter& scatter,
                                         const Gather& gather) {
  ScatterGradient gradient(call, scatter, gather);
  if (reduction == "none") return gradient.written();
  if (reduction == "add") return gradient.added();
  return reduction == "mul" ? gradient.multiplied() : gradient.extreme();
}

// x with updates written (or combined, in order) at the positions that the indices give on one axis.
struct ScatterElements {
  static constexpr std::string_view kName = "ScatterElements";
  static constexpr InputCount kInputs{3, 3};
  Index axis = 0;
  std::string reduction = "none";

  template <class V>
  void fields(V&& v) {
    v("axis", axis), v("reduction", reduction);
  }
  void normalize(const Inputs& in) { axis = canonical_axis(axis, in[0].rank()); }

  Definition define(const Inputs& in) const {
    Definition d = well_typed(in);
    d.output_without_denotation(in[0].type(), in[0].shape());
    return d;
  }

  Definition specify(const Inputs& in) const {
    const Operand &x = in[0], &indices = in[1], &updates = in[2];
    if (!is_number(x.type())) return define(in);
    Definition d = well_typed(in);
    const std::size_t along = axis_number(axis, x.rank());
    d.output(x.type(), x.shape(), [=, by = reduction](const Indices& i) {
      const auto at = [&](const Indices& r) {
        Indices position = i;
        position[along] = r[0];
        return position;
      };
      std::vector<Condition> beside;  // an update
      for (std::size_t a = 0; a < x.rank(); ++a)
        if (a != along && !(indices.size(a) == x.size(a))) beside.push_back(less(i[a], indices.size(a)));
      const Element changed = scattered(
          by, x(i), {indices.size(along)}, [&](const Indices& r) { return is_at(indices, at(r), i[along], x.size(along)); },
          [&](const Indices& r) { return updates(at(r)); });
      return beside.empty() ? changed : choose(beside, changed, x(i));
    });
    return d;
  }

  Definition well_typed(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &indices = in[1], &updates = in[2];
    require_indices(d, indices);
    require_reduction(d, reduction, x);
    d.require_same_type(x, updates);
    d.require_rank(indices, x.rank(), "indices");
    d.require_rank(updates, x.rank(), "updates");
    const std::size_t along = axis_number(axis, x.rank());
    for (std::size_t a = 0; a < x.rank(); ++a) {
      d.require(equal(indices.size(a), updates.size(a)), [&] {
        return "indices have shape " + to_string(indices.shape()) + ", updates have " + to_string(updates.shape());
      });
      if (a != along)
        d.require(less_equal(indices.size(a), x.size(a)), [&] {
          return "axis " + std::to_string(a) + " has size " + indices.size(a).to_string() + " in the indices and " +
                 x.size(a).to_string() + " in the data";
        });
    }
    return d;
  }

  std::vector<Tensor> execute(std::span<const Tensor> in) const {
    const Sizes &sizes = in[0].sizes(), &from = in[1].sizes();
    const std::size_t along = axis_number(axis, sizes.size());
    const std::vector<std::int64_t> indices = in[1].integers();
    Combinable result(in[0]);
    const Combinable updates(in[2]);
    for (std::size_t k = 0; k < indices.size(); ++k) {
      std::size_t rest = k, at = 0, stride = 1;
      for (std::size_t a = sizes.size(); a-- > 0;) {
        const std::size_t here = rest % static_cast<std::size_t>(from[a]);
        rest /= static_cast<std::size_t>(from[a]);
        at += stride * (a == along ? static_cast<std::size_t>(checked_index(indices[k], sizes[a])) : here);
        stride *= static_cast<std::size_t>(sizes[a]);
      }
      result.combine(at, reduction, updates, k);
    }
    return {result.tensor(sizes)};
  }

  static void onnx(OnnxMapping& m) {
    m.since = 11;
    m.also = {"Scatter"};  // its name before opset 11
    m.import = [](OnnxSource& source, std::string&) -> Imported {
      ScatterElements op;
      op.axis = source.integer("axis", 0), op.reduction = source.text("reduction", "none");
      return source.node(registry().get(kName), to_attributes(op), {source.input(0), source.input(1), source.input(2)});
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const ScatterElements op = from_attributes<ScatterElements>(attributes);
      OnnxSink::NamedAttributes named{{"axis", op.axis}};
      if (op.reduction != "none") {
        if (sink.opset() < (op.reduction == "max" || op.reduction == "min" ? 18 : 16)) return false;
        named.emplace_back("reduction", op.reduction);
      }
      sink.node(sink.opset() < 11 ? "Scatter" : "ScatterElements", std::move(named), inputs, outputs);
      return true;
    };
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    return gradient_of_scatter(
        call, reduction,
        [&](ValueId x, ValueId updates, const std::string& by) {
          return call.graph.add(kName, {x, call.inputs[1], updates}, {{"axis", axis}, {"reduction", by}});
        },
        [&](ValueId x) {
          return call.graph.add("GatherElements", {x, call.inputs[1]}, {{"axis", axis}});
        });
  }
};

// x with slices of updates written (or combined, in order) at the positions that the rows of the indices give.
struct ScatterND {
  static constexpr std::string_view kName = "ScatterND";
  static constexpr InputCount kInputs{3, 3};
  std::string reduction = "none";

  template <class V>
  void fields(V&& v) {
    v("reduction", reduction);
  }

  Definition define(const Inputs& in) const {
    Definition d = well_typed(in);
    d.output_without_denotation(in[0].type(), in[0].shape());
    return d;
  }

  Definition specify(const Inputs& in) const {
    const Operand &x = in[0], &indices = in[1], &updates = in[2];
    if (!is_number(x.type()) || indices.shape().back() == Index(0)) return define(in);
    Definition d = well_typed(in);
    const auto depth = static_cast<std::size_t>(indices.shape().back().value());
    const Indices bounds(indices.shape().begin(), indices.shape().end() - 1);
    d.output(x.type(), x.shape(), [=, by = reduction](const Indices& i) {
      const auto hits = [&](const Indices& r) {
        Element all;
        for (std::size_t a = 0; a < depth; ++a) {
          Indices at = r;
          at.emplace_back(a);
          const Element one = is_at(indices, at, i[a], x.size(a));
          all = all ? apply(functions::logical_and, all, one) : one;
        }
        return all;
      };
      const auto update = [&](const Indices& r) {
        Indices at = r;
        at.insert(at.end(), i.begin() + static_cast<std::ptrdiff_t>(depth), i.end());
        return updates(at);
      };
      if (!bounds.empty()) return scattered(by, x(i), bounds, hits, update);
      return scattered(
          by, x(i), {Index(1)}, [&](const Indices&) { return hits({}); }, [&](const Indices&) { return update({}); });
    });
    return d;
  }

  Definition well_typed(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &indices = in[1], &updates = in[2];
    require_indices(d, indices);
    require_reduction(d, reduction, x);
    d.require_same_type(x, updates);
    d.require(indices.rank() >= 1, [] { return std::string("indices have rank 0"); });
    const std::int64_t depth = indices.shape().back().value();
    d.require(depth >= 0 && depth <= static_cast<std::int64_t>(x.rank()), [&] {
      return "indices of shape " + to_string(indices.shape()) + " into data of rank " + std::to_string(x.rank());
    });
    Indices shape(indices.shape().begin(), indices.shape().end() - 1);
    shape.insert(shape.end(), x.shape().begin() + depth, x.shape().end());
    d.require_rank(updates, shape.size(), "updates");
    for (std::size_t a = 0; a < shape.size(); ++a)
      d.require(equal(shape[a], updates.size(a)), [&] {
        return "updates have shape " + to_string(updates.shape()) + ", the indices ask for " + to_string(shape);
      });
    return d;
  }

  std::vector<Tensor> execute(std::span<const Tensor> in) const {
    const Sizes& sizes = in[0].sizes();
    const auto depth = static_cast<std::size_t>(in[1].sizes().back());
    const std::size_t block = static_cast<std::size_t>(element_count(std::span(sizes).subspan(depth)));
    const std::size_t rows = static_cast<std::size_t>(element_count(std::span(in[1].sizes()).first(in[1].sizes().size() - 1)));
    const std::vector<std::int64_t> indices = in[1].integers();
    Combinable result(in[0]);
    const Combinable updates(in[2]);
    for (std::size_t row = 0; row < rows; ++row) {
      std::size_t at = 0;
      for (std::size_t a = 0; a < depth; ++a)
        at = at * static_cast<std::size_t>(sizes[a]) +
             static_cast<std::size_t>(checked_index(indices[row * depth + a], sizes[a]));
      for (std::size_t e = 0; e < block; ++e) result.combine(at * block + e, reduction, updates, row * block + e);
    }
    return {result.tensor(sizes)};
  }

  static void onnx(OnnxMapping& m) { m.since = 11; }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    return gradient_of_scatter(
        call, reduction,
        [&](ValueId x, ValueId updates, const std::string& by) {
          return call.graph.add(kName, {x, call.inputs[1], updates}, {{"reduction", by}});
        },
        [&](ValueId x) {
          return call.graph.add("GatherND", {x, call.inputs[1]});
        });
  }
};

// The k largest (or smallest) elements along an axis, and their positions. Among equal elements the first; NaN is the largest.
struct TopK {
  static constexpr std::string_view kName = "TopK";
  Index axis = -1, k = 1, largest = 1, sorted = 1;

  template <class V>
  void fields(V&& v) {
    v("axis", axis), v("k", k), v("largest", largest), v("sorted", sorted);
  }
  void normalize(const Inputs& in) { axis = canonical_axis(axis, in[0].rank()); }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    refuse_texts(x);
    Indices shape = x.shape();
    Index& size = shape[axis_number(axis, x.rank())];
    d.require(less_equal(0, k), [&] { return "k is " + k.to_string(); });
    d.require(less_equal(k, size), [&] { return "k is " + k.to_string() + ", the axis has size " + size.to_string(); });
    size = k;
    d.output_without_denotation(x.type(), shape);
    d.output_without_denotation(DataType::kInt64, shape);
    return d;
  }

  std::vector<Tensor> execute(std::span<const Tensor> in) const {
    Sizes sizes = in[0].sizes();
    const std::size_t along = axis_number(axis, sizes.size());
    const auto size = static_cast<std::size_t>(sizes[along]), count = static_cast<std::size_t>(k.value());
    const auto outer = static_cast<std::size_t>(element_count(std::span(sizes).first(along)));
    const auto inner = static_cast<std::size_t>(element_count(std::span(sizes).subspan(along + 1)));
    const Combinable x(in[0]);
    std::vector<std::size_t> picked(outer * count * inner);
    std::vector<std::int64_t> positions(picked.size());
    std::vector<std::size_t> order(size);
    for (std::size_t o = 0; o < outer; ++o)
      for (std::size_t n = 0; n < inner; ++n) {
        const auto at = [&](std::size_t t) { return (o * size + t) * inner + n; };
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
          return largest == Index(0) ? x.less(at(a), at(b)) : x.less(at(b), at(a));
        });
        for (std::size_t t = 0; t < count; ++t) {
          picked[(o * count + t) * inner + n] = at(order[t]);
          positions[(o * count + t) * inner + n] = static_cast<std::int64_t>(order[t]);
        }
      }
    sizes[along] = static_cast<std::int64_t>(count);
    return {x.picked(picked, sizes), Tensor::from_integers(DataType::kInt64, sizes, positions)};
  }

  static void onnx(OnnxMapping& m) {
    constexpr int kInput = 10;  // from this opset on, k is one
    m.field_inputs = {{"k", 1, kInput}};
    // ONNX has no default for k, so it is written in any case.
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const auto op = from_attributes<TopK>(attributes);
      OnnxSink::NamedAttributes named;
      if (op.axis != Index(-1)) named.emplace_back("axis", op.axis);
      if (op.largest != Index(1)) named.emplace_back("largest", op.largest);
      if (op.sorted != Index(1)) named.emplace_back("sorted", op.sorted);
      std::vector<OnnxValue> all = inputs;
      if (sink.opset() < kInput)
        named.emplace_back("k", op.k);
      else
        all.push_back(sink.index_tensor({op.k}));
      sink.node("TopK", std::move(named), std::move(all), outputs);
      return true;
    };
  }

  // Scattered to the positions of the elements.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    if (call.output_gradients[0] == kNoGradient) return call.none();
    return {b.add("ScatterElements", {b.filled(b.type_of(call.inputs[0]), 0), call.outputs[1], call.output_gradients[0]},
                  {{"axis", axis}, {"reduction", std::string("add")}})};
  }
};

template <class T>
void add_specified(std::map<std::string, Operator, std::less<>>& all) {
  const auto specify = [](const Attributes& attributes, const Inputs& in) {
    return from_attributes<T>(attributes).specify(in);
  };
  all.emplace(T::kName, registry().get(T::kName).with_definition(specify));
}

}  // namespace

const Operator& specified(const Operator& op) {
  static const auto kSpecified = [] {
    std::map<std::string, Operator, std::less<>> all;
    add_specified<ScatterElements>(all);
    add_specified<ScatterND>(all);
    return all;
  }();
  const auto known = kSpecified.find(op.name());
  return known == kSpecified.end() ? op : known->second;
}

void register_scatter(Registry& r) {
  r.add<ScatterElements>();
  r.add<ScatterND>();
  r.add<TopK>();
}

}  // namespace rewright::operators
