// Slices: every step-th element from a first one on, along each axis.
#include <limits>

#include "expressions/index_bounds.h"
#include "operators/definitions/families.h"
#include "operators/definitions/lists.h"
#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 31;  // ONNX models use numbers of at least this size for "to the end"

// The size of an axis; never_empty: assumed to be at least 1 if symbolic.
struct AxisSize {
  Index size;
  bool never_empty;
};

// A start or end as ONNX gives it, counted from the front and clamped to [low, high], where high is size or size - 1 and low 0
// or -1.
Index clamped(const Index& given, const AxisSize& axis, std::int64_t low, const Index& high) {
  const Index& size = axis.size;
  if (const auto value = given.constant()) {
    if (*value >= kFar - 1) return high;
    if (*value <= -kFar) return low;
    if (size.is_constant()) return std::clamp(*value < 0 ? *value + size.value() : *value, low, high.value());
    if (*value == -1 && (axis.never_empty || !(high == size))) return size - 1;
    if (*value == 0) return 0;
    if (*value == 1 && axis.never_empty && high == size) return 1;
    return *value < 0 ? max_over_sizes(size + given, low) : min_over_sizes(given, high);
  }
  const Bounds bounds = bounds_over_sizes(given);
  if (bounds.low >= 0) return min_over_sizes(given, high);
  if (bounds.high < 0) return max_over_sizes(size + given, low);
  // A symbolic n - 3 is negative for n = 2, and then counts from the end.
  const Index is_negative = min(max(-given, 0), 1);
  return max_over_sizes(min_over_sizes(given + size * is_negative, high), low);
}

// y[i...] = x[begin + i * step...]. Canonical form: an entry for each axis, the length instead of the end, and step 1 where the
// step has no effect.
struct SliceOperator {
  static constexpr std::string_view kName = "Slice";
  Indices begin, length, step;

  template <class V>
  void fields(V&& v) {
    v("begin", begin), v("length", length), v("step", step);
  }
  void normalize(const Inputs& in) {
    fill_absent(begin, in[0].rank(), 0), fill_absent(step, in[0].rank(), 1);
    if (length.empty()) length = in[0].shape();
    for (std::size_t a = 0; a < std::min({begin.size(), length.size(), step.size()}); ++a) {
      if (length[a] == Index(0)) begin[a] = 0;
      if (length[a] == Index(0) || length[a] == Index(1)) step[a] = 1;
    }
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_length(d, begin, x.rank(), "begin");
    require_length(d, length, x.rank(), "length");
    require_length(d, step, x.rank(), "step");
    for (std::size_t a = 0; a < x.rank(); ++a) {
      d.require(less_equal(0, length[a]), [&] { return "length " + length[a].to_string() + " is negative"; });
      if (length[a] == Index(0)) continue;
      const Index last = begin[a] + (length[a] - 1) * step[a];
      for (const Index& end : {begin[a], last}) {
        const auto outside = [&] {
          return "position " + end.to_string() + " is outside of axis " + std::to_string(a) + " of size " +
                 x.size(a).to_string();
        };
        d.require(less_equal(0, end), outside);
        d.require(less(end, x.size(a)), outside);
      }
    }
    d.output(x.type(), length, [=, *this](const Indices& i) {
      Indices at;
      for (std::size_t a = 0; a < x.rank(); ++a) at.push_back(begin[a] + i[a] * step[a]);
      return x(at);
    });
    return d;
  }

  // Sets one axis from ONNX's form.
  void set_axis(std::size_t a, const AxisSize& axis, const Index& start, const Index& end, std::int64_t stride) {
    if (stride == 0) throw Error(ErrorCode::kBadInput, "step of axis " + std::to_string(a) + " is 0");
    const Index& size = axis.size;
    if (size == Index(0)) return;
    const bool forward = stride > 0;
    Index first = forward ? clamped(start, axis, 0, size) : clamped(start, axis, 0, size - 1);
    Index beyond = forward ? clamped(end, axis, 0, size) : clamped(end, axis, -1, size - 1);
    if (!forward && !axis.never_empty)  // before an empty axis there is only position -1
      first = min_over_sizes(first, size - 1), beyond = min_over_sizes(beyond, size - 1);
    const Index distance = forward ? beyond - first : first - beyond;
    Index count = ceil_div(distance, forward ? Index(stride) : -Index(stride));
    const bool surely_ordered = first == (forward ? Index(0) : size - 1) || beyond == (forward ? size : Index(-1));
    if (count.is_constant() || !surely_ordered) count = max_over_sizes(count, 0);
    // The last `few` elements of a size that may be smaller: the start is size - max(size - few, 0).
    if (const auto few = start.constant();
        few && !axis.never_empty && stride == 1 && -kFar < *few && *few < 0 && beyond == size)
      count = min_over_sizes(-*few, size);
    if (forward && first == size) count = 0;
    begin[a] = first, length[a] = count, step[a] = stride;
  }

  struct Request {
    Indices starts, ends, axes, steps;
  };
  static std::optional<Request> request(const OnnxSource& source, std::string& reason) {
    Request r;
    if (source.opset() < 10) {
      r.starts = to_indices(source.integers("starts")), r.ends = to_indices(source.integers("ends"));
      r.axes = to_indices(source.integers("axes"));
    } else {
      const char* names[] = {"", "starts", "ends", "axes", "steps"};
      Indices* lists[] = {nullptr, &r.starts, &r.ends, &r.axes, &r.steps};
      for (std::size_t k = 1; k < 5; ++k) {
        if (k >= source.input_count() || source.input(k) == kAbsent) continue;
        if (const std::size_t rank = source.type_of(source.input(k)).rank(); rank != 1)
          throw Error(ErrorCode::kBadInput, std::string(names[k]) + " has rank " + std::to_string(rank) + ", must be 1");
        const auto contents = source.contents(source.input(k));
        if (!contents || (k > 2 && !all_constant(*contents))) {
          reason = std::string("its ") + names[k] + " are not known";
          return std::nullopt;
        }
        *lists[k] = *contents;
      }
    }
    if (r.axes.empty()) r.axes = axes_from(0, r.starts.size());
    fill_absent(r.steps, r.starts.size(), 1);
    if (r.ends.size() != r.starts.size() || r.axes.size() != r.starts.size() || r.steps.size() != r.starts.size())
      throw Error(ErrorCode::kBadInput, "starts, ends, axes and steps differ in length");
    return r;
  }

  static void onnx(OnnxMapping& m) {
    m.import = [](OnnxSource& source, std::string& reason) -> std::optional<std::vector<OnnxValue>> {
      const auto r = request(source, reason);
      if (!r) return std::nullopt;
      const Indices& shape = source.type_of(source.input(0)).shape;
      SliceOperator op;
      op.begin.assign(shape.size(), 0), op.length = shape, op.step.assign(shape.size(), 1);
      for (std::size_t k = 0; k < r->axes.size(); ++k) {
        const std::size_t a = axis_number(r->axes[k], shape.size());
        op.set_axis(a, {shape[a], shape[a].is_constant() || source.never_empty(shape[a])}, r->starts[k], r->ends[k],
                    r->steps[k].value());
      }
      return source.node(registry().get(kName), to_attributes(op), {source.input(0)});
    };
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      const SliceOperator op = from_attributes<SliceOperator>(attributes);
      const Indices& shape = sink.type_of(inputs[0]).shape;
      Request r;
      for (std::size_t a = 0; a < shape.size(); ++a) {
        if (op.begin[a] == Index(0) && op.length[a] == shape[a] && op.step[a] == Index(1)) continue;
        r.axes.push_back(a);
        r.steps.push_back(op.step[a]);
        r.starts.push_back(from_either_end(op.begin[a], shape[a]));
        if (op.step[a].value() > 0) {
          const Index end = op.length[a] == Index(0) ? op.begin[a] : op.begin[a] + (op.length[a] - 1) * op.step[a] + 1;
          r.ends.push_back(end == shape[a] ? Index(std::numeric_limits<std::int64_t>::max())
                                           : from_either_end(uncut(end, shape[a]), shape[a]));
        } else {  // an end of -1 would count from the end
          const Index end = op.begin[a] + op.length[a] * op.step[a];
          r.ends.push_back(end.is_constant() && end.value() < 0 ? Index(std::numeric_limits<std::int64_t>::min() + 1)
                                                                : from_either_end(end, shape[a]));
        }
      }
      if (r.axes.empty()) {
        sink.node("Identity", {}, inputs, outputs);
        return true;
      }
      if (sink.opset() < 10) {
        if (!all_constant(r.starts) || !all_constant(r.ends) || r.steps != Indices(r.steps.size(), 1)) return false;
        sink.node("Slice", {{"starts", r.starts}, {"ends", r.ends}, {"axes", r.axes}}, inputs, outputs);
        return true;
      }
      const OnnxValue starts = sink.index_tensor(r.starts), ends = sink.index_tensor(r.ends);
      const OnnxValue axes = sink.index_tensor(r.axes), steps = sink.index_tensor(r.steps);
      sink.node("Slice", {}, {inputs[0], starts, ends, axes, steps}, outputs);
      return true;
    };
  }

  // ONNX clamps an end to the axis's size, so a minimum with the size is dropped.
  static Index uncut(const Index& end, const Index& size) {
    const Atom* const least = end.as_atom();
    if (least == nullptr || least->kind != Atom::Kind::kMin) return end;
    for (const bool k : {false, true})
      if (least->arguments[k] == size && least->arguments[!k].constant().value_or(-1) >= 0) return least->arguments[!k];
    return end;
  }

  // A position in ONNX's form: a negative number if it is counted from the end.
  static Index from_either_end(const Index& position, const Index& size) {
    if (position.is_constant()) return position;
    const auto from_end = (position - size).constant();
    return from_end && *from_end < 0 ? Index(*from_end) : position;
  }

  // The inverse within zeros: sum what a step of 0 repeats and undo negative steps, then insert zeros between (as columns of a
  // wider tensor), before and after.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const Indices from = b.shape_of(call.inputs[0]);
    const std::size_t rank = from.size();
    ValueId g = call.output_gradients[0];
    if (product(length) == Index(0)) return {b.filled(b.type_of(call.inputs[0]), 0)};
    Indices before, behind;
    for (std::size_t a = 0; a < rank; ++a) {
      const bool backward = step[a].value() < 0, repeats = step[a] == Index(0);
      if (repeats) g = b.add("ReduceSum", {g}, {{"axes", Indices{a}}, {"keepdims", true}});
      const Index stride = repeats    ? Index(1)
                           : backward ? -step[a]
                                      : step[a],
                  first = backward ? begin[a] + (length[a] - 1) * step[a] : begin[a];
      if (backward) {
        SliceOperator reversed{.begin = Indices(rank, 0), .length = length, .step = Indices(rank, 1)};
        reversed.length = b.shape_of(g);
        reversed.begin[a] = length[a] - 1, reversed.step[a] = -1;
        g = b.node(registry().get(kName), to_attributes(reversed), {g}).at(0);
      }
      if (!(stride == Index(1))) {
        Indices wide = b.shape_of(g), none(rank + 1, 0), zeros(rank + 1, 0);
        wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(a) + 1, Index(1));
        zeros[a + 1] = stride - 1;
        g = b.add("Pad", {b.reshaped(g, wide)}, {{"pads_begin", none}, {"pads_end", zeros}});
        Indices merged = b.shape_of(g);
        merged[a] = merged[a] * merged[a + 1];
        merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(a) + 1);
        g = b.reshaped(g, merged);
      }
      before.push_back(first);
      behind.push_back(from[a] - first - b.shape_of(g)[a]);
    }
    const Indices none(rank, 0);
    return {before == none && behind == none ? g : b.add("Pad", {g}, {{"pads_begin", before}, {"pads_end", behind}})};
  }
};

}  // namespace

void register_slice(Registry& r) { r.add<SliceOperator>(); }

}  // namespace rewright::operators
