// Elements moved to other positions, as graphs of operators: columns and pools placed back, reversed sequences, a 1 at the
// maximum.
#include <optional>
#include <string>
#include <vector>

#include "operators/definitions/axes.h"
#include "operators/definitions/window.h"
#include "operators/procedures/procedures.h"
#include "operators/source_builder.h"

namespace rewright::operators {

namespace {

using Imported = std::optional<std::vector<OnnxValue>>;

[[noreturn]] void refuse_placement(const std::string& why) { throw Error(ErrorCode::kBadInput, why); }

// Adds columns, each the elements of a window, back at the positions that they come from: a transposed convolution whose weight
// is 1 at the column's own position.
Imported graph_of_col2im(OnnxSource& source, std::string& reason) {
  SourceBuilder b(source);
  const ValueId x = b.input(0);
  const auto image = source.contents(source.input(1)), block = source.contents(source.input(2));
  const Indices shape = b.shape_of(x);
  if (!image || !block || !all_constant(*image) || !all_constant(*block)) {
    reason = "its image_shape or block_shape is not known";
    return std::nullopt;
  }
  const Sizes kernel = values(*block), sizes = values(*image);
  const Window window = import_window(source, kernel);
  const std::size_t rank = kernel.size();
  if (shape.size() != 3 || sizes.size() != rank) refuse_placement("its inputs do not fit together");
  const std::int64_t taps = element_count(kernel);
  if (!all_constant(Indices{shape[1], shape[2]})) {
    reason = "the number of its columns is not known";
    return std::nullopt;
  }
  Indices counts{shape[0] * (shape[1].value() / taps), Index(taps)}, left, result{shape[0], Index(shape[1].value() / taps)};
  for (std::size_t a = 0; a < rank; ++a) {
    const WindowCount windows = count_windows(window, a, sizes[a]);
    counts.emplace_back(windows.count);
    left.emplace_back(windows.left);
    result.emplace_back(sizes[a]);
  }
  if (shape[1].value() % taps != 0 || !(product(Indices(counts.begin() + 2, counts.end())) == shape[2]))
    refuse_placement("the columns are not those of the windows");
  const DataType type = b.type_of(x).type;
  if (product(Indices{shape[1], shape[2]}) == Index(0)) return SourceBuilder::results({b.filled({type, result}, 0)});
  std::vector<double> own(static_cast<std::size_t>(taps * taps));
  for (std::int64_t t = 0; t < taps; ++t) own[static_cast<std::size_t>(t * taps + t)] = 1;
  Sizes weight{taps, 1};
  weight.insert(weight.end(), kernel.begin(), kernel.end());
  const ValueId y = b.add("ConvTranspose", {b.reshaped(x, counts), b.constant(Tensor::from_reals(type, weight, own))},
                          {{"strides", window.strides},
                           {"dilations", window.dilations},
                           {"pads_begin", window.pads_begin},
                           {"pads_end", window.pads_end},
                           {"output_padding", left}});
  return SourceBuilder::results({b.reshaped(y, result)});
}

// Places in a tensor of these sizes, row-major, as places of the same elements in one that is larger at the ends of axes.
// nullopt if sizes are not known, an axis is smaller, or the first one is not the same: then places that do not exist would not
// be refused.
std::optional<ValueId> places_in_larger(SourceBuilder& b, ValueId places, const Indices& sizes, const Indices& larger) {
  if (!all_constant(sizes) || !all_constant(larger) || !(sizes[0] == larger[0]) || product(sizes) == Index(0))
    return std::nullopt;
  std::size_t first = sizes.size();  // axis that differs
  for (std::size_t a = sizes.size(); a-- > 0;) {
    if (larger[a].value() < sizes[a].value()) return std::nullopt;
    if (!(larger[a] == sizes[a])) first = a;
  }
  if (first == sizes.size()) return places;
  const auto number = [&](std::int64_t n) {
    return b.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector<std::int64_t>{n}));
  };
  const auto times = [&](ValueId value, std::int64_t factor) {
    return factor == 1 ? value : b.add("Mul", {value, number(factor)});
  };
  ValueId rest = places, moved = kNoGradient;
  std::int64_t stride = 1;
  const auto add = [&](ValueId part) { moved = moved == kNoGradient ? part : b.add("Add", {moved, part}); };
  for (std::size_t a = sizes.size(); a-- > first; stride *= larger[a].value()) {
    const ValueId here = b.add("Mod", {rest, number(sizes[a].value())});
    add(times(here, stride));
    rest = b.add("Div", {b.add("Sub", {rest, here}), number(sizes[a].value())});
  }
  add(times(rest, stride));
  return moved;
}

// Places elements where a MaxPool found them, with 0 elsewhere; a given shape has the pooled tensor at its beginning.
Imported graph_of_max_unpool(OnnxSource& source, std::string& reason) {
  SourceBuilder b(source);
  const ValueId x = b.input(0), indices = b.input(1);
  const Indices shape = b.shape_of(x);
  const Sizes kernel = source.integers("kernel_shape");
  const Window window = import_window(source, kernel);
  const std::size_t rank = kernel.size();
  if (shape.size() != rank + 2 || !(b.shape_of(indices) == shape)) refuse_placement("its inputs do not fit together");
  Indices sizes{shape[0], shape[1]};
  for (std::size_t a = 0; a < rank; ++a)
    sizes.push_back((shape[a + 2] - 1) * window.strides[a] + window.kernel[a] - window.pads_begin[a] - window.pads_end[a]);
  const Index count = product(shape);
  const auto place = [&](ValueId at, const Indices& shape_of_result) {
    const ValueId zeros = b.filled({b.type_of(x).type, {product(shape_of_result)}}, 0);
    return b.reshaped(b.add("ScatterElements", {zeros, at, b.reshaped(x, {count})}), shape_of_result);
  };
  const ValueId places = b.reshaped(b.cast(indices, DataType::kInt64), {count});
  if (b.input(2) == kNoGradient) return SourceBuilder::results({place(places, sizes)});
  const auto wanted = source.contents(source.input(2));
  if (!wanted) {
    reason = "its output_shape is not known";
    return std::nullopt;
  }
  if (wanted->size() != sizes.size()) refuse_placement("output_shape has a wrong number of entries");
  Indices more;
  for (std::size_t a = 0; a < sizes.size(); ++a) more.push_back((*wanted)[a] - sizes[a]);
  // There are fewer elements to place than results, so places are counted anew rather than the result padded.
  if (const auto moved = places_in_larger(b, places, sizes, *wanted)) return SourceBuilder::results({place(*moved, *wanted)});
  return SourceBuilder::results({b.add("Pad", {place(places, sizes)}, {{"pads_end", more}})});
}

// Reverses the first entries of each sequence of a batch.
Imported graph_of_reverse_sequence(OnnxSource& source, std::string&) {
  SourceBuilder b(source);
  const ValueId x = b.input(0);
  const Indices shape = b.shape_of(x);
  const auto axis_of = [&](const char* attribute, std::int64_t otherwise) {
    return static_cast<std::size_t>(canonical_axis(source.integer(attribute, otherwise), shape.size()).value());
  };
  const std::size_t batch = axis_of("batch_axis", 1), time = axis_of("time_axis", 0);
  if (batch == time || !(b.shape_of(b.input(1)) == Indices{shape[batch]}))
    refuse_placement("the axes or sequence_lens are wrong");
  const auto along = [&](ValueId v, std::size_t axis) {
    Indices sizes(shape.size(), 1);
    sizes[axis] = shape[axis];
    return b.reshaped(v, sizes);
  };
  const ValueId t = along(b.add("Range", {}, {{"count", shape[time]}}), time);
  const auto number = [&](std::int64_t n) {
    return b.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector<std::int64_t>{n}));
  };
  const bool moves_rows = time < 2 && batch < 2 && all_constant({shape[0], shape[1]});
  ValueId length = along(b.cast(b.input(1), DataType::kInt64), batch);
  if (moves_rows) {
    // Too long a sequence must leave the tensor, not reach into the next sequence's rows.
    const std::int64_t steps = shape[time].value(), rows = steps * shape[batch].value();
    length = b.add("Where", {b.add("Less", {number(steps), length}), number(steps + rows), length});
  }
  const ValueId turned = b.add("Sub", {b.add("Sub", {length, number(1)}), t});
  const ValueId places = b.add("Where", {b.add("Less", {t, length}), turned, t});
  if (moves_rows) {  // rows of both axes, each moved as a whole
    const auto rows_before = [&](ValueId entry, std::size_t axis) {
      return b.add("Mul", {entry, number(axis == 0 ? shape[1].value() : 1)});
    };
    const ValueId own = along(b.add("Range", {}, {{"count", shape[batch]}}), batch);
    const ValueId rows = b.add("Add", {rows_before(places, time), rows_before(own, batch)});
    Indices joined(shape.begin() + 1, shape.end());
    joined[0] *= shape[0];
    const ValueId moved =
        b.add("Gather", {b.reshaped(x, joined), b.reshaped(rows, {shape[0], shape[1]})}, {{"axis", Index(0)}});
    return SourceBuilder::results({moved});
  }
  return SourceBuilder::results(
      {b.add("GatherElements", {x, b.add("Expand", {places}, {{"shape", shape}})}, {{"axis", Index(time)}})});
}

// 1 at the first largest element along the axis (before opset 13: along all axes from it on), 0 elsewhere.
Imported graph_of_hardmax(OnnxSource& source, std::string&) {
  SourceBuilder b(source);
  const ValueId x = b.input(0);
  const Indices shape = b.shape_of(x);
  const bool flattens = source.opset() < 13;
  const auto axis = static_cast<std::size_t>(canonical_axis(source.integer("axis", flattens ? 1 : -1), shape.size()).value());
  Indices sizes = shape;
  if (flattens) {
    const auto first = shape.begin() + static_cast<std::ptrdiff_t>(axis);
    sizes.assign(shape.begin(), first);
    sizes.push_back(product(Indices(first, shape.end())));
  }
  const TensorType type{b.type_of(x).type, shape};
  if (product(shape) == Index(0)) return SourceBuilder::results({b.filled(type, 0)});
  const ValueId largest = b.add("ArgMax", {b.reshaped(x, sizes)}, {{"axis", Index(axis)}, {"keepdims", true}});
  Indices one = sizes;
  one[axis] = 1;
  const ValueId placed = b.add("ScatterElements", {b.filled({type.type, sizes}, 0), largest, b.filled({type.type, one}, 1)},
                               {{"axis", Index(axis)}});
  return SourceBuilder::results({b.reshaped(placed, shape)});
}

}  // namespace

void register_placement(Procedures& p) {
  p.add_graph("Col2Im", graph_of_col2im);
  p.add_graph("MaxUnpool", graph_of_max_unpool);
  p.add_graph("ReverseSequence", graph_of_reverse_sequence);
  p.add_graph("Hardmax", graph_of_hardmax);
}

}  // namespace rewright::operators
