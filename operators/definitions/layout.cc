// Operators that move elements or convert their type, and compute nothing.
#include "expressions/small_float.h"
#include "operators/definitions/elementwise.h"
#include "operators/definitions/families.h"
#include "operators/definitions/lists.h"
#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

namespace {

using Imported = std::optional<std::vector<OnnxValue>>;

bool is_float8(DataType type) { return is_small_float(type) && type != DataType::kFloat8e8m0 && type != DataType::kFloat4e2m1; }

// The position in a tensor of sizes `from` that has the same row-major number as `position` in sizes `to`. Axes are cut into
// the shortest runs that have the same number of elements on both sides, so that an unchanged axis keeps its position.
Indices reshaped_position(const Indices& from, const Indices& to, const Indices& position) {
  for (const Index& size : from)
    if (size == Index(0)) return Indices(from.size(), 0);  // the tensor is empty
  Indices result;
  std::size_t f = 0, t = 0;
  while (f < from.size() || t < to.size()) {
    const std::size_t rest_f = from.size() - f, rest_t = to.size() - t;
    std::size_t run_f = rest_f, run_t = rest_t;
    bool found = false;
    for (std::size_t total = 1; total < rest_f + rest_t && !found; ++total)
      for (std::size_t a = total > rest_t ? total - rest_t : 0; a <= std::min(total, rest_f) && !found; ++a)
        if (product({from.data() + f, a}) == product({to.data() + t, total - a})) {
          run_f = a, run_t = total - a;
          found = true;
        }
    if (run_f == 1 && run_t == 1) {
      result.push_back(position[t]);
    } else {
      Index flat = 0;
      for (std::size_t b = 0; b < run_t; ++b) flat = flat * to[t + b] + position[t + b];
      for (std::size_t a = 0; a < run_f; ++a) {
        const Index quotient = floor_div(flat, product({from.data() + f + a + 1, run_f - a - 1}));
        result.push_back(a == 0 ? quotient : mod(quotient, from[f + a]));
      }
    }
    f += run_f, t += run_t;
  }
  return result;
}

Definition reshaped(const Inputs& in, const Indices& shape) {
  Definition d(in);
  const Operand& x = in[0];
  for (const Index& size : shape)
    d.require(less_equal(0, size), [&] { return "shape " + to_string(shape) + " has a negative size"; });
  d.require(equal(product(x.shape()), product(shape)), [&] {
    return "shape " + to_string(x.shape()) + " has " + product(x.shape()).to_string() + " elements, shape " + to_string(shape) +
           " has " + product(shape).to_string();
  });
  d.output(x.type(), shape, [=](const Indices& i) { return x(reshaped_position(x.shape(), shape, i)); });
  return d;
}

Definition copied(const Inputs& in, DataType type) {
  Definition d(in);
  const Operand& x = in[0];
  d.output(type, x.shape(), [=](const Indices& i) { return converted(x(i), x.type(), type); });
  return d;
}

struct Transpose {
  static constexpr std::string_view kName = "Transpose";
  Indices perm;

  template <class V>
  void fields(V&& v) {
    v("perm", perm);
  }
  void normalize(const Inputs& in) {
    if (perm.empty())
      for (std::size_t a = in[0].rank(); a-- > 0;) perm.push_back(a);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_length(d, perm, x.rank(), "perm");
    canonical_axes(perm, x.rank());
    Indices shape;
    for (const Index& p : perm) shape.push_back(x.size(axis_number(p, x.rank())));
    d.output(x.type(), shape, [=, perm = perm](const Indices& i) {
      Indices at(x.rank());
      for (std::size_t a = 0; a < x.rank(); ++a) at[axis_number(perm[a], x.rank())] = i[a];
      return x(at);
    });
    return d;
  }
};

// The elements in row-major order, in other sizes. `shape` is the result's, without ONNX's 0 and -1.
struct Reshape {
  static constexpr std::string_view kName = "Reshape";
  Indices shape;

  template <class V>
  void fields(V&& v) {
    v("shape", shape);
  }
  Definition define(const Inputs& in) const { return reshaped(in, shape); }

  // The sizes that ONNX's request means for an input of sizes `from`.
  static Indices resolved(const Indices& from, const Indices& request, bool allow_zero) {
    Indices shape = request;
    std::optional<std::size_t> inferred;
    for (std::size_t a = 0; a < shape.size(); ++a) {
      if (shape[a] == Index(0) && !allow_zero) {
        if (a >= from.size())
          throw Error(ErrorCode::kBadInput, "shape " + to_string(request) + " keeps axis " + std::to_string(a) +
                                                " of an input of shape " + to_string(from));
        shape[a] = from[a];
      } else if (shape[a] == Index(-1)) {
        if (inferred) throw Error(ErrorCode::kBadInput, "shape " + to_string(request) + " has more than one -1");
        inferred = a;
      } else if (shape[a].is_constant() && shape[a].value() < 0) {
        throw Error(ErrorCode::kBadInput, "shape " + to_string(request) + " has a negative size");
      }
    }
    if (!inferred) return shape;
    // Sizes that occur on both sides cancel, whatever their values.
    Indices left = from, divisors = shape;
    divisors.erase(divisors.begin() + static_cast<std::ptrdiff_t>(*inferred));
    std::erase_if(divisors, [&](const Index& size) {
      if (size == Index(0)) return false;
      const auto at = std::find(left.begin(), left.end(), size);
      if (at == left.end()) return false;
      left.erase(at);
      return true;
    });
    const Index divisor = product(divisors);
    shape[*inferred] = divisor == Index(0) ? Index(0) : floor_div(product(left), divisor);
    return shape;
  }

  // A request that ONNX resolves to `shape`, with as few computed sizes as possible.
  static Indices request(const Indices& from, const Indices& shape) {
    Indices result = shape;
    if (std::find(shape.begin(), shape.end(), Index(0)) != shape.end()) return result;
    bool inferred = false;
    for (std::size_t a = 0; a < result.size(); ++a) {
      if (result[a].is_constant()) continue;
      if (a < from.size() && from[a] == result[a]) {
        result[a] = 0;
      } else if (!inferred) {
        result[a] = -1;
        inferred = true;
      }
    }
    return result;
  }

  static void onnx(OnnxMapping& m) {
    m.since = 5;
    m.import = [](OnnxSource& source, std::string& reason) -> Imported {
      const auto wanted = source.contents(source.input(1));
      if (!wanted) {
        reason = "the shape that it makes is not known";
        return std::nullopt;
      }
      Reshape op;
      op.shape = resolved(source.type_of(source.input(0)).shape, *wanted, source.integer("allowzero", 0) != 0);
      return source.node(registry().get(kName), to_attributes(op), {source.input(0)});
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const Indices& from = sink.type_of(inputs[0]).shape;
      const Reshape op = from_attributes<Reshape>(attributes);
      OnnxSink::NamedAttributes named;
      if (std::find(op.shape.begin(), op.shape.end(), Index(0)) != op.shape.end()) {
        if (sink.opset() < 14) return false;
        named.emplace_back("allowzero", Index(1));
      }
      const OnnxValue shape = sink.index_tensor(request(from, op.shape));
      sink.node("Reshape", std::move(named), {inputs[0], shape}, outputs);
      return true;
    };
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    return {call.graph.reshaped(call.output_gradients[0], call.graph.shape_of(call.inputs[0]))};
  }
};

// [product of the sizes before `axis`, product of the others]
struct Flatten {
  static constexpr std::string_view kName = "Flatten";
  Index axis = 1;

  template <class V>
  void fields(V&& v) {
    v("axis", axis);
  }
  void normalize(const Inputs& in) { axis = split(in[0].rank()); }

  std::size_t split(std::size_t rank) const { return axis == Index(rank) ? rank : axis_number(axis, rank); }
  Definition define(const Inputs& in) const {
    const Indices& from = in[0].shape();
    const std::size_t at = split(from.size());
    return reshaped(in, {product({from.data(), at}), product({from.data() + at, from.size() - at})});
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    return {call.graph.reshaped(call.output_gradients[0], call.graph.shape_of(call.inputs[0]))};
  }
};

struct Squeeze {
  static constexpr std::string_view kName = "Squeeze";
  Indices axes;  // none given: all of size 1

  template <class V>
  void fields(V&& v) {
    v("axes", axes);
  }
  void normalize(const Inputs& in) {
    if (axes.empty())
      for (std::size_t a = 0; a < in[0].rank(); ++a)
        if (in[0].size(a) == Index(1)) axes.push_back(a);
    axes = canonical_axes(axes, in[0].rank());
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    const Indices dropped = canonical_axes(axes, x.rank());
    const auto is_dropped = [=](std::size_t a) { return std::find(dropped.begin(), dropped.end(), Index(a)) != dropped.end(); };
    Indices shape;
    for (std::size_t a = 0; a < x.rank(); ++a) {
      if (is_dropped(a))
        d.require(equal(x.size(a), 1),
                  [&] { return "axis " + std::to_string(a) + " has size " + x.size(a).to_string() + ", not 1"; });
      else
        shape.push_back(x.size(a));
    }
    d.output(x.type(), shape, [=](const Indices& i) {
      Indices at;
      std::size_t next = 0;
      for (std::size_t a = 0; a < x.rank(); ++a) at.push_back(is_dropped(a) ? Index(0) : i[next++]);
      return x(at);
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.field_inputs = {{"axes", 1, 13}};
    m.import = [](OnnxSource& source, std::string& reason) -> Imported {
      const bool given = source.opset() < 13 ? source.has("axes") : source.input_count() > 1 && source.input(1) != kAbsent;
      const Indices& shape = source.type_of(source.input(0)).shape;
      if (!given && !all_constant(shape)) {
        reason = "no axes are given, and which sizes of " + to_string(shape) + " are 1 is not known";
        return std::nullopt;
      }
      return import_default(registry().get(kName), source, reason);
    };
  }
};

struct Unsqueeze {
  static constexpr std::string_view kName = "Unsqueeze";
  Indices axes;

  template <class V>
  void fields(V&& v) {
    v("axes", axes);
  }
  void normalize(const Inputs& in) { axes = canonical_axes(axes, in[0].rank() + axes.size()); }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    const std::size_t rank = x.rank() + axes.size();
    const Indices added = canonical_axes(axes, rank);
    const auto is_added = [=](std::size_t a) { return std::find(added.begin(), added.end(), Index(a)) != added.end(); };
    Indices shape;
    std::size_t next = 0;
    for (std::size_t a = 0; a < rank; ++a) shape.push_back(is_added(a) ? Index(1) : x.size(next++));
    d.output(x.type(), shape, [=](const Indices& i) {
      Indices at;
      for (std::size_t a = 0; a < rank; ++a)
        if (!is_added(a)) at.push_back(i[a]);
      return x(at);
    });
    return d;
  }

  static void onnx(OnnxMapping& m) { m.field_inputs = {{"axes", 1, 13}}; }
};

// Broadcasting to a shape: axes are added in front, sizes of 1 are repeated.
struct Expand {
  static constexpr std::string_view kName = "Expand";
  Indices shape;  // the result's, once normalized

  template <class V>
  void fields(V&& v) {
    v("shape", shape);
  }
  // If a size has two names, the requested one is used: the operand's may turn out to be 1.
  void normalize(const Inputs& in) {
    Definition scratch(in);
    shape = broadcast_shapes(scratch, {shape, in[0].shape()});
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    d.output(x.type(), broadcast_shapes(d, {shape, x.shape()}), [=](const Indices& i) { return x.broadcast(i); });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.since = 8;
    m.field_inputs = {{"shape", 1, 1}};
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      if (sink.opset() < 8) return false;
      Indices shape = from_attributes<Expand>(attributes).shape;
      const Indices& from = sink.type_of(inputs[0]).shape;
      for (std::size_t a = 0; a < from.size(); ++a) {  // a size of 1 keeps the operand's: no size has to be computed
        Index& size = shape[shape.size() - from.size() + a];
        if (size == from[a]) size = 1;
      }
      const OnnxValue request = sink.index_tensor(shape);
      sink.node("Expand", {}, {inputs[0], request}, outputs);
      return true;
    };
  }
};

struct Identity {
  static constexpr std::string_view kName = "Identity";
  Definition define(const Inputs& in) const { return copied(in, in[0].type()); }
};

// Dropout outside of training, with its second output: the mask, which keeps everything. Without the mask it is imported as
// Identity.
struct Dropout {
  static constexpr std::string_view kName = "Dropout";
  Definition define(const Inputs& in) const {
    Definition d = copied(in, in[0].type());
    d.output(DataType::kBool, in[0].shape(), [](const Indices&) { return boolean(true); });
    return d;
  }

  static bool drops_nothing(const OnnxSource& source, std::string& reason) {
    const auto given = [&](std::size_t k) { return k < source.input_count() && source.input(k) != kAbsent; };
    if (!given(2)) return true;
    const auto training = source.constant_value(source.input(2));
    const auto ratio = given(1) ? source.constant_value(source.input(1)) : std::nullopt;
    if (training && training->reals().at(0) == 0) return true;
    if (ratio && ratio->reals().at(0) == 0) return true;
    reason = training ? "it is in training mode" : "whether it is in training mode is not known";
    return false;
  }

  static void onnx(OnnxMapping& m) {
    m.import = [](OnnxSource& source, std::string& reason) -> Imported {
      if (!drops_nothing(source, reason)) return std::nullopt;
      const bool masked = source.output_count() > 1;
      if (masked && source.opset() < 10) {
        reason = "its mask is used";
        return std::nullopt;
      }
      return source.node(registry().get(masked ? kName : Identity::kName), {}, {source.input(0)});
    };
    m.write = [](OnnxSink& sink, const Attributes&, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      sink.node("Dropout", {}, inputs, outputs);
      return sink.opset() >= 10;
    };
  }
};

// y = x in another type; reals become integers towards zero, and true where they are not 0.
struct Cast {
  static constexpr std::string_view kName = "Cast";
  DataType to = DataType::kUndefined;
  bool saturate = true;  // float8: beyond the largest value comes the largest, not NaN or an infinity

  template <class V>
  void fields(V&& v) {
    v("to", to), v("saturate", saturate);
  }
  void normalize(const Inputs&) { saturate = saturate || !is_float8(to); }

  Definition define(const Inputs& in) const {
    if (!is_float8(to) || !saturate) return copied(in, to);
    Definition d(in);
    const double largest = largest_small_float(to);
    d.output(to, in[0].shape(), [=, x = in[0]](const Indices& i) {
      return minimum(maximum(convert(x(i), Scalar::kReal), real(-largest)), real(largest));
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.also = {"CastLike"};
    m.import = [](OnnxSource& source, std::string& reason) -> Imported {
      Cast op;
      op.to =
          source.type() == "CastLike" ? source.type_of(source.input(1)).type : static_cast<DataType>(source.integer("to", 0));
      op.saturate = source.integer("saturate", 1) != 0;
      if (op.to == DataType::kFloat8e8m0 && source.text("round_mode", "up") != "up") {
        reason = "rounding " + source.text("round_mode", "up") + " to float8e8m0";
        return std::nullopt;
      }
      const DataType from = source.type_of(source.input(0)).type;
      for (const DataType type : {from, op.to})
        if (!is_real(type) && !is_integer(type) && type != DataType::kBool && from != op.to) {
          reason = "elements of type " + std::string(name(type)) + " have no meaning here";
          return std::nullopt;
        }
      return source.node(registry().get(kName), to_attributes(op), {source.input(0)});
    };
  }
};

}  // namespace

void register_layout(Registry& r) {
  r.add<Transpose>();
  r.add<Reshape>();
  r.add<Flatten>();
  r.add<Squeeze>();
  r.add<Unsqueeze>();
  r.add<Expand>();
  r.add<Identity>();
  r.add<Dropout>();
  r.add<Cast>();
}

}  // namespace rewright::operators
