// Operators that read at positions which are data.
#include <numeric>
#include "operators/definitions/families.h"
#include "operators/definitions/lists.h"
#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

namespace {

using Imported = std::optional<std::vector<OnnxValue>>;

// An element of an index tensor as a position on an axis. An empty axis has no positions; it is only indexed by empty tensors.
Index loaded(Element index, const Index& size) {
  return size == Index(0) ? Index(0) : axis_position(Index::load(std::move(index)), size);
}

// Are there certainly elements? Open sizes may be 0.
bool surely_has_elements(const Indices& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Index& size) { return size.constant().value_or(0) > 0; });
}

// y[before..., j..., after...] = x[before..., indices[j...], after...]
struct Gather {
  static constexpr std::string_view kName = "Gather";
  static constexpr InputCount kInputs{2, 2};
  Index axis = 0;

  template <class V>
  void fields(V&& v) {
    v("axis", axis);
  }
  void normalize(const Inputs& in) { axis = canonical_axis(axis, in[0].rank()); }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &indices = in[1];
    require_indices(d, indices);
    const std::size_t along = axis_number(axis, x.rank());
    Indices shape = x.shape();
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(along));
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(along), indices.shape().begin(), indices.shape().end());
    d.require(!surely_has_elements(indices.shape()) || !(x.size(along) == Index(0)),
              [&] { return "axis " + std::to_string(along) + " is empty, nothing to gather"; });
    d.output(x.type(), shape, [=](const Indices& i) {
      const auto begin = i.begin() + static_cast<std::ptrdiff_t>(along);
      const auto end = begin + static_cast<std::ptrdiff_t>(indices.rank());
      Indices at(i.begin(), begin);
      at.push_back(loaded(indices(Indices(begin, end)), x.size(along)));
      at.insert(at.end(), end, i.end());
      return x(at);
    });
    return d;
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const ValueId x = call.inputs[0], indices = call.inputs[1];
    const std::size_t along = axis_number(axis, b.shape_of(x).size()), picked = b.shape_of(indices).size();
    // The axes before the gathered one are moved to the end; then rows are scattered.
    Indices perm = axes_from(along, along + picked), back = axes_from(0, b.shape_of(x).size());
    for (std::size_t a = 0; a < along; ++a) perm.emplace_back(a);
    for (std::size_t a = along + picked; a < b.shape_of(call.outputs[0]).size(); ++a) perm.emplace_back(a);
    TensorType rotated{b.type_of(x).type, {b.shape_of(x)[along]}};
    for (std::size_t a = 0; a < back.size(); ++a)
      if (a != along) rotated.shape.push_back(b.shape_of(x)[a]);
    for (std::size_t a = 0; a < back.size(); ++a) back[a] = a < along ? Index(a + 1) : a == along ? Index(0) : Index(a);
    Indices rows = b.shape_of(indices);
    rows.emplace_back(1);
    const ValueId sums = b.add("ScatterND",
                               {b.filled(rotated, 0), b.reshaped(b.cast(indices, DataType::kInt64), rows),
                                b.transposed(call.output_gradients[0], perm)},
                               {{"reduction", std::string("add")}});
    std::vector<ValueId> result = call.none();
    result[0] = b.transposed(sums, back);
    return result;
  }
};

// y[i...] = x[i... with indices[i...] on the axis]
struct GatherElements {
  static constexpr std::string_view kName = "GatherElements";
  static constexpr InputCount kInputs{2, 2};
  Index axis = 0;

  template <class V>
  void fields(V&& v) {
    v("axis", axis);
  }
  void normalize(const Inputs& in) { axis = canonical_axis(axis, in[0].rank()); }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &indices = in[1];
    require_indices(d, indices);
    d.require_rank(indices, x.rank(), "indices");
    const std::size_t along = axis_number(axis, x.rank());
    for (std::size_t a = 0; a < x.rank(); ++a)
      if (a != along)
        d.require(less_equal(indices.size(a), x.size(a)), [&] {
          return "axis " + std::to_string(a) + " has size " + indices.size(a).to_string() + " in the indices and " +
                 x.size(a).to_string() + " in the data";
        });
    d.require(!surely_has_elements(indices.shape()) || !(x.size(along) == Index(0)),
              [&] { return "axis " + std::to_string(along) + " is empty, nothing to gather"; });
    d.output(x.type(), indices.shape(), [=](const Indices& i) {
      Indices at = i;
      at[along] = loaded(indices(i), x.size(along));
      return x(at);
    });
    return d;
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    std::vector<ValueId> result = call.none();
    result[0] = b.add("ScatterElements", {b.filled(b.type_of(call.inputs[0]), 0), call.inputs[1], call.output_gradients[0]},
                      {{"axis", axis}, {"reduction", std::string("add")}});
    return result;
  }
};

// y[b..., j..., after...] = x[b..., indices[b..., j..., 0], indices[b..., j..., 1], ..., after...]
struct GatherND {
  static constexpr std::string_view kName = "GatherND";
  static constexpr InputCount kInputs{2, 2};
  Index batch_dims = 0;

  template <class V>
  void fields(V&& v) {
    v("batch_dims", batch_dims);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &indices = in[1];
    require_indices(d, indices);
    d.require(indices.rank() >= 1, [] { return std::string("indices have rank 0"); });
    const std::int64_t batch_count = batch_dims.value(), depth_count = indices.shape().back().value();
    d.require(batch_count >= 0 && depth_count >= 0 && batch_count < static_cast<std::int64_t>(indices.rank()) &&
                  batch_count + depth_count <= static_cast<std::int64_t>(x.rank()),
              [&] {
                return "indices of shape " + to_string(indices.shape()) + " with " + batch_dims.to_string() +
                       " batch axes into data of rank " + std::to_string(x.rank());
              });
    const auto batch = static_cast<std::size_t>(batch_count), depth = static_cast<std::size_t>(depth_count);
    for (std::size_t a = 0; a < batch; ++a)
      d.require(equal(x.size(a), indices.size(a)), [&] {
        return "batch axis " + std::to_string(a) + " has size " + x.size(a).to_string() + " in the data and " +
               indices.size(a).to_string() + " in the indices";
      });
    for (std::size_t k = 0; k < depth; ++k)
      d.require(!surely_has_elements(indices.shape()) || !(x.size(batch + k) == Index(0)),
                [&] { return "axis " + std::to_string(batch + k) + " is empty, nothing to gather"; });
    Indices shape(indices.shape().begin(), indices.shape().end() - 1);
    shape.insert(shape.end(), x.shape().begin() + batch_count + depth_count, x.shape().end());
    d.output(x.type(), shape, [=](const Indices& i) {
      const auto rows_end = i.begin() + static_cast<std::ptrdiff_t>(indices.rank() - 1);
      Indices at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(batch)), row(i.begin(), rows_end);
      row.emplace_back(0);
      for (std::size_t k = 0; k < depth; ++k) {
        row.back() = k;
        at.push_back(loaded(indices(row), x.size(batch + k)));
      }
      at.insert(at.end(), rows_end, i.end());
      return x(at);
    });
    return d;
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    std::vector<ValueId> result = call.none();
    ValueId rows = b.cast(call.inputs[1], DataType::kInt64);
    const auto batch = static_cast<std::size_t>(batch_dims.value());
    Indices place = b.shape_of(rows);
    place.back() = 1;
    for (std::size_t a = batch; a-- > 0;) {  // puts the batch indices in front of each row
      Indices along(place.size(), 1);
      along[a] = place[a];
      std::vector<std::int64_t> numbers(static_cast<std::size_t>(place[a].value()));
      std::iota(numbers.begin(), numbers.end(), 0);
      const ValueId number =
          b.reshaped(b.constant(Tensor::from_integers(DataType::kInt64, {place[a].value()}, numbers)), along);
      rows = b.add("Concat", {b.add("Expand", {number}, {{"shape", place}}), rows}, {{"axis", Index(place.size() - 1)}});
    }
    result[0] = b.add("ScatterND", {b.filled(b.type_of(call.inputs[0]), 0), rows, call.output_gradients[0]},
                      {{"reduction", std::string("add")}});
    return result;
  }
};

// y = on at the index's position, else off: values = [off, on].
struct OneHot {
  static constexpr std::string_view kName = "OneHot";
  static constexpr InputCount kInputs{2, 2};
  Index axis = -1, depth = 1;

  template <class V>
  void fields(V&& v) {
    v("axis", axis), v("depth", depth);
  }
  void normalize(const Inputs& in) { axis = canonical_axis(axis, in[0].rank() + 1); }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &indices = in[0], &values = in[1];
    d.require_rank(values, 1, "values");
    d.require(equal(values.size(0), 2), [&] { return "values has " + values.size(0).to_string() + " elements, not 2"; });
    d.require(less_equal(1, depth), [&] { return "depth " + depth.to_string() + " is not positive"; });
    const std::size_t along = axis_number(axis, indices.rank() + 1);
    Indices shape = indices.shape();
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(along), depth);
    d.output(values.type(), shape, [=, depth = depth](const Indices& i) {
      Indices at = i;
      at.erase(at.begin() + static_cast<std::ptrdiff_t>(along));
      const Index hot = Index::load(convert(indices(at), Scalar::kInteger));
      const Element on = values({1}), off = values({0});
      return choose({equal(hot, i[along])}, on, choose({equal(hot + depth, i[along])}, on, off));
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.since = 9;
    m.import = [](OnnxSource& source, std::string& reason) -> Imported {
      OneHot op;
      op.axis = source.integer("axis", -1);
      if (const auto contents = source.contents(source.input(1)); contents && contents->size() == 1) {
        op.depth = contents->front();
      } else if (const auto known = source.constant_value(source.input(1)); known && known->size() == 1) {
        op.depth = known->integers()[0];
      } else {
        reason = "its depth is not known";
        return std::nullopt;
      }
      return source.node(registry().get(kName), to_attributes(op), {source.input(0), source.input(2)});
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const OneHot op = from_attributes<OneHot>(attributes);
      const OnnxValue depth = sink.index_tensor({op.depth});
      sink.node("OneHot", {{"axis", op.axis}}, {inputs[0], depth, inputs[1]}, outputs);
      return sink.opset() >= 9;
    };
  }
};

}  // namespace

void register_indexing(Registry& r) {
  r.add<Gather>();
  r.add<GatherElements>();
  r.add<GatherND>();
  r.add<OneHot>();
}

}  // namespace rewright::operators
