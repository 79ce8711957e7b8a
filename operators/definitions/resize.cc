// Resampling along several axes at once.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "operators/definitions/families.h"
#include "operators/definitions/lists.h"
#include "operators/definitions/resample.h"
#include "operators/gradient.h"
#include "operators/onnx.h"

namespace rewright::operators {

namespace {

using Imported = std::optional<std::vector<OnnxValue>>;

struct Axis : ResampledAxis {
  std::size_t number;
};

// y[p...] = a combination of the elements of x around the source position of p on each axis. The scale of an axis is
// numerators / denominators; it need not be exactly the ratio of the sizes.
struct Resize {
  static constexpr std::string_view kName = "Resize";
  Indices sizes, numerators, denominators;
  std::string mode = "nearest", coordinates = "half_pixel", rounding = "round_prefer_floor";
  Real cubic_coefficient = -0.75;
  bool exclude_outside = false, antialias = false;
  std::vector<double> crop;  // tf_crop_and_resize: begins, then ends
  Real extrapolation = 0;    // tf_crop_and_resize: the value outside of x

  template <class V>
  void fields(V&& v) {
    v("sizes", sizes), v("numerators", numerators), v("denominators", denominators), v("mode", mode);
    v("coordinates", coordinates), v("rounding", rounding), v("cubic_coefficient", cubic_coefficient);
    v("exclude_outside", exclude_outside), v("antialias", antialias), v("crop", crop), v("extrapolation", extrapolation);
  }
  void normalize(const Inputs& in) {
    const Indices& from = in[0].shape();
    if (numerators.empty()) numerators = sizes;
    if (denominators.empty()) denominators = from;
    for (std::size_t a = 0; a < std::min({from.size(), numerators.size(), denominators.size()}); ++a) {
      if (numerators[a] == denominators[a]) {
        numerators[a] = denominators[a] = 1;
      } else if (numerators[a].is_constant() && denominators[a].is_constant() && numerators[a].value() > 0 &&
                 denominators[a].value() > 0) {
        const std::int64_t common = std::gcd(numerators[a].value(), denominators[a].value());
        numerators[a] = numerators[a].value() / common, denominators[a] = denominators[a].value() / common;
      }
    }
    if (mode != "nearest") rounding = "round_prefer_floor";
    if (mode == "nearest") antialias = false;
    if (mode != "cubic") cubic_coefficient = -0.75;
    if (mode != "cubic" && !antialias) exclude_outside = false;
    if (coordinates != "tf_crop_and_resize") crop = {}, extrapolation = 0;
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand& x = in[0];
    require_length(d, sizes, x.rank(), "sizes");
    require_length(d, numerators, x.rank(), "numerators");
    require_length(d, denominators, x.rank(), "denominators");
    d.require(mode == "nearest" || mode == "linear" || mode == "cubic", [&] { return "mode is '" + mode + "'"; });
    const bool cropped = coordinates == "tf_crop_and_resize";
    d.require(!cropped || crop.size() == 2 * x.rank(),
              [&] { return "crop has " + std::to_string(crop.size()) + " entries for " + std::to_string(x.rank()) + " axes"; });
    std::vector<Axis> axes;
    for (std::size_t a = 0; a < x.rank(); ++a) {
      d.require(less_equal(0, sizes[a]), [&] { return "sizes " + to_string(sizes) + " has a negative entry"; });
      if (sizes[a] == Index(0)) continue;
      for (const Indices& list : {numerators, denominators})
        d.require(less_equal(1, list[a]), [&] { return "scale of axis " + std::to_string(a) + " is not positive"; });
      Axis axis{{x.size(a), sizes[a], {numerators[a], denominators[a]}, {}, {}}, a};
      if (cropped) axis.crop_begin = to_fraction(crop[a]), axis.crop_end = to_fraction(crop[a + x.rank()]);
      const bool whole = !cropped || (crop[a] == 0 && crop[a + x.rank()] == 1);
      if (whole && sizes[a] == x.size(a) && numerators[a] == denominators[a]) continue;
      d.require(less_equal(1, x.size(a)), [&] { return "axis " + std::to_string(a) + " is empty, nothing to resample"; });
      axes.push_back(std::move(axis));
    }
    d.output(x.type(), sizes, [=, op = *this](const Indices& i) {
      const Element y = convert(op.combined(x, i, axes, 0), x.scalar());
      return cropped ? choose(op.inside(axes, i), y, convert(real(op.extrapolation), x.scalar())) : y;
    });
    return d;
  }

  Resampling how() const { return {mode, coordinates, rounding, cubic_coefficient, exclude_outside, antialias}; }

  // The sum over the taps of the axes from `next` on.
  Element combined(const Operand& x, const Indices& at, const std::vector<Axis>& axes, std::size_t next) const {
    if (next == axes.size()) return mode == "nearest" ? x(at) : convert(x(at), Scalar::kReal);
    Element sum;
    for (const Tap& tap : taps(how(), axes[next], at[axes[next].number])) {
      Indices there = at;
      there[axes[next].number] = tap.position;
      Element term = combined(x, there, axes, next + 1);
      if (tap.weight) term = tap.weight * std::move(term);
      sum = sum ? std::move(sum) + std::move(term) : std::move(term);
    }
    return sum;
  }

  std::vector<Condition> inside(const std::vector<Axis>& axes, const Indices& i) const {
    std::vector<Condition> conditions;
    for (const Axis& axis : axes) {
      const Fraction at = source_position(how(), axis, i[axis.number]);
      conditions.push_back(less_equal(0, at.numerator));
      conditions.push_back(less_equal(at.numerator, (axis.size - 1) * at.denominator));
    }
    return conditions;
  }

  static bool known_coordinates(const std::string& name) {
    for (const char* known : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                              "tf_half_pixel_for_nn", "tf_crop_and_resize"})
      if (name == known) return true;
    return false;
  }

  bool import_modes(const OnnxSource& source, std::string& reason) {
    mode = source.text("mode", "nearest");
    if (mode == "bilinear") mode = "linear";
    if (source.type() == "Resize" && source.opset() >= 11) {
      coordinates = source.text("coordinate_transformation_mode", "half_pixel");
      rounding = source.text("nearest_mode", "round_prefer_floor");
      cubic_coefficient = source.real("cubic_coeff_a", -0.75);
      exclude_outside = source.integer("exclude_outside", 0) != 0;
      antialias = source.integer("antialias", 0) != 0;
      extrapolation = source.real("extrapolation_value", 0);
    } else {
      coordinates = "asymmetric", rounding = "floor";
    }
    if (!known_coordinates(coordinates))
      reason = "coordinates of kind " + coordinates;
    else if (mode != "nearest" && mode != "linear" && mode != "cubic")
      reason = "mode " + mode;
    return reason.empty();
  }

  // The axes that scales and sizes are given for.
  static Indices listed_axes(const OnnxSource& source, std::size_t rank) {
    return source.has("axes") ? to_indices(source.integers("axes")) : axes_from(0, rank);
  }

  void set_scales(const Indices& from, const Indices& axes, const std::vector<double>& scales) {
    if (scales.size() != axes.size())
      throw Error(ErrorCode::kBadInput, std::to_string(scales.size()) + " scales for " + std::to_string(axes.size()) + " axes");
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const std::size_t a = axis_number(axes[k], from.size());
      const Fraction scale = to_fraction(scales[k]);
      numerators[a] = scale.numerator, denominators[a] = scale.denominator;
      sizes[a] = floor_div(from[a] * scale.numerator, scale.denominator);
    }
  }

  bool set_sizes(const Indices& from, const Indices& axes, const Indices& wanted, const std::string& policy,
                 std::string& reason) {
    if (wanted.size() != axes.size())
      throw Error(ErrorCode::kBadInput, std::to_string(wanted.size()) + " sizes for " + std::to_string(axes.size()) + " axes");
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const std::size_t a = axis_number(axes[k], from.size());
      sizes[a] = numerators[a] = wanted[k], denominators[a] = from[a];
    }
    if (policy == "stretch") return true;
    if (!all_constant(from) || !all_constant(wanted)) {
      reason = "the ratio of sizes that are not known is to be kept";
      return false;
    }
    std::size_t best = axis_number(axes.at(0), from.size());  // the axis whose scale all use: the smallest or largest one
    for (const Index& axis : axes) {
      const std::size_t a = axis_number(axis, from.size());
      const std::int64_t mine = (numerators[a] * denominators[best]).value();
      const std::int64_t other = (numerators[best] * denominators[a]).value();
      if (policy == "not_larger" ? mine < other : mine > other) best = a;
    }
    const Index n = numerators[best], d = denominators[best];
    for (const Index& axis : axes) {
      const std::size_t a = axis_number(axis, from.size());
      numerators[a] = n, denominators[a] = d;
      sizes[a] = floor_div(2 * from[a] * n + d, 2 * d);  // rounded, halves up
    }
    return true;
  }

  bool set_crop(const OnnxSource& source, std::size_t rank, const Indices& axes, std::string& reason) {
    const OnnxValue input = given(source, 1);
    const auto known = input == kAbsent ? std::nullopt : source.constant_value(input);
    if (!known || known->size() != static_cast<std::int64_t>(2 * axes.size())) {
      reason = "the part that it crops is not known";
      return false;
    }
    crop.assign(2 * rank, 0);
    std::fill(crop.begin() + static_cast<std::ptrdiff_t>(rank), crop.end(), 1);
    const std::vector<double> shares = known->reals();
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const std::size_t a = axis_number(axes[k], rank);
      crop[a] = shares[k], crop[a + rank] = shares[k + axes.size()];
    }
    return true;
  }

  // The input of this number, unless it is absent or an empty tensor.
  static OnnxValue given(const OnnxSource& source, std::size_t number) {
    if (number >= source.input_count() || source.input(number) == kAbsent) return kAbsent;
    const Indices& shape = source.type_of(source.input(number)).shape;
    return shape == Indices{0} ? kAbsent : source.input(number);
  }

  static Imported import_resize(OnnxSource& source, std::string& reason) {
    Resize op;
    if (!op.import_modes(source, reason)) return std::nullopt;
    const bool modern = source.type() == "Resize" && source.opset() >= 11;
    const Indices& from = source.type_of(source.input(0)).shape;
    const Indices axes = listed_axes(source, from.size());
    if (op.coordinates == "tf_crop_and_resize" && !op.set_crop(source, from.size(), axes, reason)) return std::nullopt;
    op.sizes = from, op.numerators.assign(from.size(), 1), op.denominators.assign(from.size(), 1);
    if (const OnnxValue wanted = modern ? given(source, 3) : kAbsent; wanted != kAbsent) {
      const auto contents = source.contents(wanted);
      if (!contents) {
        reason = "the sizes that it makes are not known";
        return std::nullopt;
      }
      if (!op.set_sizes(from, axes, *contents, source.text("keep_aspect_ratio_policy", "stretch"), reason)) return std::nullopt;
    } else {
      std::vector<double> scales = source.reals("scales");
      if (!source.has("scales")) {
        const OnnxValue input = given(source, modern ? 2 : 1);
        const auto known = input == kAbsent ? std::nullopt : source.constant_value(input);
        if (!known) {
          reason = "its scales are not known";
          return std::nullopt;
        }
        scales = known->reals();
      }
      op.set_scales(from, axes, scales);
      if (source.type() == "Resize" && !modern && op.mode == "nearest")  // opset 10 took the ceiling where it shrank
        for (const double scale : scales)
          if (scale < 1) op.rounding = "ceil";
    }
    return source.node(registry().get(kName), to_attributes(op), {source.input(0)});
  }

  std::optional<std::vector<double>> scales_for(const Indices& from) const {
    std::vector<double> scales;
    for (std::size_t a = 0; a < from.size(); ++a) {
      if (!numerators[a].is_constant() || !denominators[a].is_constant()) return std::nullopt;
      const float scale = static_cast<float>(numerators[a].value()) / static_cast<float>(denominators[a].value());
      if (from[a].is_constant() && sizes[a].is_constant() &&
          static_cast<std::int64_t>(std::floor(static_cast<float>(from[a].value()) * scale)) != sizes[a].value())
        return std::nullopt;
      scales.push_back(scale);
    }
    return scales;
  }

  bool write(OnnxSink& sink, OnnxValue x, const std::vector<OnnxValue>& outputs) const {
    const Indices& from = sink.type_of(x).shape;
    const auto scales = scales_for(from);
    const auto scale_tensor = [&] {
      return sink.constant(Tensor::from_reals(DataType::kFloat, {static_cast<std::int64_t>(scales->size())}, *scales));
    };
    if (sink.opset() < 11) {  // Upsample, and Resize-10, which differ only where sizes shrink
      if (!scales || coordinates != "asymmetric" || mode == "cubic" || (mode == "nearest" && rounding != "floor")) return false;
      for (const double s : *scales)
        if (s < 1) return false;
      if (sink.opset() < 9)
        sink.node("Upsample", {{"mode", mode}, {"scales", *scales}}, {x}, outputs);
      else
        sink.node(sink.opset() == 10 ? "Resize" : "Upsample", {{"mode", mode}}, {x, scale_tensor()}, outputs);
      return true;
    }
    bool by_sizes = !scales;
    if (by_sizes)
      for (std::size_t a = 0; a < from.size(); ++a)
        if (!(numerators[a] * from[a] == denominators[a] * sizes[a])) return false;
    OnnxSink::NamedAttributes named{{"mode", mode}, {"coordinate_transformation_mode", coordinates}};
    if (mode == "nearest") named.emplace_back("nearest_mode", rounding);
    if (mode == "cubic") {
      named.emplace_back("cubic_coeff_a", cubic_coefficient);
    }
    if (exclude_outside) named.emplace_back("exclude_outside", Index(1));
    if (antialias) {
      if (sink.opset() < 18) return false;
      named.emplace_back("antialias", Index(1));
    }
    if (!(extrapolation == Real(0))) named.emplace_back("extrapolation_value", extrapolation);
    const OnnxValue none = sink.opset() < 13 ? sink.constant(Tensor(DataType::kFloat, {0})) : kAbsent;
    const OnnxValue roi =
        crop.empty() ? none
                     : sink.constant(Tensor::from_reals(DataType::kFloat, {static_cast<std::int64_t>(crop.size())}, crop));
    std::vector<OnnxValue> inputs{x, roi};
    if (by_sizes) {
      inputs.push_back(none);
      inputs.push_back(sink.index_tensor(sizes));
    } else {
      inputs.push_back(scale_tensor());
    }
    sink.node("Resize", std::move(named), std::move(inputs), outputs);
    return true;
  }

  static void onnx(OnnxMapping& m) {
    m.also = {"Upsample"};
    m.import = import_resize;
    m.write = [](OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
      return from_attributes<Resize>(attributes).write(sink, inputs[0], outputs);
    };
  }

  // Resampling is a product with a matrix along each axis: the matrix is the resampled identity.
  std::vector<ValueId> gradient(const GradientCall& call) const {
    GraphBuilder& b = call.graph;
    const Indices from = b.shape_of(call.inputs[0]);
    std::vector<ValueId> result = call.none();
    ValueId g = call.output_gradients[0];
    for (std::size_t a = 0; a < from.size(); ++a) {
      if (sizes[a] == from[a] && numerators[a] == denominators[a] && crop.empty()) continue;
      Resize one = *this;
      one.sizes = {from[a], sizes[a]};
      one.numerators = {1, numerators[a]}, one.denominators = {1, denominators[a]};
      if (!crop.empty()) one.crop = {0, crop[a], 1, crop[a + from.size()]}, one.extrapolation = 0;
      const ValueId eye = b.add("Eye", {}, {{"type", b.type_of(g).type}, {"size", from[a]}});
      const ValueId matrix = b.node(registry().get(kName), to_attributes(one), {eye}).at(0);
      Indices perm = axes_from(0, from.size());
      std::swap(perm[a], perm.back());
      g = b.transposed(b.add("MatMul", {b.transposed(g, perm), b.transposed(matrix, {1, 0})}), perm);
    }
    result[0] = g;
    return result;
  }
};

}  // namespace

std::vector<Attributes> resizes_by_axis(const Attributes& resize, const Sizes& from) {
  const auto whole = from_attributes<Resize>(resize);
  const bool is_known = all_constant(whole.sizes) && all_constant(whole.numerators) && all_constant(whole.denominators);
  if (!is_known || whole.mode == "nearest" || !whole.crop.empty()) return {};
  const Sizes to = values(whole.sizes);
  if (element_count(from) == 0 || element_count(to) == 0) return {};
  std::vector<std::size_t> order;
  for (std::size_t a = 0; a < from.size(); ++a)
    if (to[a] != from[a] || whole.numerators[a] != whole.denominators[a]) order.push_back(a);
  if (order.size() < 2) return {};
  const std::size_t innermost = order.back();
  const auto step = [&](std::size_t a) { return a == innermost ? 1 : to[a] <= from[a] ? 0 : 2; };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return step(a) < step(b); });
  std::vector<Attributes> result;
  Resize one = whole;
  one.sizes = to_indices(from);
  for (const std::size_t a : order) {
    one.sizes[a] = whole.sizes[a];
    one.numerators.assign(from.size(), 1), one.denominators.assign(from.size(), 1);
    one.numerators[a] = whole.numerators[a], one.denominators[a] = whole.denominators[a];
    result.push_back(to_attributes(one));
  }
  return result;
}

void register_resize(Registry& r) { r.add<Resize>(); }

}  // namespace rewright::operators
