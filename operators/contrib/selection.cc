// Operators that choose and move elements: axes, windows, embeddings, crops of images, n-grams that would be repeated; dropout.
#include <limits>
#include <utility>

#include "operators/contrib/contrib.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

std::size_t checked(std::int64_t axis, std::size_t rank, const char* name) {
  const auto count = static_cast<std::int64_t>(rank);
  ContribNode::require(axis >= -count && axis < count, std::string(name) + " is " + std::to_string(axis) + ", must be from " +
                                                           std::to_string(-count) + " to " + std::to_string(count - 1));
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

Results expand_dims(ContribNode& n, std::string& reason) {
  const auto axis = n.known_integers(1, "its axis", reason);
  if (!axis) return std::nullopt;
  n.require(axis->size() == 1, "its axis has " + std::to_string(axis->size()) + " elements, must have one");
  const std::size_t at = checked(axis->front(), n.shape(0).size() + 1, "its axis");
  return n.results({n.b.add("Unsqueeze", {n.input(0)}, {{"axes", Indices{Index(at)}}})});
}

// Windows of `size` entries of an axis, one every `step`; the entries of a window become the last axis.
Results unfold(ContribNode& n, std::string&) {
  const Indices shape = n.shape(0);
  const std::size_t axis = checked(n.source.integer("dim", -1), shape.size(), "dim");
  const std::int64_t size = n.positive("size"), step = n.source.integer("step", 1);
  n.require(step > 0, "step is " + std::to_string(step) + ", must be positive");
  const Index all = shape[axis];
  n.require(!all.is_constant() || all.value() >= size, "size is " + std::to_string(size) + ", its axis has " + all.to_string());
  const Index count = floor_div(all - size, step) + 1;
  const ValueId first = n.b.add("Range", {}, {{"delta", Index(step)}, {"count", count}});
  const ValueId places = n.b.add("Add", {n.b.reshaped(first, {count, 1}), n.range(size)});
  const ValueId windows = n.b.add("Gather", {n.input(0), places}, {{"axis", Index(axis)}});
  Indices perm;
  for (std::size_t a = 0; a <= shape.size(); ++a)
    if (a != axis + 1) perm.emplace_back(a);
  perm.emplace_back(axis + 1);
  return n.results({n.b.transposed(windows, perm)});
}

// Rows of a table; the other inputs are for its gradient.
Results torch_embedding(ContribNode& n, std::string&) {
  n.require_rank(0, 2);
  return n.results({n.b.add("Gather", {n.input(0), n.input(1)}, {{"axis", Index(0)}})});
}

// The scores of words that would repeat an n-gram of the text become -infinity: those that followed the text's last n - 1 words
// before.
Results n_gram_repeat_block(ContribNode& n, std::string&) {
  n.require_rank(0, 2), n.require_rank(1, 2);
  const std::int64_t size = n.positive("ngram_size");
  constexpr std::int64_t kMost = 1024;
  n.require(size <= kMost, "ngram_size is " + std::to_string(size) + ", more than " + std::to_string(kMost));
  const Index length = n.shape(0)[1];
  // With n - 1 words that no text has in front there are as many windows as words, and a text of fewer words repeats nothing.
  const ValueId nothing = n.b.scalar(n.type(0), -1);
  const ValueId text = n.b.add("Pad", {n.input(0), nothing}, {{"pads_begin", Indices{0, size - 1}}});
  const auto words = [&](const Index& first, const Index& count) { return n.entries(text, 1, first, count); };
  const DataType type = n.type(1);
  const ValueId blocked = n.b.scalar(type, -std::numeric_limits<double>::infinity());
  const ValueId free = n.b.scalar(type, std::numeric_limits<double>::infinity());
  ValueId matches = kNoGradient;
  for (std::int64_t i = 0; i + 1 < size; ++i) {
    const ValueId same = n.b.add("Equal", {words(i, length), words(length + i, 1)});
    matches = matches == kNoGradient ? same : n.b.add("And", {matches, same});
  }
  const Indices sizes{n.shape(0)[0], length};
  const ValueId limits = matches == kNoGradient ? n.b.filled({type, sizes}, -std::numeric_limits<double>::infinity())
                                                : n.b.add("Where", {matches, blocked, free});
  const ValueId next = n.b.cast(words(size - 1, length), DataType::kInt64);
  return n.results(
      {n.b.add("ScatterElements", {n.input(1), next, limits}, {{"axis", Index(1)}, {"reduction", std::string("min")}})});
}

// Parts of images, each of one image of the batch and with corners as fractions of its size, resampled to one size. A position
// outside of the image has the value that an attribute says.
Results crop_and_resize(ContribNode& n, std::string& reason) {
  n.require_rank(0, 4), n.require_rank(1, 2), n.require_rank(2, 1);
  n.require_equal(n.shape(1)[1], 4, "the number of its corners' coordinates");
  n.require_equal(n.shape(2)[0], n.shape(1)[0], "the number of its parts' images");
  const auto sizes = n.known_integers(3, "the size of its parts", reason);
  if (!sizes) return std::nullopt;
  n.require(sizes->size() == 2 && sizes->at(0) > 0 && sizes->at(1) > 0, "the size of its parts must be two positive numbers");
  const std::string mode = n.source.text("mode", "bilinear");
  n.require(mode == "bilinear" || mode == "nearest", "mode is " + mode + ", must be bilinear or nearest");
  const Indices image = n.shape(0);
  if (!image[2].is_constant() || !image[3].is_constant() || image[2].value() == 0 || image[3].value() == 0) {
    reason = "the size of its images is not known";
    return std::nullopt;
  }
  GraphBuilder& b = n.b;
  const DataType type = n.type(0);
  Formulas f(b, type);
  const Index parts = n.shape(1)[0];
  const auto along = [&](ValueId v, std::size_t axis) {  // over [parts, height, width, 1]
    const Indices given = b.shape_of(v);
    Indices shape{parts, 1, 1, 1};
    if (given.size() > 1) shape[axis] = given[1];
    return b.reshaped(v, shape);
  };

  // Along an axis of the image: the positions [parts, size], whether they lie inside, and the entries beside them.
  struct Axis {
    ValueId is_inside, low, high, fraction;
  };
  const auto positions = [&](std::size_t which) {
    const std::int64_t size = (*sizes)[which], last = image[2 + which].value() - 1;
    const auto corner = [&](std::size_t i) { return n.entries(n.input(1), 1, Index(i), 1); };
    const ValueId first = corner(which), end = corner(which + 2);
    const auto extent = static_cast<double>(last);
    ValueId at = kNoGradient;
    if (size > 1) {
      const ValueId step =
          f.quotient(f.times(f.difference(end, first), f.number(extent)), f.number(static_cast<double>(size - 1)));
      const ValueId numbers = b.cast(n.range(size), type);
      at = f.sum(f.times(first, f.number(extent)), f.times(numbers, step));
    } else {
      at = f.times(f.scaled(f.sum(first, end), 0.5), f.number(extent));
    }
    const ValueId inside = f.inside(at, 0, extent), used = f.where(inside, at, f.number(0));
    const ValueId low = mode == "nearest" ? f.floor(f.plus(used, 0.5)) : f.floor(used);
    const auto entry = [&](ValueId v) { return along(b.cast(v, DataType::kInt64), 1 + which); };
    const ValueId high = b.add("Ceil", {used});
    return Axis{along(inside, 1 + which), entry(low), entry(high), along(f.difference(used, low), 1 + which)};
  };
  const Axis y = positions(0), x = positions(1);

  const ValueId pixels = n.channels_last(n.input(0));
  const Indices places{parts, (*sizes)[0], (*sizes)[1], 1};
  const auto spread = [&](ValueId v) { return b.add("Expand", {v}, {{"shape", places}}); };
  const ValueId batch = spread(along(b.cast(n.input(2), DataType::kInt64), 1));
  const auto pixels_at = [&](ValueId row, ValueId column) {
    return b.add("GatherND", {pixels, n.joined({batch, spread(row), spread(column)}, 3)});
  };
  const auto between = [&](ValueId from, ValueId to, ValueId fraction) {
    return f.sum(from, f.times(f.difference(to, from), fraction));
  };
  ValueId result = pixels_at(y.low, x.low);
  if (mode == "bilinear")
    result = between(between(result, pixels_at(y.low, x.high), x.fraction),
                     between(pixels_at(y.high, x.low), pixels_at(y.high, x.high), x.fraction), y.fraction);
  const ValueId inside = b.add("And", {y.is_inside, x.is_inside});
  result = f.where(inside, result, f.number(n.source.real("extrapolation_value", 0)));
  return n.results({n.channels_first(result)});
}

// data + bias + residual: without training nothing is dropped.
Results bias_dropout(ContribNode& n, std::string& reason) {
  if (n.has(4)) {
    const auto mode = n.source.constant_value(n.source.input(4));
    if (!mode || mode->size() != 1 || mode->integers().front() != 0) {
      reason = "it may train";
      return std::nullopt;
    }
  }
  const ValueId y = n.plus(n.plus(n.input(0), n.input(1)), n.optional_input(2));
  if (n.source.output_count() < 2) return n.results({y});
  return n.results({y, n.b.filled({DataType::kBool, n.shape(0)}, 1)});
}

}  // namespace

void register_contrib_selection(ContribOperators& c) {
  c.add("ExpandDims", expand_dims);
  c.add("UnfoldTensor", unfold);
  c.add("TorchEmbedding", torch_embedding);
  c.add("NGramRepeatBlock", n_gram_repeat_block);
  c.add("CropAndResize", crop_and_resize);
  c.add("BiasDropout", bias_dropout);
}

}  // namespace rewright::operators
