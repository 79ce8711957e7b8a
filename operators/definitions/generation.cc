// Operators that make tensors out of attributes.
#include <cmath>

#include "expressions/exact_number.h"
#include "expressions/index_bounds.h"
#include "operators/definitions/families.h"
#include "operators/definitions/lists.h"
#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

namespace {

using Imported = std::optional<std::vector<OnnxValue>>;

// A tensor of rank 0 with this element.
OnnxValue scalar_tensor(OnnxSink& sink, DataType type, const Index& element) {
  if (element.is_constant()) return sink.constant(Tensor::from_integers(type, {}, std::vector{element.value()}));
  OnnxValue value = sink.index_tensor({element});
  const OnnxValue no_axes = sink.constant(Tensor(DataType::kInt64, {0})), flat = sink.fresh({DataType::kInt64, {}});
  sink.node("Reshape", {}, {value, no_axes}, {flat});
  if (type == DataType::kInt64) return flat;
  const OnnxValue cast = sink.fresh({type, {}});
  sink.node("Cast", {{"to", type}}, {flat}, {cast});
  return cast;
}

void require_sizes(Definition& d, const Indices& shape) {
  for (const Index& size : shape)
    d.require(less_equal(0, size), [&] { return "shape " + to_string(shape) + " has a negative size"; });
}

// A tensor whose elements are all equal.
struct Fill {
  static constexpr std::string_view kName = "Fill";
  static constexpr bool kFill = true;
  static constexpr InputCount kInputs{0, 0};
  Real value = 0;
  DataType type = DataType::kFloat;
  Indices shape;

  template <class V>
  void fields(V&& v) {
    v("value", value), v("type", type), v("shape", shape);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    require_sizes(d, shape);
    d.output(type, shape, [=, *this](const Indices&) { return constant(scalar(type), value); });
    return d;
  }

  // ONNX's Constant has no operator here: it becomes a constant.
  static Imported import_constant(OnnxSource& source, std::string& reason) {
    for (const char* attribute : {"value", "sparse_value"})
      if (auto tensor = source.tensor(attribute)) return std::vector{source.constant(std::move(*tensor))};
    const auto of = [&](DataType type, Sizes sizes, const auto& values) {
      if constexpr (std::is_same_v<std::decay_t<decltype(values)>, std::vector<double>>)
        return std::vector{source.constant(Tensor::from_reals(type, std::move(sizes), values))};
      else
        return std::vector{source.constant(Tensor::from_integers(type, std::move(sizes), values))};
    };
    if (source.has("value_float")) return of(DataType::kFloat, {}, std::vector{source.real("value_float", 0)});
    if (source.has("value_int")) return of(DataType::kInt64, {}, std::vector{source.integer("value_int", 0)});
    if (source.has("value_floats")) {
      const std::vector<double> values = source.reals("value_floats");
      return of(DataType::kFloat, {static_cast<std::int64_t>(values.size())}, values);
    }
    if (source.has("value_ints")) {
      const std::vector<std::int64_t> values = source.integers("value_ints");
      return of(DataType::kInt64, {static_cast<std::int64_t>(values.size())}, values);
    }
    if (source.has("value_string"))
      return std::vector{source.constant(Tensor::from_strings({}, {source.text("value_string", "")}))};
    if (source.has("value_strings")) {
      const std::vector<std::string> texts = source.texts("value_strings");
      return std::vector{source.constant(Tensor::from_strings({static_cast<std::int64_t>(texts.size())}, texts))};
    }
    reason = "it is of a type that is not known here";
    return std::nullopt;
  }

  // A repeated integer that no double can hold: the constant itself, expanded.
  static Imported expanded(OnnxSource& source, const Tensor& value, const Indices& shape) {
    const OnnxValue one = source.constant(value.reshaped({}));
    return source.node(registry().get("Expand"), {shape}, {one});
  }

  static Imported import_constant_of_shape(OnnxSource& source, std::string& reason) {
    const auto shape = source.contents(source.input(0));
    if (!shape) {
      reason = "the shape that it makes is not known";
      return std::nullopt;
    }
    Fill op;
    op.shape = *shape;
    if (const auto value = source.tensor("value")) {
      if (value->size() != 1) throw Error(ErrorCode::kBadInput, "value has " + std::to_string(value->size()) + " elements");
      if (!fits_real(*value)) return expanded(source, *value, op.shape);
      op.type = value->type();
      op.value = value->reals()[0];
    }
    return source.node(registry().get(kName), to_attributes(op), {});
  }

  static void onnx(OnnxMapping& m) {
    m.type = "ConstantOfShape";
    m.since = 9;
    m.also = {"Constant"};
    m.import = [](OnnxSource& source, std::string& reason) {
      return source.type() == "Constant" ? import_constant(source, reason) : import_constant_of_shape(source, reason);
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>&,
                 const std::vector<OnnxValue>& outputs) {
      const Fill op = from_attributes<Fill>(attributes);
      if (sink.opset() < 9) return false;
      const OnnxValue shape = sink.index_tensor(op.shape);
      const Tensor value = Tensor::from_reals(op.type, {1}, std::vector{op.value.value});
      sink.node("ConstantOfShape", {{"value", value}}, {shape}, outputs);
      return true;
    };
  }
};

// The identity matrix.
struct Eye {
  static constexpr std::string_view kName = "Eye";
  static constexpr InputCount kInputs{0, 0};
  Index size = 1;
  DataType type = DataType::kFloat;

  template <class V>
  void fields(V&& v) {
    v("size", size), v("type", type);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    require_sizes(d, {size});
    d.output(type, {size, size}, [type = scalar(type)](const Indices& i) {
      return choose({equal(i[0], i[1])}, constant(type, 1), constant(type, 0));
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.type = {};
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>&,
                 const std::vector<OnnxValue>& outputs) {
      const Eye op = from_attributes<Eye>(attributes);
      if (sink.opset() < 9) return false;
      const OnnxValue shape = sink.index_tensor({op.size, op.size});
      const OnnxValue zeros = sink.fresh({op.type, {op.size, op.size}});
      const Tensor value = Tensor::from_reals(op.type, {1}, std::vector{0.0});
      sink.node("ConstantOfShape", {{"value", value}}, {shape}, {zeros});
      sink.node("EyeLike", {}, {zeros}, outputs);
      return true;
    };
  }
};

// A matrix of x's sizes that is 1 on its k-th diagonal.
struct EyeLike {
  static constexpr std::string_view kName = "EyeLike";
  Index k = 0;
  DataType dtype = DataType::kUndefined;  // kUndefined: the type of x

  template <class V>
  void fields(V&& v) {
    v("k", k), v("dtype", dtype);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    d.require_rank(in[0], 2, "input");
    const DataType type = dtype == DataType::kUndefined ? in[0].type() : dtype;
    d.output(type, in[0].shape(), [type = scalar(type), k = k](const Indices& i) {
      return choose({equal(i[0] + k, i[1])}, constant(type, 1), constant(type, 0));
    });
    return d;
  }
  static void onnx(OnnxMapping& m) { m.since = 9; }
};

// x on and above (or below) its k-th diagonal, else 0.
struct Trilu {
  static constexpr std::string_view kName = "Trilu";
  Index k = 0;
  bool upper = true;

  template <class V>
  void fields(V&& v) {
    v("k", k), v("upper", upper);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    d.require(x.rank() >= 2, [&] { return "input has rank " + std::to_string(x.rank()) + ", at least 2 is needed"; });
    d.output(x.type(), x.shape(), [=, *this](const Indices& i) {
      const Index row = i[x.rank() - 2] + k, column = i[x.rank() - 1];
      return choose({upper ? less_equal(row, column) : less_equal(column, row)}, x(i), constant(x.scalar(), 0));
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.since = 14;
    m.field_inputs = {{"k", 1, 14}};
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const Trilu op = from_attributes<Trilu>(attributes);
      if (sink.opset() < 14) return false;
      const OnnxValue k = scalar_tensor(sink, DataType::kInt64, op.k);
      sink.node("Trilu", {{"upper", Index(op.upper)}}, {inputs[0], k}, outputs);
      return true;
    };
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    return call.graph.node(registry().get(kName), to_attributes(*this), {call.output_gradients[0]});
  }
};

// The kernel of the convolution that changes nothing: w[k, c, r...] = 1 if channel c of k's group is k and r is the centre.
struct DiracKernel {
  static constexpr std::string_view kName = "DiracKernel";
  static constexpr InputCount kInputs{0, 0};
  Index channels = 1, group = 1;
  Indices kernel, centre;
  DataType type = DataType::kFloat;

  template <class V>
  void fields(V&& v) {
    v("channels", channels), v("group", group), v("kernel", kernel), v("centre", centre), v("type", type);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    d.require(less_equal(1, group), [&] { return "group " + group.to_string() + " is not positive"; });
    const bool grouped = !(group == Index(1));
    const Index depth = grouped ? floor_div(channels, group) : channels;
    if (grouped)
      d.require(equal(depth * group, channels),
                [&] { return channels.to_string() + " channels are not a multiple of group " + group.to_string(); });
    require_length(d, centre, kernel.size(), "centre");
    Indices shape{channels, depth};
    shape.insert(shape.end(), kernel.begin(), kernel.end());
    require_sizes(d, shape);
    for (std::size_t a = 0; a < kernel.size(); ++a) {
      const auto outside = [&] {
        return "centre " + centre[a].to_string() + " is outside of kernel size " + kernel[a].to_string();
      };
      d.require(less_equal(0, centre[a]), outside);
      d.require(less(centre[a], kernel[a]), outside);
    }
    d.output(type, shape, [=, *this](const Indices& i) {
      std::vector<Condition> here{equal(grouped ? mod(i[0], depth) : i[0], i[1])};
      for (std::size_t a = 0; a < kernel.size(); ++a) here.push_back(equal(i[a + 2], centre[a]));
      return choose(std::move(here), constant(scalar(type), 1), constant(scalar(type), 0));
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.type = {};
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>&,
                 const std::vector<OnnxValue>& outputs) {
      const DiracKernel op = from_attributes<DiracKernel>(attributes);
      Indices shape{op.channels, floor_div(op.channels, op.group)};
      shape.insert(shape.end(), op.kernel.begin(), op.kernel.end());
      if (!all_constant(shape) || !all_constant(op.centre)) return false;
      const Sizes sizes = values(shape);
      std::vector<double> elements(static_cast<std::size_t>(element_count(sizes)), 0);
      for (std::int64_t k = 0; k < sizes[0]; ++k) {
        std::int64_t at = k * sizes[1] + k % sizes[1];
        for (std::size_t a = 0; a < op.kernel.size(); ++a) at = at * sizes[a + 2] + op.centre[a].value();
        elements[static_cast<std::size_t>(at)] = 1;
      }
      sink.node("Constant", {{"value", Tensor::from_reals(op.type, sizes, elements)}}, {}, outputs);
      return true;
    };
  }
};

// y[i] = start + i * delta, integers.
struct Range {
  static constexpr std::string_view kName = "Range";
  static constexpr InputCount kInputs{0, 0};
  Index start = 0, delta = 1, count = 0;
  DataType type = DataType::kInt64;

  template <class V>
  void fields(V&& v) {
    v("start", start), v("delta", delta), v("count", count), v("type", type);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    require_sizes(d, {count});
    d.require(is_integer(type), [&] { return "type is " + std::string(name(type)) + ", integers are needed"; });
    d.output(type, {count}, [=, *this](const Indices& i) { return from_index(start + i[0] * delta); });
    return d;
  }

  static Imported import_integers(OnnxSource& source, std::string& reason) {
    Index given[3];
    for (std::size_t k = 0; k < 3; ++k) {
      const auto contents = source.contents(source.input(k));
      if (!contents || contents->size() != 1 || (k == 2 && !contents->front().is_constant())) {
        reason = "its start, limit or delta is not known";
        return std::nullopt;
      }
      given[k] = contents->front();
    }
    Range op;
    op.start = given[0], op.delta = given[2];
    op.type = source.type_of(source.input(0)).type;
    const std::int64_t delta = op.delta.value();
    if (delta == 0) throw Error(ErrorCode::kBadInput, "delta is 0");
    const Index distance = delta > 0 ? given[1] - given[0] : given[0] - given[1];
    op.count = ceil_div(distance, delta > 0 ? op.delta : -op.delta);
    // The count of a range from 0 to a size is never negative.
    if (op.count.is_constant() || !(given[delta > 0 ? 0 : 1] == Index(0))) op.count = max_over_sizes(op.count, 0);
    return source.node(registry().get(kName), to_attributes(op), {});
  }
  static Imported import_reals(OnnxSource& source, std::string& reason);

  static void onnx(OnnxMapping& m) {
    m.since = 11;
    m.import = [](OnnxSource& source, std::string& reason) {
      return is_integer(source.type_of(source.input(0)).type) ? import_integers(source, reason) : import_reals(source, reason);
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>&,
                 const std::vector<OnnxValue>& outputs) {
      const Range op = from_attributes<Range>(attributes);
      if (sink.opset() < 11) return false;
      const OnnxValue start = scalar_tensor(sink, op.type, op.start);
      const OnnxValue limit = scalar_tensor(sink, op.type, op.start + op.count * op.delta);
      const OnnxValue delta = scalar_tensor(sink, op.type, op.delta);
      sink.node("Range", {}, {start, limit, delta}, outputs);
      return true;
    };
  }
};

// y[i] = start + i * delta, reals.
struct RealRange {
  static constexpr std::string_view kName = "RealRange";
  static constexpr InputCount kInputs{0, 0};
  Real start = 0, delta = 1;
  Index count = 0;
  DataType type = DataType::kFloat;

  template <class V>
  void fields(V&& v) {
    v("start", start), v("delta", delta), v("count", count), v("type", type);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    require_sizes(d, {count});
    d.require(is_real(type), [&] { return "type is " + std::string(name(type)) + ", a real type is needed"; });
    d.output(type, {count},
             [=, *this](const Indices& i) { return real(start) + convert(from_index(i[0]), Scalar::kReal) * real(delta); });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.type = {};
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>&,
                 const std::vector<OnnxValue>& outputs) {
      const RealRange op = from_attributes<RealRange>(attributes);
      if (sink.opset() < 11 || !op.count.is_constant()) return false;
      // The limit is half a step before the next element, so that rounding cannot change the count.
      const double limit = op.start.value + (static_cast<double>(op.count.value()) - 0.5) * op.delta.value;
      std::vector<OnnxValue> inputs;
      for (const double value : {op.start.value, limit, op.delta.value})
        inputs.push_back(sink.constant(Tensor::scalar(op.type, value)));
      sink.node("Range", {}, std::move(inputs), outputs);
      return true;
    };
  }
};

Imported Range::import_reals(OnnxSource& source, std::string& reason) {
  double given[3];
  for (std::size_t k = 0; k < 3; ++k) {
    const auto known = source.constant_value(source.input(k));
    if (!known || known->size() != 1) {
      reason = "its start, limit or delta is not known";
      return std::nullopt;
    }
    given[k] = known->reals()[0];
  }
  const double count = std::ceil((given[1] - given[0]) / given[2]);
  if (!(std::abs(count) < 0x1p53)) throw Error(ErrorCode::kBadInput, "start, limit and delta give no number of elements");
  RealRange op;
  op.start = given[0], op.delta = given[2];
  op.count = static_cast<std::int64_t>(std::max(count, 0.0));
  op.type = source.type_of(source.input(0)).type;
  return source.node(registry().get(RealRange::kName), to_attributes(op), {});
}

}  // namespace

void register_generation(Registry& r) {
  r.add<Fill>();
  r.add<Eye>();
  r.add<EyeLike>();
  r.add<Trilu>();
  r.add<DiracKernel>();
  r.add<Range>();
  r.add<RealRange>();
}

}  // namespace rewright::operators
