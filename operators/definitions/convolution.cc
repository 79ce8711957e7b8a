// Convolutions over any number of spatial axes, by one definition.
#include "operators/definitions/convolution.h"

#include "operators/definitions/families.h"
#include "operators/gradient.h"

namespace rewright::operators {

namespace {

void require_bias(Definition& d, const Inputs& in, const Index& channels) {
  if (!in.has(2)) return;
  const Operand& b = in[2];
  d.require_rank(b, 1, "bias");
  d.require_same_type(in[0], b);
  d.require(equal(b.size(0), channels),
            [&] { return "bias has " + b.size(0).to_string() + " elements for " + channels.to_string() + " output channels"; });
}

ValueId weight_gradient(GraphBuilder& b, ValueId x, ValueId g, const Window& window, const Index& group) {
  return b.add("ConvWeightGradient", {x, g},
               {{"kernel", window.kernel},
                {"strides", window.strides},
                {"dilations", window.dilations},
                {"pads_begin", window.pads_begin},
                {"group", group}});
}

ValueId bias_gradient(GraphBuilder& b, ValueId g) {
  Indices axes{0};
  for (std::size_t a = 2; a < b.shape_of(g).size(); ++a) axes.emplace_back(a);
  return b.summed(g, axes);
}

// y[n, k, p...] = b[k] + sum(c, r...) x[n, g * Cg + c, p * stride + r * dilation - pad] * w[k, c, r...], g the group of k.
struct Conv {
  static constexpr std::string_view kName = "Conv";
  static constexpr InputCount kInputs{2, 3};
  Indices strides, dilations, pads_begin, pads_end;
  Index group = 1;

  template <class V>
  void fields(V&& v) {
    v("strides", strides), v("dilations", dilations), v("pads_begin", pads_begin), v("pads_end", pads_end);
    v("group", group);
  }

  void normalize(const Inputs& in) {
    const std::size_t rank = spatial_part(in[1].shape()).size();
    fill_absent(strides, rank, 1), fill_absent(dilations, rank, 1);
    fill_absent(pads_begin, rank, 0), fill_absent(pads_end, rank, 0);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &w = in[1];
    require_reals(d, x, w);
    require_weight(d, x, w, group);
    const Index &channels = w.size(0), &depth = w.size(1);
    require_bias(d, in, channels);
    const Window window{spatial_part(w.shape()), strides, dilations, pads_begin, pads_end};
    window.require_sound(d, x);

    Indices shape{x.size(0), channels};
    for (Index& i : window.counts(x, false)) shape.push_back(std::move(i));
    d.output(x.type(), shape, [=, *this, bias = in[2]](const Indices& i) {
      const Index first = first_of_group(i[1], channels, depth, group);
      Element y = sum("c", depth, [&](const Index& c) {
        return reduce(Reduction::kSum, "r", window.kernel, [&](const Indices& r) {
          const Indices at = window.position(i, first + c, r);
          Indices tap{i[1], c};
          tap.insert(tap.end(), r.begin(), r.end());
          return (window.padded() ? x.padded(at) : x(at)) * w(tap);
        });
      });
      return bias.present() ? y + bias({i[1]}) : y;
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.import = [](OnnxSource& source, std::string& reason) { return import_convolution<Conv>(source, 1, reason); };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const Conv op = from_attributes<Conv>(attributes);
      const Window window{{}, op.strides, op.dilations, op.pads_begin, op.pads_end};
      sink.node("Conv", window_attributes(sink, window, op.group, inputs[1]), inputs, outputs);
      return true;
    };
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const ValueId x = call.inputs[0], w = call.inputs[1], g = call.output_gradients[0];
    const Window window{spatial_part(b.shape_of(w)), strides, dilations, pads_begin, pads_end};
    std::vector<ValueId> result = call.none();
    if (call.wants(0)) result[0] = input_gradient(b, b.shape_of(x), g, w, window, group);
    if (call.wants(1)) result[1] = weight_gradient(b, x, g, window, group);
    if (call.wants(2)) result[2] = bias_gradient(b, g);
    return result;
  }
};

// The adjoint of Conv in its input: y[n, k, p...] = b[k] + sum(c, r...) x[n, g * Cg + c, q...] * w[g * Cg + c, k mod Kg, r...]
// over those r for which q = (p + pad - r * dilation) / stride is an integer and inside of x.
struct ConvTranspose {
  static constexpr std::string_view kName = "ConvTranspose";
  static constexpr InputCount kInputs{2, 3};
  Indices strides, dilations, pads_begin, pads_end, output_padding;
  Index group = 1;

  template <class V>
  void fields(V&& v) {
    v("strides", strides), v("dilations", dilations), v("pads_begin", pads_begin), v("pads_end", pads_end);
    v("output_padding", output_padding), v("group", group);
  }

  void normalize(const Inputs& in) {
    const std::size_t rank = spatial_part(in[1].shape()).size();
    fill_absent(strides, rank, 1), fill_absent(dilations, rank, 1);
    fill_absent(pads_begin, rank, 0), fill_absent(pads_end, rank, 0), fill_absent(output_padding, rank, 0);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &w = in[1];
    require_reals(d, x, w);
    require_ranks(d, x, w, "weight", group);
    d.require(equal(w.size(0), x.size(1)),
              [&] { return "weight has " + w.size(0).to_string() + " input channels, input has " + x.size(1).to_string(); });
    const bool grouped = !(group == Index(1));
    require_groups(d, x.size(1), group, "input", "channels");
    const Index group_channels = w.size(1), depth = grouped ? floor_div(x.size(1), group) : x.size(1);
    require_bias(d, in, group_channels * group);
    const Window window{spatial_part(w.shape()), strides, dilations, pads_begin, pads_end};
    window.require_sound(d, x, true);
    require_length(d, output_padding, window.rank(), "output_padding");

    Indices shape{x.size(0), group_channels * group};
    for (std::size_t a = 0; a < window.rank(); ++a) {
      const Index size = strides[a] * (x.size(a + 2) - 1) + output_padding[a] + window.extent(a) - pads_begin[a] - pads_end[a];
      d.require(less_equal(0, size), [&] { return "output size " + size.to_string() + " is negative"; });
      shape.push_back(size);
    }
    d.output(x.type(), shape, [=, *this, bias = in[2]](const Indices& i) {
      const Index first = grouped ? floor_div(i[1], group_channels) * depth : Index(0);
      const Index channel = grouped ? mod(i[1], group_channels) : i[1];
      const auto source = [&](const Indices& r) {  // the position in x, times the stride
        Indices at;
        for (std::size_t a = 0; a < window.rank(); ++a) at.push_back(i[a + 2] + pads_begin[a] - r[a] * dilations[a]);
        return at;
      };
      const auto where = [&](const Indices& r) {
        std::vector<Condition> conditions;
        const Indices at = source(r);
        for (std::size_t a = 0; a < window.rank(); ++a)
          if (!(strides[a] == Index(1))) conditions.push_back(equal(mod(at[a], strides[a]), 0));
        return conditions;
      };
      Element y = sum("c", depth, [&](const Index& c) {
        return reduce(
            Reduction::kSum, "r", window.kernel,
            [&](const Indices& r) {
              Indices at{i[0], first + c}, tap{first + c, channel};
              const Indices scaled = source(r);
              for (std::size_t a = 0; a < window.rank(); ++a) at.push_back(floor_div(scaled[a], strides[a]));
              tap.insert(tap.end(), r.begin(), r.end());
              return x.padded(at) * w(tap);
            },
            where);
      });
      return bias.present() ? y + bias({i[1]}) : y;
    });
    return d;
  }

  // Sets the pads that give the requested output sizes. Beyond that, the end of the output is padded.
  void set_output_sizes(const OnnxSource& source, const Indices& input_sizes, const Window& window) {
    const bool upper = source.text("auto_pad", "NOTSET") == "SAME_UPPER";
    const std::vector<std::int64_t> wanted = source.integers("output_shape");
    const std::size_t rank = window.rank();
    if (!wanted.empty() && wanted.size() != rank && wanted.size() != rank + 2)
      throw Error(ErrorCode::kBadInput, "output_shape has " + std::to_string(wanted.size()) + " entries for " +
                                            std::to_string(rank) + " spatial axes");
    for (std::size_t a = 0; a < rank; ++a) {
      const Index size = wanted.empty() ? input_sizes[a] * strides[a] : Index(wanted[wanted.size() - rank + a]);
      const std::int64_t total = (strides[a] * (input_sizes[a] - 1) + output_padding[a] + window.extent(a) - size).value();
      const std::int64_t cut = std::max<std::int64_t>(total, 0), half = cut / 2;
      pads_begin.push_back(upper ? half : cut - half);
      pads_end.push_back(upper ? cut - half : half);
      output_padding[a] += cut - total;
    }
  }

  static void onnx(OnnxMapping& m) {
    m.import = [](OnnxSource& source, std::string& reason) -> std::optional<std::vector<OnnxValue>> {
      ConvTranspose op;
      const Window window = import_window(source, source.type_of(source.input(1)).shape);
      op.strides = window.strides, op.dilations = window.dilations;
      op.group = source.integer("group", 1);
      const Indices sizes = spatial_part(source.type_of(source.input(0)).shape);
      if (sizes.size() != window.rank())
        throw Error(ErrorCode::kBadInput,
                    "input has " + std::to_string(sizes.size()) + " spatial axes, weight has " + std::to_string(window.rank()));
      op.output_padding = import_list(source, "output_padding", window.rank(), 0);
      const std::string mode = source.text("auto_pad", "NOTSET");
      if (source.has("output_shape") && !all_constant(sizes)) {
        reason = "output_shape for an input of size " + to_string(sizes);
        return std::nullopt;
      }
      if (source.has("output_shape") || mode == "SAME_UPPER" || mode == "SAME_LOWER") {
        if (!all_constant(window.kernel)) {
          reason = "padding for a kernel of size " + to_string(window.kernel);
          return std::nullopt;
        }
        op.set_output_sizes(source, sizes, window);
      } else {
        const auto pads = import_pads(source, sizes, window, reason);
        if (!pads) return std::nullopt;
        op.pads_begin = pads->begin, op.pads_end = pads->end;
      }
      return source.node(registry().get(kName), to_attributes(op), inputs_of(source));
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const ConvTranspose op = from_attributes<ConvTranspose>(attributes);
      const Window window{{}, op.strides, op.dilations, op.pads_begin, op.pads_end};
      auto named = window_attributes(sink, window, op.group, inputs[1]);
      named.emplace_back("output_padding", op.output_padding);
      sink.node("ConvTranspose", std::move(named), inputs, outputs);
      return true;
    };
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const ValueId x = call.inputs[0], w = call.inputs[1], g = call.output_gradients[0];
    const Window window{spatial_part(b.shape_of(w)), strides, dilations, pads_begin, pads_end};
    std::vector<ValueId> result = call.none();
    if (call.wants(0)) result[0] = convolved(b, g, w, window, group, b.shape_of(x));
    if (call.wants(1)) result[1] = weight_gradient(b, g, x, window, group);
    if (call.wants(2)) result[2] = bias_gradient(b, g);
    return result;
  }
};

}  // namespace

void require_reals(Definition& d, const Operand& x, const Operand& other) {
  d.require(is_real(x.type()), [&] { return "input is " + std::string(name(x.type())) + ", a real type is needed"; });
  d.require_same_type(x, other);
}

void require_ranks(Definition& d, const Operand& x, const Operand& other, const std::string& what, const Index& group) {
  d.require(x.rank() >= 2, [&] { return "input has rank " + std::to_string(x.rank()) + ", at least 2 is needed"; });
  d.require_rank(other, x.rank(), what);
  d.require(less_equal(1, group), [&] { return "group " + group.to_string() + " is not positive"; });
}

void require_weight(Definition& d, const Operand& x, const Operand& w, const Index& group) {
  require_ranks(d, x, w, "weight", group);
  d.require(equal(w.size(1) * group, x.size(1)), [&] {
    return "weight has " + w.size(1).to_string() + " input channels, input has " + x.size(1).to_string() + " (group " +
           group.to_string() + ")";
  });
  require_groups(d, w.size(0), group, "weight", "output channels");
}

void require_groups(Definition& d, const Index& channels, const Index& group, const std::string& whose,
                    const std::string& what) {
  if (group == Index(1)) return;
  d.require(equal(mod(channels, group), 0), [&] {
    return whose + " has " + channels.to_string() + " " + what + ", not a multiple of group " + group.to_string();
  });
}

Index first_of_group(const Index& channel, const Index& channels, const Index& depth, const Index& group) {
  return group == Index(1) ? Index(0) : floor_div(channel, floor_div(channels, group)) * depth;
}

namespace {

GraphBuilder::Fields fields_of(const Window& window, const Index& group) {
  return {{"strides", window.strides},
          {"dilations", window.dilations},
          {"pads_begin", window.pads_begin},
          {"pads_end", window.pads_end},
          {"group", group}};
}

}  // namespace

ValueId input_gradient(GraphBuilder& b, const Indices& x_shape, ValueId g, ValueId w, const Window& window,
                       const Index& group) {
  Indices rest;  // positions at the end that no step reads
  for (std::size_t a = 0; a < window.rank(); ++a)
    rest.push_back(x_shape[a + 2] + window.pads_begin[a] + window.pads_end[a] - window.strides[a] * (b.shape_of(g)[a + 2] - 1) -
                   window.extent(a));
  GraphBuilder::Fields fields = fields_of(window, group);
  fields.emplace_back("output_padding", rest);
  return b.add("ConvTranspose", {g, w}, fields);
}

ValueId convolved(GraphBuilder& b, ValueId x, ValueId w, const Window& window, const Index& group, const Indices& shape) {
  const ValueId y = b.add("Conv", {x, w}, fields_of(window, group));
  if (b.shape_of(y) == shape) return y;
  return b.add("Slice", {y}, {{"begin", Indices(shape.size(), 0)}, {"length", shape}});
}

Window import_window(const OnnxSource& source, const Indices& weight) {
  const Indices kernel = spatial_part(weight);
  const std::vector<std::int64_t> declared = source.integers("kernel_shape");
  if (!declared.empty() && declared.size() != kernel.size())
    throw Error(ErrorCode::kBadInput, "kernel_shape has " + std::to_string(declared.size()) + " entries, the weight has " +
                                          std::to_string(kernel.size()) + " spatial axes");
  for (std::size_t a = 0; a < declared.size(); ++a)
    if (kernel[a].is_constant() && !(kernel[a] == Index(declared[a])))
      throw Error(ErrorCode::kBadInput,
                  "kernel_shape is " + to_string(to_indices(declared)) + ", the weight's is " + to_string(kernel));
  Window window{
      kernel, import_list(source, "strides", kernel.size(), 1), import_list(source, "dilations", kernel.size(), 1), {}, {}};
  for (const Indices& list : {window.strides, window.dilations})
    for (const Index& i : list)
      if (i.value() < 1) throw Error(ErrorCode::kBadInput, "strides or dilations are not positive");
  return window;
}

std::vector<OnnxValue> inputs_of(const OnnxSource& source) {
  std::vector<OnnxValue> inputs;
  for (std::size_t i = 0; i < source.input_count(); ++i) inputs.push_back(source.input(i));
  return inputs;
}

OnnxSink::NamedAttributes window_attributes(const OnnxSink& sink, const Window& window, const Index& group, OnnxValue weight) {
  OnnxSink::NamedAttributes attributes{{"dilations", window.dilations}, {"group", group}};
  const Indices kernel = spatial_part(sink.type_of(weight).shape);
  if (all_constant(kernel)) attributes.emplace_back("kernel_shape", kernel);
  attributes.emplace_back("pads", joined_pads(window.pads_begin, window.pads_end));
  attributes.emplace_back("strides", window.strides);
  return attributes;
}

void register_convolution(Registry& r) {
  r.add<Conv>();
  r.add<ConvTranspose>();
}

}  // namespace rewright::operators
