// Operators that put tensors together and take them apart.
#include "expressions/exact_number.h"
#include "operators/definitions/families.h"
#include "operators/definitions/lists.h"
#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

namespace {

using Imported = std::optional<std::vector<OnnxValue>>;

// y[..., i, ...] = x_k[..., i - (sizes of those before), ...]
struct Concat {
  static constexpr std::string_view kName = "Concat";
  static constexpr InputCount kInputs{1, kVariadic};
  Index axis = 0;

  template <class V>
  void fields(V&& v) {
    v("axis", axis);
  }
  void normalize(const Inputs& in) { axis = canonical_axis(axis, in[0].rank()); }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const std::size_t along = axis_number(axis, in[0].rank());
    Indices shape = in[0].shape();
    std::vector<Operand> parts{in[0]};
    for (std::size_t k = 1; k < in.count(); ++k) {
      const Operand& x = in[k];
      d.require_rank(x, shape.size(), "input " + std::to_string(k));
      d.require_same_type(in[0], x);
      for (std::size_t a = 0; a < shape.size(); ++a) {
        if (a == along) continue;
        d.require(equal(in[0].size(a), x.size(a)), [&] {
          return "axis " + std::to_string(a) + " has size " + in[0].size(a).to_string() + " in input 0 and " +
                 x.size(a).to_string() + " in input " + std::to_string(k);
        });
        if (x.size(a).is_constant()) shape[a] = x.size(a);
      }
      shape[along] += x.size(along);
      parts.push_back(x);
    }
    d.output(in[0].type(), shape, [=](const Indices& i) {
      Index begin = shape[along];
      Element y;
      for (std::size_t k = parts.size(); k-- > 0;) {
        begin -= parts[k].size(along);
        Indices at = i;
        at[along] -= begin;
        Element part = parts[k](at);
        y = y ? choose({less(at[along], parts[k].size(along))}, std::move(part), std::move(y)) : std::move(part);
      }
      return y;
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.import = [](OnnxSource& source, std::string&) -> std::optional<std::vector<OnnxValue>> {
      constexpr std::int64_t kBeforeItWasRequired = 1;
      Concat op;
      op.axis = source.integer("axis", kBeforeItWasRequired);
      std::vector<OnnxValue> parts;
      for (std::size_t i = 0; i < source.input_count(); ++i)
        if (!adds_nothing(source.type_of(source.input(0)).shape, source.type_of(source.input(i)).shape, op.axis))
          parts.push_back(source.input(i));
      if (parts.empty()) parts.push_back(source.input(0));
      return source.node(registry().get(kName), to_attributes(op), parts);
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {  // ONNX requires the axis even where it equals our default
      sink.node("Concat", {{"axis", from_attributes<Concat>(attributes).axis}}, inputs, outputs);
      return true;
    };
  }

  // Rules assume sizes of at least 1, so import drops parts without elements if they match the first part.
  static bool adds_nothing(const Indices& first, const Indices& part, const Index& axis) {
    const auto rank = static_cast<std::int64_t>(part.size());
    const std::int64_t along = axis.value() < 0 ? axis.value() + rank : axis.value();
    if (first.size() != part.size() || along < 0 || along >= rank || part[static_cast<std::size_t>(along)] != Index(0))
      return false;
    for (std::size_t a = 0; a < part.size(); ++a)
      if (static_cast<std::int64_t>(a) != along && part[a] != first[a]) return false;
    return true;
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    Indices sizes;
    for (const ValueId x : call.inputs) sizes.push_back(call.graph.shape_of(x)[static_cast<std::size_t>(axis.value())]);
    return call.graph.node(registry().get("Split"), {axis, sizes}, {call.output_gradients[0]});
  }
};

// Splits an axis into pieces of the given sizes, one output each.
struct Split {
  static constexpr std::string_view kName = "Split";
  Index axis = 0;
  Indices sizes;

  template <class V>
  void fields(V&& v) {
    v("axis", axis), v("sizes", sizes);
  }
  void normalize(const Inputs& in) { axis = canonical_axis(axis, in[0].rank()); }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    const std::size_t along = axis_number(axis, x.rank());
    Index begin = 0;
    for (const Index& size : sizes) {
      d.require(less_equal(0, size), [&] { return "piece of size " + size.to_string(); });
      Indices shape = x.shape();
      shape[along] = size;
      d.output(x.type(), shape, [=](const Indices& i) {
        Indices at = i;
        at[along] += begin;
        return x(at);
      });
      begin += size;
    }
    d.require(equal(begin, x.size(along)), [&] {
      return "pieces " + to_string(sizes) + " do not add up to the size " + x.size(along).to_string() + " of axis " +
             std::to_string(along);
    });
    return d;
  }

  // `count` pieces of equal size; from opset 18 on the last one may be smaller.
  static std::optional<Indices> equal_sizes(const Index& size, std::size_t count, int opset) {
    const Index piece = opset >= 18 ? ceil_div(size, count) : floor_div(size, count);
    Indices sizes(count, piece);
    if (!size.is_constant()) {
      if (!(piece * Index(count) == size)) return std::nullopt;
    } else if (opset >= 18) {
      std::int64_t left = size.value();
      for (Index& s : sizes) {
        s = std::min(left, piece.value());
        left -= s.value();
      }
    }
    return sizes;
  }

  static void onnx(OnnxMapping& m) {
    m.since = 2;
    m.import = [](OnnxSource& source, std::string& reason) -> Imported {
      Split op;
      op.axis = source.integer("axis", 0);
      const Indices& shape = source.type_of(source.input(0)).shape;
      const Index size = shape[axis_number(op.axis, shape.size())];
      if (source.opset() >= 13 && source.input_count() > 1 && source.input(1) != kAbsent) {
        const auto sizes = source.contents(source.input(1));
        if (!sizes) {
          reason = "the sizes of its pieces are not known";
          return std::nullopt;
        }
        op.sizes = *sizes;
      } else if (source.opset() < 13 && source.has("split")) {
        op.sizes = to_indices(source.integers("split"));
      }
      if (op.sizes.empty()) {  // an empty list is none
        const std::int64_t count = source.integer("num_outputs", static_cast<std::int64_t>(source.output_count()));
        if (count < 1 || count > 1 << 16) throw Error(ErrorCode::kBadInput, std::to_string(count) + " pieces");
        const auto sizes = equal_sizes(size, static_cast<std::size_t>(count), source.opset());
        if (!sizes) {
          reason = "size " + size.to_string() + " in " + std::to_string(count) + " equal pieces";
          return std::nullopt;
        }
        op.sizes = *sizes;
      }
      return source.node(registry().get(kName), to_attributes(op), {source.input(0)});
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const Split op = from_attributes<Split>(attributes);
      if (sink.opset() >= 13) {
        const OnnxValue sizes = sink.index_tensor(op.sizes);
        sink.node("Split", {{"axis", op.axis}}, {inputs[0], sizes}, outputs);
      } else {
        if (!all_constant(op.sizes)) return false;
        sink.node("Split", {{"axis", op.axis}, {"split", op.sizes}}, inputs, outputs);
      }
      return true;
    };
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    std::vector<ValueId> parts = call.output_gradients;
    for (std::size_t k = 0; k < parts.size(); ++k)
      if (parts[k] == kNoGradient) parts[k] = call.graph.filled(call.graph.type_of(call.outputs[k]), 0);
    return {call.graph.add("Concat", std::move(parts), {{"axis", axis}})};
  }
};

// x with elements added before and after (removed where a pad is negative). In mode "constant" they have the value of the
// second input's single element, or `value` without that input.
struct Pad {
  static constexpr std::string_view kName = "Pad";
  static constexpr InputCount kInputs{1, 2};
  Indices pads_begin, pads_end;
  std::string mode = "constant";
  Real value = 0;

  template <class V>
  void fields(V&& v) {
    v("pads_begin", pads_begin), v("pads_end", pads_end), v("mode", mode), v("value", value);
  }
  void normalize(const Inputs& in) {
    fill_absent(pads_begin, in[0].rank(), 0), fill_absent(pads_end, in[0].rank(), 0);
    if (mode != "constant") value = 0;
  }

  bool touches(std::size_t axis) const { return !(pads_begin[axis] == Index(0)) || !(pads_end[axis] == Index(0)); }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &fill = in[1];
    require_length(d, pads_begin, x.rank(), "pads_begin");
    require_length(d, pads_end, x.rank(), "pads_end");
    d.require(mode == "constant" || mode == "edge" || mode == "reflect" || mode == "wrap",
              [&] { return "mode is '" + mode + "'"; });
    if (fill.present()) {
      d.require_same_type(x, fill);
      d.require(equal(product(fill.shape()), 1), [&] { return "the constant has shape " + to_string(fill.shape()); });
    }
    Indices shape;
    for (std::size_t a = 0; a < x.rank(); ++a) {
      shape.push_back(x.size(a) + pads_begin[a] + pads_end[a]);
      d.require(less_equal(0, shape[a]), [&] {
        return "axis " + std::to_string(a) + " has size " + x.size(a).to_string() + ", pads " + pads_begin[a].to_string() +
               " and " + pads_end[a].to_string() + " leave nothing";
      });
      if (mode != "constant" && touches(a))
        d.require(less_equal(1, x.size(a)), [&] { return "axis " + std::to_string(a) + " is empty, nothing to repeat"; });
    }
    d.output(x.type(), shape, [=, *this](const Indices& i) {
      Indices at = i;
      std::vector<Condition> inside;
      for (std::size_t a = 0; a < x.rank(); ++a) {
        if (!touches(a)) continue;
        at[a] -= pads_begin[a];
        if (mode == "constant") {
          inside.push_back(less_equal(0, at[a]));
          inside.push_back(less(at[a], x.size(a)));
        } else {
          at[a] = source_position(at[a], x.size(a));
        }
      }
      if (inside.empty()) return x(at);
      if (!fill.present() && value == Real(0)) return x.padded(at);
      return choose(std::move(inside), x(at), fill.present() ? fill(Indices(fill.rank(), 0)) : constant(x.scalar(), value));
    });
    return d;
  }

  Index source_position(const Index& position, const Index& size) const {
    if (mode == "edge") return max(min(position, size - 1), 0);
    if (mode == "wrap") return mod(position, size);
    // Positions run back and forth; with one element all are 0.
    const Index last = size - 1, period = 2 * max(last, 1), within = mod(position, period);
    const Index reflected = min(within, period - within);
    return less(1, size).decided() == true ? reflected : min(reflected, last);
  }

  static bool import_pads(const OnnxSource& source, Pad& op, std::string& reason) {
    const std::size_t rank = source.type_of(source.input(0)).rank();
    Indices both, axes;
    if (source.opset() < 11) {
      both = to_indices(source.integers("pads"));
    } else {
      const auto contents = source.contents(source.input(1));
      if (!contents) {
        reason = "its pads are not known";
        return false;
      }
      both = *contents;
    }
    if (source.input_count() > 3 && source.input(3) != kAbsent) {
      const auto contents = source.contents(source.input(3));
      if (!contents || !all_constant(*contents)) {
        reason = "its axes are not known";
        return false;
      }
      axes = *contents;
    } else {
      axes = axes_from(0, rank);
    }
    if (both.size() != 2 * axes.size())
      throw Error(ErrorCode::kBadInput,
                  "pads has " + std::to_string(both.size()) + " entries for " + std::to_string(axes.size()) + " axes");
    op.pads_begin.assign(rank, 0), op.pads_end.assign(rank, 0);
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const std::size_t a = axis_number(axes[k], rank);
      op.pads_begin[a] = both[k], op.pads_end[a] = both[k + axes.size()];
    }
    return true;
  }

  static void onnx(OnnxMapping& m) {
    m.since = 2;
    m.import = [](OnnxSource& source, std::string& reason) -> Imported {
      Pad op;
      if (!import_pads(source, op, reason)) return std::nullopt;
      op.mode = source.text("mode", "constant");
      std::vector<OnnxValue> inputs{source.input(0)};
      if (source.opset() < 11) {
        op.value = source.real("value", 0);
      } else if (op.mode == "constant" && source.input_count() > 2 && source.input(2) != kAbsent) {
        const auto known = source.constant_value(source.input(2));
        if (known && known->size() == 1 && known->type() != DataType::kString && fits_real(*known))
          op.value = known->reals()[0];
        else
          inputs.push_back(source.input(2));
      }
      return source.node(registry().get(kName), to_attributes(op), std::move(inputs));
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const Pad op = from_attributes<Pad>(attributes);
      Indices both = op.pads_begin;
      both.insert(both.end(), op.pads_end.begin(), op.pads_end.end());
      OnnxSink::NamedAttributes named{{"mode", op.mode}};
      if (op.mode == "wrap" && sink.opset() < 19) return false;
      if (sink.opset() < 11) {
        if (!all_constant(both) || inputs.size() > 1) return false;
        named.emplace_back("pads", both);
        named.emplace_back("value", op.value);
        sink.node("Pad", std::move(named), inputs, outputs);
        return true;
      }
      std::vector<OnnxValue> all{inputs[0], sink.index_tensor(both)};
      if (inputs.size() > 1)
        all.push_back(inputs[1]);
      else if (op.mode == "constant" && !(op.value == Real(0)))
        all.push_back(sink.constant(Tensor::scalar(sink.type_of(inputs[0]).type, op.value.value)));
      sink.node("Pad", std::move(named), std::move(all), outputs);
      return true;
    };
  }

  // Added elements are dropped. A repeated element gets the gradients of all its copies, by a product with the matrix of the
  // copying.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const Indices from = b.shape_of(call.inputs[0]);
    const ValueId g = call.output_gradients[0];
    std::vector<ValueId> result = call.none();
    if (mode != "constant") {
      ValueId folded = g;
      for (std::size_t a = 0; a < from.size(); ++a)
        if (touches(a)) folded = fold_axis(b, folded, a, from[a]);
      result[0] = folded;
      return result;
    }
    Pad back;
    for (std::size_t a = 0; a < from.size(); ++a)
      back.pads_begin.push_back(-pads_begin[a]), back.pads_end.push_back(-pads_end[a]);
    const ValueId kept = b.node(registry().get(kName), to_attributes(back), {g}).at(0);
    if (call.wants(0)) result[0] = kept;
    if (call.wants(1)) {
      const Indices axes = axes_from(0, from.size());
      const ValueId added = b.add("Sub", {b.summed(g, axes), b.summed(kept, axes)});
      result[1] = b.reshaped(added, b.shape_of(call.inputs[1]));
    }
    return result;
  }

  ValueId fold_axis(GraphBuilder& b, ValueId g, std::size_t axis, const Index& size) const {
    const std::int64_t rows = b.shape_of(g)[axis].value(), columns = size.value();
    std::vector<double> copies(static_cast<std::size_t>(rows * columns), 0);
    for (std::int64_t r = 0; r < rows; ++r)
      copies[static_cast<std::size_t>(r * columns + source_position(Index(r) - pads_begin[axis], size).value())] = 1;
    const ValueId matrix = b.constant(Tensor::from_reals(b.type_of(g).type, {rows, columns}, copies));
    Indices perm = axes_from(0, b.shape_of(g).size());
    std::swap(perm[axis], perm.back());
    return b.transposed(b.add("MatMul", {b.transposed(g, perm), matrix}), perm);
  }
};

// y[i...] = x[i mod size...]
struct Tile {
  static constexpr std::string_view kName = "Tile";
  Indices repeats;

  template <class V>
  void fields(V&& v) {
    v("repeats", repeats);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_length(d, repeats, x.rank(), "repeats");
    Indices shape;
    for (std::size_t a = 0; a < x.rank(); ++a) shape.push_back(x.size(a) * repeats[a]);
    for (const Index& r : repeats)
      d.require(less_equal(0, r), [&] { return "repeats " + to_string(repeats) + " has a negative entry"; });
    d.output(x.type(), shape, [=, repeats = repeats](const Indices& i) {
      Indices at = i;
      for (std::size_t a = 0; a < x.rank(); ++a) {
        if (x.size(a) == Index(0))
          at[a] = 0;  // the tensor is empty
        else if (!(repeats[a] == Index(1)))
          at[a] = mod(i[a], x.size(a));
      }
      return x(at);
    });
    return d;
  }

  static void onnx(OnnxMapping& m) {
    m.since = 6;
    m.field_inputs = {{"repeats", 1, 6}};
  }

  std::vector<ValueId> gradient(const GradientCall& call) const {
    const Indices from = call.graph.shape_of(call.inputs[0]);
    Indices shape, axes;
    for (std::size_t a = 0; a < from.size(); ++a) {
      axes.push_back(shape.size());
      shape.push_back(repeats[a]);
      shape.push_back(from[a]);
    }
    return {call.graph.summed(call.graph.reshaped(call.output_gradients[0], shape), axes)};
  }
};

}  // namespace

void register_assembly(Registry& r) {
  r.add<Concat>();
  r.add<Split>();
  r.add<Pad>();
  r.add<Tile>();
}

}  // namespace rewright::operators
