// Normalizations: batch, layer, instance, group, root mean square, Lp, and local response.
#include <string>
#include <utility>

#include "operators/definitions/axes.h"
#include "operators/definitions/elementwise.h"
#include "operators/definitions/families.h"
#include "operators/gradient.h"

namespace rewright::operators {
namespace {

void require_channels(Definition& d, const Operand& parameter, const Operand& x, std::string_view what) {
  d.require_rank(parameter, 1, what);
  d.require(equal(parameter.size(0), x.size(1)), [&] {
    return std::string(what) + " has " + parameter.size(0).to_string() + " elements, input has " + x.size(1).to_string() +
           " channels";
  });
}

Element deviation(const Element& variance, const Real& epsilon) { return apply(functions::sqrt, variance + real(epsilon)); }

DataType type_of_statistics(std::int64_t stash_type) {
  if (stash_type == static_cast<int>(DataType::kBfloat16)) return DataType::kBfloat16;
  if (stash_type != static_cast<int>(DataType::kFloat))
    throw Error(ErrorCode::kBadInput, "stash_type is " + std::to_string(stash_type) + ", must be 1 or 16");
  return DataType::kFloat;
}

// Inference: y = (x - mean) / sqrt(var + epsilon) * scale + b, by channel (axis 1).
struct BatchNormalization {
  static constexpr std::string_view kName = "BatchNormalization";
  static constexpr InputCount kInputs{5, 5};
  Real epsilon = 1e-5f;
  template <class V>
  void fields(V&& v) {
    v("epsilon", epsilon);
  }

  static constexpr int kInferenceByDefault = 7;
  static void onnx(OnnxMapping& m) {
    m.since = kInferenceByDefault;
    m.import = [](OnnxSource& source, std::string& reason) -> std::optional<std::vector<OnnxValue>> {
      if (source.opset() < kInferenceByDefault) {
        reason = "its form before opset " + std::to_string(kInferenceByDefault) + " has another meaning";
        return std::nullopt;
      }
      if (source.output_count() > 1 || source.integer("training_mode", 0) != 0) {
        reason = "BatchNormalization in training mode";
        return std::nullopt;
      }
      if (source.integer("spatial", 1) != 1) {
        reason = "BatchNormalization with statistics of every activation (spatial = 0)";
        return std::nullopt;
      }
      std::vector<OnnxValue> inputs;
      for (std::size_t n = 0; n < source.input_count(); ++n) inputs.push_back(source.input(n));
      const BatchNormalization op{.epsilon = Real(source.real("epsilon", 1e-5f))};
      return source.node(registry().get(kName), to_attributes(op), inputs);
    };
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &scale = in[1], &b = in[2], &mean = in[3], &var = in[4];
    require_elements(d, x, Elements::kReals);
    d.require(x.rank() >= 2, [&] { return "input has rank " + std::to_string(x.rank()) + ", must be at least 2"; });
    require_channels(d, scale, x, "scale");
    require_channels(d, b, x, "b");
    require_channels(d, mean, x, "mean");
    require_channels(d, var, x, "var");
    for (const Operand* parameter : {&scale, &b, &mean, &var}) require_elements(d, *parameter, Elements::kReals);
    d.output(x.type(), x.shape(), [=, e = epsilon](const Indices& i) {
      const Indices c{i[1]};
      return (x(i) - mean(c)) / deviation(var(c), e) * scale(c) + b(c);
    });
    return d;
  }

  // Normalizes by the statistics of the batch, as with ONNX's training_mode. Running statistics are averages of these; the
  // variance is divided by the number of elements.
  TrainingForm training_form(GraphBuilder& b, const std::vector<ValueId>& in, double momentum) const {
    const TensorType type = b.type_of(in[0]);
    Indices over{0}, by_channel(type.rank() - 1, 1);
    for (std::size_t a = 2; a < type.rank(); ++a) over.emplace_back(a);
    by_channel[0] = type.shape[1];
    const auto times = [&](ValueId a, ValueId c) { return b.add("Mul", {a, c}); };
    const auto sum = [&](ValueId a, ValueId c) { return b.add("Add", {a, c}); };
    const auto mean = [&](ValueId v) { return b.add("ReduceMean", {v}, {{"axes", over}}); };
    const auto parameter = [&](std::size_t n) { return b.reshaped(b.cast(in[n], type.type), by_channel); };
    const ValueId average = mean(in[0]), centred = b.add("Sub", {in[0], average}), variance = mean(times(centred, centred));
    const ValueId deviation = b.add("Sqrt", {sum(variance, b.scalar(type.type, epsilon.value))});
    const ValueId y = sum(times(b.add("Div", {centred, deviation}), parameter(1)), parameter(2));
    const auto running = [&](std::size_t n, ValueId now) {
      const TensorType kept = b.type_of(in[n]);
      const ValueId part = times(b.cast(b.reshaped(now, kept.shape), kept.type), b.scalar(kept.type, 1 - momentum));
      return sum(times(in[n], b.scalar(kept.type, momentum)), part);
    };
    return {{y}, {{3, running(3, average)}, {4, running(4, variance)}}};
  }
};

// y = (x - mean) / sqrt(var + epsilon) * scale + b, with mean and variance over the axes from `axis` on; these statistics are
// the second and third outputs, the latter as 1 / sqrt(var + epsilon).
struct LayerNormalization {
  static constexpr std::string_view kName = "LayerNormalization";
  static constexpr InputCount kInputs{2, 3};
  Index axis = -1;
  Real epsilon = 1e-5f;
  Index stash_type = 1;
  template <class V>
  void fields(V&& v) {
    v("axis", axis);
    v("epsilon", epsilon);
    v("stash_type", stash_type);
  }
  void normalize(const Inputs& in) { axis = canonical_axis(axis, in[0].rank()); }
  static void onnx(OnnxMapping& m) { m.since = 17; }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &scale = in[1], &b = in[2];
    require_elements(d, x, Elements::kReals);
    d.require_same_type(x, scale);
    require_broadcast_to(d, scale, x.shape(), "scale");
    if (b.present()) {
      d.require_same_type(x, b);
      require_broadcast_to(d, b, x.shape(), "b");
    }
    const auto first = static_cast<std::size_t>(canonical_axis(axis, x.rank()).value());
    const Indices axes = axes_from(first, x.rank());
    Indices statistics = x.shape();
    for (std::size_t n = first; n < x.rank(); ++n) statistics[n] = 1;
    const DataType type = type_of_statistics(stash_type.value());
    d.output(x.type(), x.shape(), [=, e = epsilon](const Indices& i) {
      const Slice slice(x, axes, i);
      const Element mean = slice.mean();
      const Element y = (x(i) - mean) / deviation(slice.variance(mean), e) * scale.broadcast(i);
      return b.present() ? y + b.broadcast(i) : y;
    });
    d.output(type, statistics, [=](const Indices& i) { return Slice(x, axes, i).mean(); });
    d.output(type, statistics, [=, e = epsilon](const Indices& i) {
      const Slice slice(x, axes, i);
      return real(1) / deviation(slice.variance(slice.mean()), e);
    });
    return d;
  }
};

// y = x / sqrt(mean(x^2) + epsilon) * scale, over the axes from `axis` on.
struct RMSNormalization {
  static constexpr std::string_view kName = "RMSNormalization";
  static constexpr InputCount kInputs{2, 2};
  Index axis = -1;
  Real epsilon = 1e-5f;
  Index stash_type = 1;
  template <class V>
  void fields(V&& v) {
    v("axis", axis);
    v("epsilon", epsilon);
    v("stash_type", stash_type);
  }
  void normalize(const Inputs& in) { axis = canonical_axis(axis, in[0].rank()); }
  static void onnx(OnnxMapping& m) { m.since = 23; }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &scale = in[1];
    require_elements(d, x, Elements::kReals);
    require_elements(d, scale, Elements::kReals);
    require_broadcast_to(d, scale, x.shape(), "scale");
    const Indices axes = axes_from(static_cast<std::size_t>(canonical_axis(axis, x.rank()).value()), x.rank());
    d.output(scale.type(), x.shape(), [=, e = epsilon](const Indices& i) {
      return x(i) / deviation(Slice(x, axes, i).mean_square(), e) * scale.broadcast(i);
    });
    return d;
  }
};

// y = (x - mean) / sqrt(var + epsilon) * scale + b, with mean and variance of each channel of each instance.
struct InstanceNormalization {
  static constexpr std::string_view kName = "InstanceNormalization";
  static constexpr InputCount kInputs{3, 3};
  Real epsilon = 1e-5f;
  template <class V>
  void fields(V&& v) {
    v("epsilon", epsilon);
  }
  static void onnx(OnnxMapping& m) { m.since = 6; }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &scale = in[1], &b = in[2];
    require_elements(d, x, Elements::kReals);
    d.require(x.rank() >= 3, [&] { return "input has rank " + std::to_string(x.rank()) + ", must be at least 3"; });
    d.require_same_type(x, scale);
    d.require_same_type(x, b);
    require_channels(d, scale, x, "scale");
    require_channels(d, b, x, "b");
    d.output(x.type(), x.shape(), [=, axes = axes_from(2, x.rank()), e = epsilon](const Indices& i) {
      const Indices c{i[1]};
      const Slice slice(x, axes, i);
      const Element mean = slice.mean();
      return (x(i) - mean) / deviation(slice.variance(mean), e) * scale(c) + b(c);
    });
    return d;
  }
};

// y = (x - mean) / sqrt(var + epsilon) * scale + b, with mean and variance of each group of successive channels.
struct GroupNormalization {
  static constexpr std::string_view kName = "GroupNormalization";
  static constexpr InputCount kInputs{3, 3};
  Index num_groups = 1;
  Real epsilon = 1e-5f;
  Index stash_type = 1;
  template <class V>
  void fields(V&& v) {
    v("num_groups", num_groups);
    v("epsilon", epsilon);
    v("stash_type", stash_type);
  }
  // Before opset 21, scale and b have an element for each group. ONNX has no default for the groups: they are always written.
  static void onnx(OnnxMapping& m) {
    m.since = 21;
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const auto op = from_attributes<GroupNormalization>(attributes);
      if (sink.opset() < 21) return false;
      sink.node("GroupNormalization", {{"num_groups", op.num_groups}, {"epsilon", op.epsilon}, {"stash_type", op.stash_type}},
                inputs, outputs);
      return true;
    };
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &scale = in[1], &b = in[2];
    require_elements(d, x, Elements::kReals);
    d.require(x.rank() >= 2, [&] { return "input has rank " + std::to_string(x.rank()) + ", must be at least 2"; });
    d.require_same_type(x, scale);
    d.require_same_type(x, b);
    require_channels(d, scale, x, "scale");
    require_channels(d, b, x, "b");
    const auto message = [&] {
      return x.size(1).to_string() + " channels cannot be divided into " + num_groups.to_string() + " equal groups";
    };
    d.require(less_equal(1, num_groups), message);
    d.require(equal(mod(x.size(1), num_groups), 0), message);
    Indices bounds{floor_div(x.size(1), num_groups)};
    bounds.insert(bounds.end(), x.shape().begin() + 2, x.shape().end());
    d.output(x.type(), x.shape(), [=, e = epsilon](const Indices& i) {
      const Element count = convert(from_index(product(bounds)), Scalar::kReal);
      const auto mean_over_group = [&](const auto& f) {
        return reduce(Reduction::kSum, "t", bounds,
                      [&](const Indices& t) {
                        Indices position{i[0], floor_div(i[1], bounds[0]) * bounds[0] + t[0]};
                        position.insert(position.end(), t.begin() + 1, t.end());
                        return f(x(position));
                      }) /
               count;
      };
      const Element mean = mean_over_group([](const Element& v) { return v; });
      const Element variance = mean_over_group([&](const Element& v) { return (v - mean) * (v - mean); });
      const Indices c{i[1]};
      return (x(i) - mean) / deviation(variance, e) * scale(c) + b(c);
    });
    return d;
  }

  // With h = (x - mean) / deviation: the gradient of h, minus its mean, minus h times the mean of its product with h, all
  // divided by the deviation.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const ValueId x = call.inputs[0], scale = call.inputs[1], g = call.output_gradients[0];
    const Indices shape = b.shape_of(x);
    const DataType type = b.type_of(x).type;
    const auto times = [&](ValueId a, ValueId c) { return b.add("Mul", {a, c}); };
    const auto less = [&](ValueId a, ValueId c) { return b.add("Sub", {a, c}); };
    const Indices groups{shape[0], num_groups, floor_div(product(shape), shape[0] * num_groups)};
    const auto grouped = [&](ValueId v) { return b.reshaped(v, groups); };
    const auto mean = [&](ValueId v) { return b.add("ReduceMean", {v}, {{"axes", Indices{2}}}); };
    const ValueId rows = grouped(x), centred = less(rows, mean(rows));
    const ValueId deviation = b.add("Sqrt", {b.add("Add", {mean(times(centred, centred)), b.scalar(type, epsilon.value)})});
    const ValueId h = b.add("Div", {centred, deviation});
    std::vector<ValueId> result = call.none();
    if (call.wants(0)) {
      Indices by_channel(shape.size() - 1, 1);
      by_channel[0] = shape[1];
      const ValueId gh = grouped(times(g, b.reshaped(scale, by_channel)));
      result[0] = b.reshaped(b.add("Div", {less(less(gh, mean(gh)), times(h, mean(times(gh, h)))), deviation}), shape);
    }
    Indices all_but_channels{0};
    for (std::size_t a = 2; a < shape.size(); ++a) all_but_channels.emplace_back(a);
    if (call.wants(1)) result[1] = b.summed(times(g, b.reshaped(h, shape)), all_but_channels);
    if (call.wants(2)) result[2] = b.summed(g, all_but_channels);
    return result;
  }
};

// (x - mean) / (deviation + 1e-9) over the given axes.
struct MeanVarianceNormalization {
  static constexpr std::string_view kName = "MeanVarianceNormalization";
  Indices axes{0, 2, 3};
  template <class V>
  void fields(V&& v) {
    v("axes", axes);
  }
  void normalize(const Inputs& in) { axes = canonical_axes(axes, in[0].rank()); }
  static void onnx(OnnxMapping& m) { m.since = 9; }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_elements(d, x, Elements::kReals);
    d.output(x.type(), x.shape(), [=, over = canonical_axes(axes, x.rank())](const Indices& i) {
      const Slice slice(x, over, i);
      const Element mean = slice.mean();
      return (x(i) - mean) / (apply(functions::sqrt, slice.variance(mean)) + real(1e-9f));
    });
    return d;
  }
};

// x divided by its p-norm along an axis (p is 1 or 2); 0 where the norm is 0.
struct LpNormalization {
  static constexpr std::string_view kName = "LpNormalization";
  Index axis = -1;
  Index p = 2;
  template <class V>
  void fields(V&& v) {
    v("axis", axis);
    v("p", p);
  }
  void normalize(const Inputs& in) { axis = canonical_axis(axis, in[0].rank()); }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_elements(d, x, Elements::kReals);
    const bool absolute = p.value() == 1;
    d.require(absolute || p.value() == 2, [&] { return "p is " + p.to_string() + ", must be 1 or 2"; });
    const Indices axes{canonical_axis(axis, x.rank())};
    d.output(x.type(), x.shape(), [=](const Indices& i) {
      const Element total = Slice(x, axes, i).reduced(Reduction::kSum, [&](const Element& e) {
        return absolute ? apply(functions::abs, e) : e * e;
      });
      const Element norm = absolute ? total : apply(functions::sqrt, total);
      return select(apply(functions::equal, norm, real(0)), real(0), x(i) / norm);
    });
    return d;
  }
};

// x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta; channels outside count 0.
struct LRN {
  static constexpr std::string_view kName = "LRN";
  Index size = 1;
  Real alpha = 1e-4f;
  Real beta = 0.75;
  Real bias = 1.0;
  template <class V>
  void fields(V&& v) {
    v("size", size);
    v("alpha", alpha);
    v("beta", beta);
    v("bias", bias);
  }
  // ONNX has no default for the size: it is always written.
  static void onnx(OnnxMapping& m) {
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const auto op = from_attributes<LRN>(attributes);
      sink.node("LRN", {{"size", op.size}, {"alpha", op.alpha}, {"beta", op.beta}, {"bias", op.bias}}, inputs, outputs);
      return true;
    };
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_elements(d, x, Elements::kReals);
    d.require(x.rank() >= 2, [&] { return "input has rank " + std::to_string(x.rank()) + ", must be at least 2"; });
    d.require(less_equal(1, size), [&] { return "size is " + size.to_string() + ", must be at least 1"; });
    d.output(x.type(), x.shape(), [=, *this](const Indices& i) {
      const Element squares = sum("t", size, [&](const Index& t) {
        Indices neighbour = i;
        neighbour[1] = i[1] + t - floor_div(size - 1, 2);
        const Element e = x.padded(neighbour);
        return e * e;
      });
      const Element share = real(alpha) / convert(from_index(size), Scalar::kReal);
      return x(i) / apply(functions::pow, real(bias) + share * squares, real(beta));
    });
    return d;
  }

  // With s = bias + alpha / size * sum of squares and y = x s^-beta: g s^-beta - 2 alpha beta / size x sum(g y / s), that sum
  // over the channels whose neighbourhoods contain this one.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const ValueId x = call.inputs[0], y = call.outputs[0], g = call.output_gradients[0];
    const TensorType type = b.type_of(x);
    const auto number = [&](double v) { return b.scalar(type.type, v); };
    const auto times = [&](ValueId a, ValueId c) { return b.add("Mul", {a, c}); };
    const Index below = floor_div(size - 1, 2), above = size - 1 - below;
    const double n = static_cast<double>(size.value());
    const ValueId squares = neighbours(b, times(x, x), below, above);
    const ValueId s = b.add("Add", {number(bias.value), times(number(alpha.value / n), squares)});
    const ValueId direct = times(g, b.add("Pow", {s, number(-beta.value)}));
    const ValueId sums = neighbours(b, b.add("Div", {times(g, y), s}), above, below);
    return {b.add("Sub", {direct, times(number(2 * alpha.value * beta.value / n), times(x, sums))})};
  }

 private:
  // For each channel the sum over channels from `below` before it to `above` after it.
  ValueId neighbours(GraphBuilder& b, ValueId x, const Index& below, const Index& above) const {
    const Indices shape = b.shape_of(x);
    const Index positions = product({shape.data() + 2, shape.size() - 2});
    const ValueId taps = b.filled({b.type_of(x).type, {1, 1, size, 1}}, 1);
    const ValueId sums = b.add("Conv", {b.reshaped(x, {shape[0], 1, shape[1], positions}), taps},
                               {{"pads_begin", Indices{below, 0}}, {"pads_end", Indices{above, 0}}});
    return b.reshaped(sums, shape);
  }
};

}  // namespace

void register_normalization(Registry& r) {
  r.add<BatchNormalization>();
  r.add<LayerNormalization>();
  r.add<RMSNormalization>();
  r.add<InstanceNormalization>();
  r.add<GroupNormalization>();
  r.add<MeanVarianceNormalization>();
  r.add<LpNormalization>();
  r.add<LRN>();
}

}  // namespace rewright::operators
