// Normalizations of rows and of groups of channels, with the sums before them.
#include <functional>

#include "operators/contrib/contrib.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

ValueId normalized(ContribNode& n, ValueId x, ValueId scale, ValueId bias, double epsilon) {
  std::vector<ValueId> inputs{x, scale};
  if (bias != kNoGradient) inputs.push_back(bias);
  return n.b.add("LayerNormalization", inputs, {{"axis", Index(-1)}, {"epsilon", Real(epsilon)}});
}

ValueId divided_by_root_mean_square(ContribNode& n, ValueId x, ValueId scale, const Index& axis, double epsilon) {
  return n.b.add("RMSNormalization", {x, scale}, {{"axis", axis}, {"epsilon", Real(epsilon)}});
}

// y = x / sqrt(mean(x^2) + epsilon) * scale, and the factor. It stands in ONNX's own domain, which does not have it.
Results simplified(ContribNode& n, std::string& reason) {
  const ValueId scale = n.input(1);
  const ValueId x = n.b.cast(n.input(0), n.type(1));
  const double epsilon = n.source.real("epsilon", 1e-5f);
  const std::int64_t axis = n.source.integer("axis", -1), rank = static_cast<std::int64_t>(n.shape(0).size());
  n.require(axis >= -rank && axis < rank, "axis is " + std::to_string(axis) + ", its input has rank " + std::to_string(rank));
  if (n.source.integer("stash_type", 1) != 1) {
    reason = "its statistics are no floats";
    return std::nullopt;
  }
  std::vector<ValueId> results{divided_by_root_mean_square(n, x, scale, axis, epsilon)};
  if (n.source.output_count() > 1) {
    Indices axes;
    for (std::int64_t a = axis < 0 ? axis + rank : axis; a < rank; ++a) axes.emplace_back(a);
    const ValueId wide = n.b.cast(n.input(0), DataType::kFloat);
    const ValueId mean = n.b.add("ReduceMean", {n.b.add("Mul", {wide, wide})}, {{"axes", axes}, {"keepdims", true}});
    results.push_back(n.b.add("Reciprocal", {n.b.add("Sqrt", {Formulas(n.b, DataType::kFloat).plus(mean, epsilon)})}));
  }
  return n.results(results);
}

// The results: normalized rows of the sum, two statistics that training alone has, the sum.
Results of_sum(ValueId y, ValueId sum) { return ContribNode::results({y, kNoGradient, kNoGradient, sum}); }

Results skip_layer_normalization(ContribNode& n, std::string&) {
  const ValueId sum = n.plus(n.plus(n.input(0), n.input(1)), n.optional_input(4));
  return of_sum(normalized(n, sum, n.input(2), n.optional_input(3), n.source.real("epsilon", 1e-12f)), sum);
}

Results skip_simplified(ContribNode& n, std::string&) {
  const ValueId sum = n.plus(n.plus(n.input(0), n.input(1)), n.optional_input(3));
  return of_sum(divided_by_root_mean_square(n, sum, n.input(2), -1, n.source.real("epsilon", 1e-12f)), sum);
}

// The rows of a table at some positions, and the whole of an input, as real numbers.
struct Tables {
  std::function<ValueId(std::size_t table, ValueId at)> rows;
  std::function<ValueId(std::size_t input)> whole;
};

// The embeddings of words, positions and, where given, segments, added and normalized; for each sequence the number of ones in
// its mask (0 without one); the sum. Ids and segments are inputs 0 and 1; the tables of words, positions and segments, scale
// and bias begin with input `first`, and the mask comes behind them.
Results embedded(ContribNode& n, std::size_t first, const Tables& tables, ValueId position_ids) {
  n.require_rank(0, 2);
  const Indices ids = n.shape(0);
  const std::size_t words = first, places = first + 1, segments = first + 2, scale = first + 3, bias = first + 4;
  const ValueId at = position_ids != kNoGradient ? position_ids : n.range(ids[1]);
  ValueId sum = n.plus(tables.rows(words, n.input(0)), tables.rows(places, at));
  if (n.has(1) && n.has(segments)) sum = n.plus(sum, tables.rows(segments, n.input(1)));
  const ValueId y = normalized(n, sum, tables.whole(scale), tables.whole(bias), n.source.real("epsilon", 1e-12f));
  ValueId count = kNoGradient;
  if (const std::size_t given = first + 5; n.has(given)) {
    n.require_rank(given, 2);
    n.require_equal(n.shape(given)[0], ids[0], "the number of its mask's rows");
    const ValueId mask = n.b.cast(n.input(given), DataType::kInt32);
    count = n.b.summed(n.b.cast(n.b.add("Equal", {mask, n.b.scalar(DataType::kInt32, 1)}), DataType::kInt32), {1});
  } else {
    count = n.b.filled({DataType::kInt32, {ids[0]}}, 0);
  }
  return n.results({y, count, sum});
}

ValueId gathered(ContribNode& n, std::size_t table, ValueId at) {
  return n.b.add("Gather", {n.input(table), at}, {{"axis", Index(0)}});
}

Results embed_layer_normalization(ContribNode& n, std::string&) {
  const Tables tables{[&](std::size_t table, ValueId at) { return gathered(n, table, at); },
                      [&](std::size_t input) { return n.input(input); }};
  return embedded(n, 2, tables, n.optional_input(8));
}

// With tables of 8 bits: their scales are inputs 8 to 12, their zero points 13 to 17.
Results quantized_embed_layer_normalization(ContribNode& n, std::string&) {
  const auto real = [&](ValueId v, std::size_t table) {
    return n.b.add("DequantizeLinear", {v, n.input(table + 6), n.input(table + 11)});
  };
  const Tables tables{[&](std::size_t table, ValueId at) { return real(gathered(n, table, at), table); },
                      [&](std::size_t input) { return real(n.input(input), input); }};
  const auto all = embedded(n, 2, tables, kNoGradient);
  return Results{{all->at(0), all->at(1)}};
}

// Groups of channels of x, normalized; then x * sigmoid(x) where `activation` is 1.
ValueId group_normalized(ContribNode& n, ValueId x) {
  const bool is_last = n.source.integer("channels_last", 1) != 0;
  const DataType type = n.b.type_of(x).type;
  const ValueId y =
      n.b.add("GroupNormalization", {is_last ? n.channels_first(x) : x, n.b.cast(n.input(1), type), n.b.cast(n.input(2), type)},
              {{"num_groups", Index(n.positive("groups"))}, {"epsilon", Real(n.source.real("epsilon", 1e-5f))}});
  const ValueId result = is_last ? n.channels_last(y) : y;
  return n.source.integer("activation", 0) == 1 ? n.b.add("Swish", {result}) : result;
}

Results group_norm(ContribNode& n, std::string&) { return n.results({group_normalized(n, n.input(0))}); }

Results skip_group_norm(ContribNode& n, std::string&) {
  const bool is_last = n.source.integer("channels_last", 1) != 0;
  const Indices x = n.shape(0);
  n.require(x.size() >= 3, "its input has " + std::to_string(x.size()) + " axes, at least 3 are needed");
  ValueId skip = n.input(3), bias = n.optional_input(4);
  const auto by_channel = [&](ValueId v, const Index& batch) {
    Indices shape(x.size(), 1);
    shape[0] = batch, shape[is_last ? x.size() - 1 : 1] = n.b.shape_of(v).back();
    return n.b.reshaped(v, shape);
  };
  if (n.b.shape_of(skip).size() == 2) skip = by_channel(skip, n.b.shape_of(skip)[0]);
  if (bias != kNoGradient) n.require_rank(4, 1), bias = by_channel(bias, 1);
  const ValueId sum = n.plus(n.plus(n.input(0), skip), bias);
  return n.results({group_normalized(n, sum), sum});
}

}  // namespace

void register_contrib_normalization(ContribOperators& c) {
  c.add("SimplifiedLayerNormalization", simplified, "");
  c.add("SkipLayerNormalization", skip_layer_normalization);
  c.add("SkipSimplifiedLayerNormalization", skip_simplified);
  c.add("EmbedLayerNormalization", embed_layer_normalization);
  c.add("QEmbedLayerNormalization", quantized_embed_layer_normalization);
  c.add("GroupNorm", group_norm);
  c.add("SkipGroupNorm", skip_group_norm);
}

}  // namespace rewright::operators
