// Operators that choose and move elements: axes, windows, embeddings, crops of images, n-grams that would be repeated; dropout.
#include <algorithm>
#include <limits>
#include <utility>

#include "operators/contrib/contrib.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

Results expand_dims(ContribNode& n, std::string& reason) {
  const auto axis = n.known_integers(1, "its axis", reason);
  if (!axis) return std::nullopt;
  n.require(axis->size() == 1, "its axis has " + std::to_string(axis->size()) + " elements, must have one");
  const std::size_t at = checked_axis(axis->front(), n.shape(0).size() + 1);
  return n.results({n.b.add("Unsqueeze", {n.input(0)}, {{"axes", Indices{Index(at)}}})});
}

// Windows of `size` entries of an axis, one every `step`; the entries of a window become the last axis.
Results unfold(ContribNode& n, std::string& reason) {
  const Indices shape = n.shape(0);
  const std::size_t axis = checked_axis(n.source.integer("dim", -1), shape.size());
  const std::int64_t size = n.positive("size"), given_step = n.source.integer("step", 1);
  n.require(given_step > 0, "step is " + std::to_string(given_step) + ", must be positive");
  const Index all = shape[axis];
  if (!all.is_constant()) {
    reason = "the length of its axis is not known";
    return std::nullopt;
  }
  n.require(all.value() >= size, "size is " + std::to_string(size) + ", its axis has " + all.to_string());
  const std::int64_t step = std::min(given_step, all.value()), count = (all.value() - size) / step + 1;
  const ValueId first = n.b.add("Range", {}, {{"delta", Index(step)}, {"count", Index(count)}});
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
  n.require_equal(n.shape(1)[0], n.shape(0)[0], "the number of its scores' rows");
  n.require(n.type(0) == DataType::kInt64 && is_real(n.type(1)), "its words must be int64, its scores real numbers");
  const std::int64_t size = n.positive("ngram_size");
  constexpr std::int64_t kMost = 1024;
  n.require(size <= kMost, "ngram_size is " + std::to_string(size) + ", more than " + std::to_string(kMost));
  const Index length = n.shape(0)[1];
  // With n - 1 words that no text has in front there are as many windows as words, and a text of fewer words repeats nothing.
  const ValueId nothing = n.b.scalar(n.type(0), -1);
  const ValueId text = n.b.add("Pad", {n.input(0), nothing}, {{"pads_begin", Indices{0, size - 1}}});
  const auto words = [&](const Index& first, const Index& count) { return n.entries(text, 1, first, count); };
  ValueId matches = n.b.filled({DataType::kInt32, {n.shape(0)[0], length}}, 1);
  for (std::int64_t i = 0; i + 1 < size; ++i) {
    const ValueId same = n.b.cast(n.b.add("Equal", {words(i, length), words(length + i, 1)}), DataType::kInt32);
    matches = i == 0 ? same : n.b.add("Mul", {matches, same});
  }
  const ValueId none = n.b.filled({DataType::kInt32, n.shape(1)}, 0);
  const ValueId counts = n.b.add("ScatterElements", {none, words(size - 1, length), matches},
                                 {{"axis", Index(1)}, {"reduction", std::string("max")}});
  const ValueId blocked = n.b.scalar(n.type(1), -std::numeric_limits<double>::infinity());
  return n.results({n.b.add("Where", {n.b.cast(counts, DataType::kBool), blocked, n.input(1)})});
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

  const Indices places{parts, (*sizes)[0], (*sizes)[1], 1};
  const auto spread = [&](ValueId v) { return b.add("Expand", {v}, {{"shape", places}}); };

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
    const ValueId high = mode == "bilinear" ? b.add("Ceil", {used}) : kNoGradient;
    return Axis{along(inside, 1 + which), spread(entry(low)), mode == "bilinear" ? spread(entry(high)) : kNoGradient,
                along(f.difference(used, low), 1 + which)};
  };
  const Axis y = positions(0), x = positions(1);

  const ValueId pixels = n.channels_last(n.input(0));
  const ValueId batch = spread(along(b.cast(n.input(2), DataType::kInt64), 1));
  const auto pixels_at = [&](ValueId row, ValueId column) {
    return b.add("GatherND", {pixels, n.joined({batch, row, column}, 3)});
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
    if (!mode || mode->size() != 1 || mode->reals().front() != 0) {
      reason = "it may train";
      return std::nullopt;
    }
  }
  for (const std::size_t added : {1, 2}) {
    const bool is_row = added == 1 && n.shape(1).size() == 1;
    n.require(!n.has(added) || is_row || n.shape(added).size() == n.shape(0).size(), "its bias or residual has another rank");
    for (std::size_t a = 0; n.has(added) && !is_row && a < n.shape(0).size(); ++a)
      n.require_equal(n.shape(added)[a], n.shape(0)[a], "axis " + std::to_string(a) + " of its bias or residual");
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
