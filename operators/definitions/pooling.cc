// Pools: reductions over windows or over all spatial positions. Positions outside of the input do not count.
#include <limits>

#include "operators/definitions/families.h"
#include "operators/definitions/lists.h"
#include "operators/definitions/window.h"
#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

namespace {

// The fields of every pool over windows, and what they mean in ONNX.
struct Pool : Window {
  bool ceil_mode = false;

  template <class V>
  void window_fields(V&& v) {
    v("kernel", kernel), v("strides", strides), v("dilations", dilations);
    v("pads_begin", pads_begin), v("pads_end", pads_end), v("ceil_mode", ceil_mode);
  }

  void normalize(const Inputs&) {
    fill_absent(strides, rank(), 1), fill_absent(dilations, rank(), 1);
    fill_absent(pads_begin, rank(), 0), fill_absent(pads_end, rank(), 0);
  }

  Indices output_shape(Definition& d, const Operand& x) const {
    require_sound(d, x);
    Indices shape{x.size(0), x.size(1)};
    for (Index& i : counts(x, ceil_mode)) shape.push_back(std::move(i));
    return shape;
  }

  // reduce(r) of f(x[n, c, window position]), over what is inside of x.
  Element over_window(Reduction kind, const Operand& x, const Indices& i,
                      const std::function<Element(Element, const Indices&)>& f) const {
    return reduce(
        kind, "r", kernel,
        [&](const Indices& r) {
          const Indices at = position(i, i[1], r);
          return f(x(at), at);
        },
        [&](const Indices& r) { return inside(x, spatial(i, r), ceil_mode); });
  }

  bool import_window(const OnnxSource& source, std::string& reason) {
    kernel = to_indices(source.integers("kernel_shape"));
    if (kernel.empty()) throw Error(ErrorCode::kBadInput, "kernel_shape is missing");
    strides = import_list(source, "strides", rank(), 1);
    dilations = import_list(source, "dilations", rank(), 1);
    ceil_mode = source.integer("ceil_mode", 0) != 0;
    for (const Index& s : strides)
      if (s.value() < 1) throw Error(ErrorCode::kBadInput, "strides " + to_string(strides) + " are not positive");
    const Indices& shape = source.type_of(source.input(0)).shape;
    if (shape.size() != rank() + 2)
      throw Error(ErrorCode::kBadInput,
                  "kernel_shape has " + std::to_string(rank()) + " entries, input has shape " + to_string(shape));
    const auto pads = import_pads(source, Indices(shape.begin() + 2, shape.end()), *this, reason);
    if (!pads) return false;
    pads_begin = pads->begin, pads_end = pads->end;
    return true;
  }

  // Omits attributes that the opset lacks if they have no effect; returns false if they do.
  bool write_window(const OnnxSink& sink, OnnxSink::NamedAttributes& named, int dilations_since, int ceil_since) const {
    named = {{"kernel_shape", kernel}, {"pads", joined_pads(pads_begin, pads_end)}, {"strides", strides}};
    if (dilations != Indices(rank(), 1)) {
      if (sink.opset() < dilations_since) return false;
      named.emplace_back("dilations", dilations);
    }
    if (ceil_mode) {
      if (sink.opset() < ceil_since) return false;
      named.emplace_back("ceil_mode", Index(1));
    }
    return true;
  }
};

// The pads at the end for which the number of windows is that of `out`; a stride with a remainder gives fewer than the pool's.
Indices reaching_pads(const Window& window, const Indices& in, const Indices& out) {
  Indices pads;
  for (std::size_t a = 0; a < window.rank(); ++a)
    pads.push_back(window.strides[a] * (out[a + 2] - 1) + window.extent(a) - in[a + 2] - window.pads_begin[a]);
  return pads;
}

// Adds to each position of x (of sizes `in`) the elements of g for every window that contains it: the adjoint of sums over
// windows.
ValueId spread(GraphBuilder& b, ValueId g, const Indices& in, const Window& window) {
  const Indices out = b.shape_of(g);
  Indices pads_end = reaching_pads(window, in, out), rest(window.rank(), 0), alone = out, kernel{1, 1};
  for (std::size_t a = 0; a < window.rank(); ++a) rest[a] = max(-pads_end[a], 0), pads_end[a] = max(pads_end[a], 0);
  alone[0] = out[0] * out[1], alone[1] = 1;
  kernel.insert(kernel.end(), window.kernel.begin(), window.kernel.end());
  const ValueId sums = b.add("ConvTranspose", {b.reshaped(g, alone), b.filled({b.type_of(g).type, kernel}, 1)},
                             {{"strides", window.strides},
                              {"dilations", window.dilations},
                              {"pads_begin", window.pads_begin},
                              {"pads_end", pads_end},
                              {"output_padding", rest}});
  return b.reshaped(sums, in);
}

Index spatial_count(const Operand& x) {
  Index count = 1;
  for (std::size_t a = 2; a < x.rank(); ++a) count *= x.size(a);
  return count;
}

Indices reduced_shape(Definition& d, const Operand& x) {
  d.require(x.rank() >= 2, [&] { return "input has rank " + std::to_string(x.rank()) + ", at least 2 is needed"; });
  Indices shape(x.rank(), 1);
  shape[0] = x.size(0), shape[1] = x.size(1);
  return shape;
}

Element over_all(Reduction kind, const Operand& x, const Indices& i, const std::function<Element(Element)>& f) {
  return reduce(kind, "r", Indices(x.shape().begin() + 2, x.shape().end()), [&](const Indices& r) {
    Indices at{i[0], i[1]};
    at.insert(at.end(), r.begin(), r.end());
    return f(x(at));
  });
}

Element same(Element x) { return x; }

void require_real(Definition& d, const Operand& x) {
  d.require(is_real(x.type()), [&] { return "input is " + std::string(name(x.type())) + ", a real type is needed"; });
}

// y = max(r) x[n, c, p * stride + r * dilation - pad]. The second output is the flattened position in x of the first maximum,
// or of the first NaN.
struct MaxPool : Pool {
  static constexpr std::string_view kName = "MaxPool";
  bool indices = false;
  // 1: the last two axes are flattened in column-major order. 2 (not in ONNX): positions are those within an element's own
  // plane [n, c], so that they are the same in a part of a batch.
  Index storage_order = 0;

  template <class V>
  void fields(V&& v) {
    window_fields(v);
    v("indices", indices), v("storage_order", storage_order);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    const Indices shape = output_shape(d, x);
    const auto maximum_at = [x, op = *this](const Indices& i) {
      return op.over_window(Reduction::kMax, x, i, [](Element e, const Indices&) { return e; });
    };
    d.output(x.type(), shape, maximum_at);
    d.require(storage_order.value() >= 0 && storage_order.value() <= 2,
              [&] { return "storage_order is " + storage_order.to_string() + ", must be 0, 1 or 2"; });
    if (!indices) return d;
    d.output(DataType::kInt64, shape, [=, op = *this](const Indices& i) {
      const Element found = maximum_at(i);
      return op.over_window(Reduction::kMin, x, i, [&](Element e, const Indices& at) {
        Element here = apply(functions::equal, e, found);
        if (is_real(x.type())) here = apply(functions::logical_or, std::move(here), apply(functions::is_nan, e));
        return select(here, from_index(op.flattened(x, at)), integer(std::numeric_limits<std::int64_t>::max()));
      });
    });
    return d;
  }

  Index flattened(const Operand& x, const Indices& at) const {
    std::vector<std::size_t> order(x.rank());
    for (std::size_t a = 0; a < x.rank(); ++a) order[a] = a;
    if (storage_order.value() == 1) std::reverse(order.begin() + 2, order.end());
    if (storage_order.value() == 2) order.erase(order.begin(), order.begin() + 2);
    Index flat = 0;
    for (const std::size_t a : order) flat = flat * x.size(a) + at[a];
    return flat;
  }

  static void onnx(OnnxMapping& m) {
    m.import = [](OnnxSource& source, std::string& reason) -> std::optional<std::vector<OnnxValue>> {
      MaxPool op;
      if (!op.import_window(source, reason)) return std::nullopt;
      op.indices = source.output_count() > 1;
      op.storage_order = source.integer("storage_order", 0);
      if (op.storage_order == Index(2)) {
        reason = "storage_order is 2, must be 0 or 1";
        return std::nullopt;
      }
      return source.node(registry().get(kName), to_attributes(op), {source.input(0)});
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const MaxPool op = from_attributes<MaxPool>(attributes);
      OnnxSink::NamedAttributes named;
      if (!op.write_window(sink, named, 10, 10)) return false;
      if (op.storage_order == Index(1)) named.emplace_back("storage_order", op.storage_order);
      if (!(op.storage_order == Index(2)) || outputs.size() < 2) {
        sink.node("MaxPool", std::move(named), inputs, outputs);
        return true;
      }
      if (sink.opset() < 10) return false;
      const Indices& x = sink.type_of(inputs[0]).shape;
      const OnnxValue all = sink.fresh(sink.type_of(outputs[1]));
      sink.node("MaxPool", std::move(named), inputs, {outputs[0], all});
      sink.node("Mod", {}, {all, sink.index_tensor({product(Indices(x.begin() + 2, x.end()))})}, {outputs[1]});
      return true;
    };
  }

  // Scattered to the positions of the maxima.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const Indices shape = b.shape_of(call.inputs[0]);
    const ValueId g = call.output_gradients[0];
    if (g == kNoGradient) return call.none();
    MaxPool found = *this;
    found.indices = true, found.storage_order = 2;
    const ValueId where = b.node(registry().get(kName), to_attributes(found), {call.inputs[0]}).at(1);
    const auto planes = [&](const Indices& sizes) {
      return Indices{sizes[0], sizes[1], product(Indices(sizes.begin() + 2, sizes.end()))};
    };
    const Indices picked = planes(b.shape_of(g));
    const ValueId flat = b.add(
        "ScatterElements", {b.filled({b.type_of(g).type, planes(shape)}, 0), b.reshaped(where, picked), b.reshaped(g, picked)},
        {{"axis", Index(2)}, {"reduction", std::string("add")}});
    return {b.reshaped(flat, shape)};
  }
};

// The sum over a window divided by the number of counted positions: those inside of x, or inside of x with its padding.
struct AveragePool : Pool {
  static constexpr std::string_view kName = "AveragePool";
  bool count_include_pad = false;

  template <class V>
  void fields(V&& v) {
    window_fields(v);
    v("count_include_pad", count_include_pad);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_real(d, x);
    d.output(x.type(), output_shape(d, x), [x, op = *this](const Indices& i) {
      const auto counted = [&](const Indices& r) {
        const Indices at = op.spatial(i, r);
        if (!op.count_include_pad) return op.inside(x, at, op.ceil_mode);
        std::vector<Condition> conditions;
        if (op.ceil_mode)
          for (std::size_t a = 0; a < op.rank(); ++a) conditions.push_back(less(at[a], x.size(a + 2) + op.pads_end[a]));
        return conditions;
      };
      const bool all = op.count_include_pad ? !op.ceil_mode : !op.ceil_mode && !op.padded();
      const Element count = all ? from_index(product(op.kernel))
                                : reduce(
                                      Reduction::kSum, "r", op.kernel, [](const Indices&) { return integer(1); }, counted);
      return op.over_window(Reduction::kSum, x, i, [](Element e, const Indices&) { return e; }) / convert(count, Scalar::kReal);
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.import = [](OnnxSource& source, std::string& reason) -> std::optional<std::vector<OnnxValue>> {
      AveragePool op;
      if (!op.import_window(source, reason)) return std::nullopt;
      op.count_include_pad = source.integer("count_include_pad", 0) != 0;
      return source.node(registry().get(kName), to_attributes(op), {source.input(0)});
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const AveragePool op = from_attributes<AveragePool>(attributes);
      OnnxSink::NamedAttributes named;
      if (!op.write_window(sink, named, 19, 10)) return false;
      if (op.count_include_pad) named.emplace_back("count_include_pad", Index(1));
      sink.node("AveragePool", std::move(named), inputs, outputs);
      return true;
    };
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const TensorType type = b.type_of(call.inputs[0]);
    const ValueId g = call.output_gradients[0];
    return {spread(b, b.add("Div", {g, counts_of(b, type, b.shape_of(g))}), type.shape, *this)};
  }

 private:
  // The number of counted positions of each window, [1, 1, windows...].
  ValueId counts_of(GraphBuilder& b, const TensorType& type, const Indices& out) const {
    Indices ones{1, 1}, taps{1, 1}, begin = pads_begin, end = reaching_pads(*this, type.shape, out);
    for (std::size_t a = 0; a < rank(); ++a) {
      ones.push_back(type.shape[a + 2]);
      taps.push_back(kernel[a]);
      if (count_include_pad) ones.back() += pads_begin[a] + pads_end[a], begin[a] = 0, end[a] -= pads_end[a];
      end[a] = max(end[a], 0);
    }
    return b.add("Conv", {b.filled({type.type, ones}, 1), b.filled({type.type, taps}, 1)},
                 {{"strides", strides}, {"dilations", dilations}, {"pads_begin", begin}, {"pads_end", end}});
  }
};

// |x|^p, and the p-th root of a sum of such powers.
Element to_power(const Index& p, Element x) {
  if (p == Index(1)) return apply(functions::abs, std::move(x));
  if (p == Index(2)) return x * x;
  return apply(functions::pow, apply(functions::abs, std::move(x)), convert(from_index(p), Scalar::kReal));
}
Element root(const Index& p, Element sum) {
  if (p == Index(1)) return sum;
  if (p == Index(2)) return apply(functions::sqrt, std::move(sum));
  return apply(functions::pow, std::move(sum), real(1) / convert(from_index(p), Scalar::kReal));
}

struct LpPool : Pool {
  static constexpr std::string_view kName = "LpPool";
  Index p = 2;

  template <class V>
  void fields(V&& v) {
    window_fields(v);
    v("p", p);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_real(d, x);
    d.require(less_equal(1, p), [&] { return "p is " + p.to_string() + ", at least 1 is needed"; });
    d.output(x.type(), output_shape(d, x), [x, op = *this](const Indices& i) {
      return root(
          op.p, op.over_window(Reduction::kSum, x, i, [&](Element e, const Indices&) { return to_power(op.p, std::move(e)); }));
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.import = [](OnnxSource& source, std::string& reason) -> std::optional<std::vector<OnnxValue>> {
      LpPool op;
      if (!op.import_window(source, reason)) return std::nullopt;
      op.p = source.integer("p", 2);
      return source.node(registry().get(kName), to_attributes(op), {source.input(0)});
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const LpPool op = from_attributes<LpPool>(attributes);
      OnnxSink::NamedAttributes named;
      if (!op.write_window(sink, named, 18, 18)) return false;
      named.emplace_back("p", op.p);
      sink.node("LpPool", std::move(named), inputs, outputs);
      return true;
    };
  }

  // d y / d x = sign(x) |x|^(p-1) y^(1-p)
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const ValueId x = call.inputs[0], y = call.outputs[0], g = call.output_gradients[0];
    const DataType type = b.type_of(x).type;
    const auto power = [&](ValueId of, const Index& exponent) {
      return b.add("Pow", {of, b.scalar(type, static_cast<double>(exponent.value()))});
    };
    const ValueId sums = spread(b, b.add("Mul", {g, power(y, 1 - p)}), b.shape_of(x), *this);
    const ValueId inner = b.add("Mul", {b.add("Sign", {x}), power(b.add("Abs", {x}), p - 1)});
    return {b.add("Mul", {inner, sums})};
  }
};

// y[n, c] = sum(r) x[n, c, r...] / number of positions
struct GlobalAveragePool {
  static constexpr std::string_view kName = "GlobalAveragePool";
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_real(d, x);
    d.output(x.type(), reduced_shape(d, x), [=](const Indices& i) {
      return over_all(Reduction::kSum, x, i, same) / convert(from_index(spatial_count(x)), Scalar::kReal);
    });
    return d;
  }
};

// y[n, c] = max(r) x[n, c, r...]
struct GlobalMaxPool {
  static constexpr std::string_view kName = "GlobalMaxPool";
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    d.output(x.type(), reduced_shape(d, x), [=](const Indices& i) { return over_all(Reduction::kMax, x, i, same); });
    return d;
  }
};

struct GlobalLpPool {
  static constexpr std::string_view kName = "GlobalLpPool";
  Index p = 2;
  template <class V>
  void fields(V&& v) {
    v("p", p);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_real(d, x);
    d.require(less_equal(1, p), [&] { return "p is " + p.to_string() + ", at least 1 is needed"; });
    d.output(x.type(), reduced_shape(d, x), [x, p = p](const Indices& i) {
      return root(p, over_all(Reduction::kSum, x, i, [&](Element e) { return to_power(p, std::move(e)); }));
    });
    return d;
  }
};

}  // namespace

void register_pooling(Registry& r) {
  r.add<MaxPool>();
  r.add<AveragePool>();
  r.add<LpPool>();
  r.add<GlobalAveragePool>();
  r.add<GlobalMaxPool>();
  r.add<GlobalLpPool>();
}

}  // namespace rewright::operators
