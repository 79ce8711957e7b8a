// Interpolation at computed positions, as graphs of operators: grids, and convolutions with offsets.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "operators/definitions/window.h"
#include "operators/formulas.h"
#include "operators/procedures/procedures.h"
#include "operators/source_builder.h"

namespace rewright::operators {

namespace {

using Imported = std::optional<std::vector<OnnxValue>>;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kBadInput, why); }

// One element beside a position on an axis: its index (a whole number, as a real), and its weight.
struct SampleTap {
  ValueId at, weight;
};

std::vector<SampleTap> linear_taps(Formulas& f, ValueId x) {
  const ValueId below = f.floor(x), rest = f.difference(x, below);
  return {{below, f.difference(f.number(1), rest)}, {f.plus(below, 1), rest}};
}

// Cubic interpolation of Keys, 1981, with a = -0.75.
std::vector<SampleTap> cubic_taps(Formulas& f, ValueId x) {
  constexpr double a = -0.75;
  const ValueId below = f.floor(x), r = f.difference(x, below), s = f.difference(f.number(1), r);
  const auto outer = [&](ValueId d) {
    const ValueId inner = f.plus(f.times(f.plus(f.scaled(d, a), -5 * a), d), 8 * a);
    return f.plus(f.times(inner, d), -4 * a);
  };
  const auto inner = [&](ValueId d) { return f.plus(f.times(f.times(f.plus(f.scaled(d, a + 2), -(a + 3)), d), d), 1); };
  return {{f.plus(below, -1), outer(f.plus(r, 1))},
          {below, inner(r)},
          {f.plus(below, 1), inner(s)},
          {f.plus(below, 2), outer(f.plus(s, 1))}};
}

// Whether elements of images are [images, channels, elements] or [images, elements, channels]; results likewise, with points in
// place of elements. A channel's elements are looked up one by one, those of all channels as a row.
enum class Channels { kFirst, kLast };

// For each point: the sum, over all combinations of one tap for each axis, of the product of their weights and the element at
// them. The elements of an image have these sizes in row-major order; taps: [images, points] each, in the type of the images.
ValueId combined(Formulas& f, ValueId images, Channels channels, const Indices& sizes,
                 const std::vector<std::vector<SampleTap>>& taps) {
  GraphBuilder& b = f.b;
  ValueId total = kNoGradient;
  std::vector<std::size_t> choice(taps.size(), 0);
  while (true) {
    ValueId place = kNoGradient, weight = kNoGradient;
    for (std::size_t a = 0; a < taps.size(); ++a) {
      const SampleTap& tap = taps[a][choice[a]];
      const ValueId at = b.cast(tap.at, DataType::kInt64);
      const ValueId size = b.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector{sizes[a].value()}));
      place = place == kNoGradient ? at : b.add("Add", {b.add("Mul", {place, size}), at});
      weight = weight == kNoGradient ? tap.weight : f.times(weight, tap.weight);
    }
    Indices points = b.shape_of(place);
    points.insert(channels == Channels::kFirst ? points.begin() + 1 : points.end(), 1);
    place = b.reshaped(place, points);
    ValueId found = kNoGradient;
    if (channels == Channels::kFirst) {
      const Indices all{points[0], b.shape_of(images)[1], points[2]};
      found = b.add("GatherElements", {images, b.add("Expand", {place}, {{"shape", all}})}, {{"axis", Index(2)}});
    } else {
      found = b.add("GatherND", {images, place}, {{"batch_dims", Index(1)}});
    }
    const ValueId term = f.times(found, b.reshaped(weight, points));
    total = total == kNoGradient ? term : f.sum(total, term);
    std::size_t axis = taps.size();
    while (axis > 0 && ++choice[axis - 1] == taps[axis - 1].size()) choice[--axis] = 0;
    if (axis == 0) return total;
  }
}

// Gives taps outside of an axis the weight 0, and lets them read its border.
void drop_outside(Formulas& f, std::vector<SampleTap>& taps, double last) {
  for (SampleTap& tap : taps) {
    tap.weight = f.where(f.inside(tap.at, 0, last), tap.weight, f.number(0));
    tap.at = f.clamped(tap.at, 0, last);
  }
}

// ---- GridSample

struct Grid {
  bool aligned;
  std::string mode, padding;

  // Mirrors at the borders until x is inside.
  ValueId reflected(Formulas& f, ValueId x, double size) const {
    const double low = aligned ? 0 : -0.5, range = aligned ? size - 1 : size;
    if (range <= 0) return f.scaled(x, 0);
    const ValueId distance = f.b.add("Abs", {f.plus(x, -low)}), turns = f.floor(f.scaled(distance, 1 / range));
    const ValueId rest = f.difference(distance, f.scaled(turns, range));
    const ValueId odd = f.difference(turns, f.scaled(f.floor(f.scaled(turns, 0.5)), 2));
    const ValueId back = f.difference(f.number(range), rest);
    return f.plus(f.where(f.b.add("Less", {odd, f.number(0.5)}), rest, back), low);
  }

  // Positions are from -1 to 1.
  std::vector<SampleTap> taps(Formulas& f, ValueId position, double size) const {
    const double last = size - 1;
    const ValueId one_on = f.plus(position, 1);
    ValueId x = aligned ? f.scaled(one_on, last / 2) : f.scaled(f.plus(f.scaled(one_on, size), -1), 0.5);
    // A position that no 64-bit integer can hold, NaN included, counts as -1: as torch documents for NaN, and as ONNX Runtime
    // computes.
    x = f.where(f.less(f.b.add("Abs", {x}), f.number(0x1p63)), x, f.number(aligned ? 0 : -0.5));
    constexpr double kFar = 1e9;
    x = f.clamped(x, -kFar, kFar);
    const bool is_cubic = mode == "cubic";
    if (mode == "nearest") x = f.b.add("Round", {x});
    if (!is_cubic && padding == "border") x = f.clamped(x, 0, last);
    if (!is_cubic && padding == "reflection") x = reflected(f, x, size);
    std::vector<SampleTap> taps = is_cubic ? cubic_taps(f, x) : linear_taps(f, x);
    if (mode == "nearest") taps = {{f.b.add("Round", {x}), f.number(1)}};
    if (padding == "zeros") {
      drop_outside(f, taps, last);
      return taps;
    }
    for (SampleTap& tap : taps) {
      if (padding == "reflection") tap.at = f.b.add("Round", {reflected(f, tap.at, size)});
      tap.at = f.clamped(tap.at, 0, last);
    }
    return taps;
  }
};

Imported graph_of_grid_sample(OnnxSource& source, std::string& reason) {
  SourceBuilder b(source);
  const ValueId x = b.input(0), grid = b.input(1);
  const Indices shape = b.shape_of(x), points = b.shape_of(grid);
  const std::size_t rank = shape.size(), axes = rank - 2;
  if (rank < 3 || points.size() != rank || !(points.back() == Index(axes)) || !(points[0] == shape[0]))
    refuse("the grid does not fit the input");
  Indices result{shape[0], shape[1]};
  result.insert(result.end(), points.begin() + 1, points.end() - 1);
  const Indices spatial(shape.begin() + 2, shape.end());
  if (!all_constant(spatial)) {
    reason = "the sizes of what it samples are not known";
    return std::nullopt;
  }
  const TensorType type{b.type_of(x).type, result};
  const Index area = product(spatial), count = product(Indices(points.begin() + 1, points.end() - 1));
  if (area == Index(0) || count == Index(0)) return SourceBuilder::results({b.filled(type, 0)});
  Grid g{source.integer("align_corners", 0) != 0, source.text("mode", "linear"), source.text("padding_mode", "zeros")};
  if (g.mode == "bilinear") g.mode = "linear";
  if (g.mode == "bicubic") g.mode = "cubic";

  // Positions in 16 bits would be some hundredths of a picture off: these are computed, and weighted, in float.
  const DataType grid_type = b.type_of(grid).type;
  const bool in_double = type.type == DataType::kDouble || grid_type == DataType::kDouble;
  const DataType work = in_double ? DataType::kDouble : DataType::kFloat;
  Formulas f(b, work);
  const ValueId rows = b.reshaped(b.cast(grid, work), {shape[0], count, Index(axes)});
  std::vector<std::vector<SampleTap>> taps;
  for (std::size_t a = 0; a < axes; ++a) {  // the grid's last coordinate is that of the first axis
    const ValueId one =
        b.add("Slice", {rows}, {{"begin", Indices{0, 0, Index(axes - 1 - a)}}, {"length", Indices{shape[0], count, 1}}});
    taps.push_back(g.taps(f, b.reshaped(one, {shape[0], count}), static_cast<double>(spatial[a].value())));
    for (SampleTap& tap : taps.back())
      if (b.shape_of(tap.weight).empty()) tap.weight = b.add("Expand", {tap.weight}, {{"shape", Indices{shape[0], count}}});
  }
  const ValueId images = b.reshaped(b.cast(x, work), {shape[0], shape[1], area});
  const ValueId sampled = b.cast(combined(f, images, Channels::kFirst, spatial, taps), type.type);
  return SourceBuilder::results({b.reshaped(sampled, result)});
}

// ---- DeformConv

// A convolution whose taps are moved by offsets and weighted by a mask. Inputs: x, weight, offsets, bias, mask. The moved taps'
// elements, one row for each position, are multiplied by the weight.
Imported graph_of_deform_conv(OnnxSource& source, std::string& reason) {
  SourceBuilder b(source);
  // In 16 bits, positions far from the origin would be off by a part of an element.
  const DataType type = b.type_of(b.input(0)).type, work = type == DataType::kDouble ? type : DataType::kFloat;
  const auto input = [&](std::size_t i) { return b.input(i) == kNoGradient ? kNoGradient : b.cast(b.input(i), work); };
  const ValueId x = input(0), w = input(1);
  const Indices shape = b.shape_of(x), kernel = b.shape_of(w), offsets = b.shape_of(b.input(2));
  if (shape.size() != 4 || kernel.size() != 4 || offsets.size() != 4) {
    reason = "only two spatial axes are known here";
    return std::nullopt;
  }
  for (const Indices* sizes : {&shape, &kernel, &offsets})
    if (!all_constant(Indices(sizes->begin() + 1, sizes->end()))) {
      reason = "the sizes of its inputs are not known";
      return std::nullopt;
    }
  const Sizes of{kernel[2].value(), kernel[3].value()}, counts{offsets[2].value(), offsets[3].value()};
  const Window window = import_window(source, of);
  const std::int64_t groups = source.integer("group", 1), offset_groups = source.integer("offset_group", 1);
  const std::int64_t channels = shape[1].value(), outputs = kernel[0].value(), depth = kernel[1].value();
  const std::int64_t taps = of[0] * of[1], places = counts[0] * counts[1];
  bool fits = groups >= 1 && offset_groups >= 1 && depth * groups == channels && outputs % groups == 0 &&
              channels % offset_groups == 0 && offsets[0] == shape[0] && offsets[1].value() == offset_groups * 2 * taps;
  for (std::size_t a = 0; a < 2; ++a) fits = fits && counts[a] == count_windows(window, a, shape[a + 2].value()).count;
  if (!fits) refuse("the sizes of its inputs do not fit together");
  const Index batch = shape[0], all = batch * offset_groups;
  if (places == 0 || channels * shape[2].value() * shape[3].value() == 0)
    return SourceBuilder::results({b.filled({type, {batch, outputs, counts[0], counts[1]}}, 0)});

  const Sizes strides = values(window.strides), dilations = values(window.dilations), begin = values(window.pads_begin);
  // Points are ordered by position, then by tap: a position's product needs one row. Before it is moved, a tap's index is
  // [positions, taps].
  Formulas f(b, work);
  const auto by_place = [&](ValueId v) {
    return b.reshaped(b.transposed(b.reshaped(v, {all, taps, places}), {0, 2, 1}), {all, places * taps});
  };
  const ValueId moved = b.reshaped(input(2), {all, taps, 2, places});
  std::vector<std::vector<SampleTap>> of_axes;
  for (std::size_t a = 0; a < 2; ++a) {
    std::vector<double> base;
    for (std::int64_t p = 0; p < places; ++p)
      for (std::int64_t t = 0; t < taps; ++t) {
        const std::int64_t tap = a == 0 ? t / of[1] : t % of[1], place = a == 0 ? p / counts[1] : p % counts[1];
        base.push_back(static_cast<double>(place * strides[a] + tap * dilations[a] - begin[a]));
      }
    const ValueId by =
        b.add("Slice", {moved}, {{"begin", Indices{0, 0, Index(a), 0}}, {"length", Indices{all, taps, 1, places}}});
    const ValueId at = f.sum(by_place(by), f.numbers({places * taps}, base));
    const auto last = static_cast<double>(shape[a + 2].value() - 1);
    of_axes.push_back(linear_taps(f, f.clamped(at, -1e9, 1e9)));
    drop_outside(f, of_axes.back(), last);
  }
  if (const ValueId mask = input(4); mask != kNoGradient)
    for (SampleTap& tap : of_axes[0]) tap.weight = f.times(tap.weight, by_place(mask));
  const Index in_group = channels / offset_groups;
  const Index area = shape[2] * shape[3];
  const ValueId images = b.transposed(b.reshaped(x, {all, in_group, area}), {0, 2, 1});
  ValueId columns = combined(f, images, Channels::kLast, {shape[2], shape[3]},
                             of_axes);  // [batch groups, positions * taps, channels of a group]
  const auto moved_back = [&](ValueId v, const Indices& sizes, const Indices& perm, std::int64_t count) {
    return count == 1 ? v : b.transposed(b.reshaped(v, sizes), perm);
  };
  columns = moved_back(columns, {batch, offset_groups, places * taps, in_group}, {0, 2, 1, 3}, offset_groups);
  columns = moved_back(columns, {batch, places, taps, groups, depth}, {0, 3, 1, 2, 4}, groups);
  columns = b.reshaped(columns, {batch, groups, places, taps * depth});
  const ValueId filters = b.transposed(b.reshaped(w, {groups, outputs / groups, depth, taps}), {0, 3, 2, 1});
  const ValueId products = b.add("MatMul", {columns, b.reshaped(filters, {groups, taps * depth, outputs / groups})});
  ValueId y = b.reshaped(b.transposed(products, {0, 1, 3, 2}), {batch, outputs, counts[0], counts[1]});
  if (const ValueId bias = input(3); bias != kNoGradient) y = f.sum(y, b.reshaped(bias, {outputs, 1, 1}));
  return SourceBuilder::results({b.cast(y, type)});
}

}  // namespace

void register_interpolation(Procedures& p) {
  p.add_graph("GridSample", graph_of_grid_sample);
  p.add_graph("DeformConv", graph_of_deform_conv);
}

}  // namespace rewright::operators
