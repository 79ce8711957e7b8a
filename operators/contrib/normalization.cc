// Normalizations of rows and of groups of channels, with the sums before them.
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

// The embeddings of words, positions and, where given, segments, added and normalized; for each sequence the number of ones in
// its mask (0 without one); the sum.
Results embed_layer_normalization(ContribNode& n, std::string&) {
  n.require_rank(0, 2);
  const Indices ids = n.shape(0);
  const auto rows = [&](std::size_t table, ValueId at) {
    return n.b.add("Gather", {n.input(table), at}, {{"axis", Index(0)}});
  };
  const ValueId positions = n.has(8) ? rows(3, n.input(8)) : n.entries(n.input(3), 0, 0, ids[1]);
  ValueId sum = n.plus(rows(2, n.input(0)), positions);
  if (n.has(1) && n.has(4)) sum = n.plus(sum, rows(4, n.input(1)));
  const ValueId y = normalized(n, sum, n.input(5), n.input(6), n.source.real("epsilon", 1e-12f));
  ValueId count = kNoGradient;
  if (n.has(7)) {
    const ValueId mask = n.b.cast(n.input(7), DataType::kInt32);
    count = n.b.summed(n.b.cast(n.b.add("Equal", {mask, n.b.scalar(DataType::kInt32, 1)}), DataType::kInt32), {1});
  } else {
    count = n.b.filled({DataType::kInt32, {ids[0]}}, 0);
  }
  return n.results({y, count, sum});
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
  c.add("GroupNorm", group_norm);
  c.add("SkipGroupNorm", skip_group_norm);
}

}  // namespace rewright::operators
