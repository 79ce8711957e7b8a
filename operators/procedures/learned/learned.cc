// ai.onnx.ml: trees, encoders and simple transformations.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "operators/procedures/learned/scores.h"
#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

// ---- Trees

struct Tree {
  std::vector<std::int64_t> features, true_nodes, false_nodes, true_leaves, false_leaves, missing_true, modes;
  std::vector<double> splits;
  std::vector<std::vector<double>> members;  // of each node that tests membership

  bool goes_true(std::size_t node, double x) const {
    if (std::isnan(x)) return node < missing_true.size() && missing_true[node] != 0;
    const double split = splits[node];
    switch (modes[node]) {
      case 0:
        return x <= split;
      case 1:
        return x < split;
      case 2:
        return x >= split;
      case 3:
        return x > split;
      case 4:
        return x == split;
      case 5:
        return x != split;
      case 6:
        return std::find(members[node].begin(), members[node].end(), x) != members[node].end();
      default:
        throw Error(ErrorCode::kBadInput, "there is no mode " + std::to_string(modes[node]) + " of nodes");
    }
  }

  // The number of the leaf for a row of features.
  std::size_t leaf(std::int64_t root, const double* x, std::int64_t count) const {
    std::int64_t node = root;
    for (std::size_t steps = 0; steps <= features.size(); ++steps) {
      const auto n = static_cast<std::size_t>(checked_index(node, static_cast<std::int64_t>(features.size())));
      const bool is_true = goes_true(n, x[checked_index(features[n], count)]);
      const std::int64_t next = (is_true ? true_nodes : false_nodes)[n];
      if ((is_true ? true_leaves : false_leaves)[n] != 0) return static_cast<std::size_t>(next);
      node = next;
    }
    throw Error(ErrorCode::kBadInput, "its tree has a cycle");
  }
};

std::vector<double> reals_of(const Call& call, const char* attribute) {
  const auto tensor = call.tensor(attribute);
  return tensor ? tensor->reals() : std::vector<double>();
}

Tree read_tree(const Call& call) {
  Tree t;
  t.features = call.integers("nodes_featureids");
  t.true_nodes = call.integers("nodes_truenodeids"), t.false_nodes = call.integers("nodes_falsenodeids");
  t.true_leaves = call.integers("nodes_trueleafs"), t.false_leaves = call.integers("nodes_falseleafs");
  t.missing_true = call.integers("nodes_missing_value_tracks_true");
  t.splits = reals_of(call, "nodes_splits");
  if (const auto modes = call.tensor("nodes_modes")) t.modes = modes->integers();
  const std::size_t count = t.features.size();
  for (const auto* list : {&t.true_nodes, &t.false_nodes, &t.true_leaves, &t.false_leaves, &t.modes})
    if (list->size() != count) throw Error(ErrorCode::kBadInput, "the lists of its nodes have different lengths");
  if (t.splits.size() != count) throw Error(ErrorCode::kBadInput, "the lists of its nodes have different lengths");
  // The sets follow each other; a NaN ends each.
  const std::vector<double> values = reals_of(call, "membership_values");
  auto next = values.begin();
  t.members.resize(count);
  for (std::size_t n = 0; n < count; ++n) {
    if (t.modes[n] != 6) continue;
    while (next != values.end() && !std::isnan(*next)) t.members[n].push_back(*next++);
    if (next != values.end()) ++next;
  }
  return t;
}

void softmax(double* values, std::int64_t count, bool keeps_zero) {
  const double top = *std::max_element(values, values + count);
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = keeps_zero && values[i] == 0 ? 0 : std::exp(values[i] - top);
    total += values[i];
  }
  for (std::int64_t i = 0; i < count && total > 0; ++i) values[i] /= total;
}

void post_transform(Call& call, double* values, std::int64_t count) {
  const std::int64_t kind = call.integer("post_transform", 0);
  if (count == 0 || kind == 0) return;
  if (kind == 1) return softmax(values, count, false);
  if (kind == 3) return softmax(values, count, true);
  if (kind != 2 && kind != 4) throw Error(ErrorCode::kBadInput, "there is no post_transform " + std::to_string(kind));
  for (std::int64_t i = 0; i < count; ++i) values[i] = kind == 4 ? probit(values[i]) : 1 / (1 + std::exp(-values[i]));
}

void run_tree_ensemble(Call& call) {
  const Tensor& x = call.tensor(0);
  if (x.sizes().size() != 2) throw Error(ErrorCode::kBadInput, "its input must have shape [rows, features]");
  const Tree tree = read_tree(call);
  const std::vector<std::int64_t> roots = call.integers("tree_roots"), targets = call.integers("leaf_targetids");
  const std::vector<double> weights = reals_of(call, "leaf_weights"), values = x.reals();
  const std::int64_t rows = x.sizes()[0], features = x.sizes()[1], count = call.integer("n_targets", 1);
  const std::int64_t aggregate = call.integer("aggregate_function", 1);
  if (targets.size() != weights.size() || count < 0 || count > (std::int64_t{1} << 32) / std::max<std::int64_t>(rows, 1))
    throw Error(ErrorCode::kBadInput, "its leaves or targets are wrong");
  std::vector<double> results(static_cast<std::size_t>(rows * count));
  for (std::int64_t r = 0; r < rows; ++r) {
    call.checkpoint();
    std::vector<bool> met(static_cast<std::size_t>(count));
    double* row = results.data() + r * count;
    for (const std::int64_t root : roots) {
      const std::size_t leaf = tree.leaf(root, values.data() + r * features, features);
      if (leaf >= weights.size()) throw Error(ErrorCode::kBadInput, "there is no leaf " + std::to_string(leaf));
      const auto target = static_cast<std::size_t>(checked_index(targets[leaf], count));
      double& y = row[target];
      const bool first = !met[target];
      met[target] = true;
      if (aggregate == 2)
        y = first ? weights[leaf] : std::min(y, weights[leaf]);
      else if (aggregate == 3)
        y = first ? weights[leaf] : std::max(y, weights[leaf]);
      else
        y += aggregate == 0 ? weights[leaf] / static_cast<double>(roots.size()) : weights[leaf];
    }
    post_transform(call, row, count);
  }
  call.give(Tensor::from_reals(x.type(), {rows, count}, results));
}

// ---- Encoders

Tensor texts_of(const Call& call, std::string_view attribute) {
  std::vector<std::string> texts = call.texts(attribute);
  const auto count = static_cast<std::int64_t>(texts.size());
  return Tensor::from_strings({count}, std::move(texts));
}

// A list in one of an encoder's attributes: PREFIX_strings, _int64s, _floats or _tensor.
Tensor list_of(const Call& call, const std::string& prefix) {
  if (const auto tensor = call.tensor(prefix + "_tensor")) return tensor->reshaped({tensor->size()});
  if (call.has(prefix + "_strings")) return texts_of(call, prefix + "_strings");
  if (call.has(prefix + "_int64s")) {
    const std::vector<std::int64_t> values = call.integers(prefix + "_int64s");
    return Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(values.size())}, values);
  }
  const std::vector<double> values = call.reals(prefix + "_floats");
  return Tensor::from_reals(DataType::kFloat, {static_cast<std::int64_t>(values.size())}, values);
}

Tensor default_of(const Call& call, DataType type) {
  if (const auto tensor = call.tensor("default_tensor"); tensor && tensor->type() == type && tensor->size() == 1)
    return tensor->reshaped({1});
  if (type == DataType::kString) return Tensor::from_strings({1}, {call.text("default_string", "_Unused")});
  if (type == DataType::kInt64)
    return Tensor::from_integers(type, {1}, std::vector<std::int64_t>{call.integer("default_int64", -1)});
  return Tensor::from_reals(type, {1}, std::vector<double>{call.real("default_float", -0.0)});
}

template <class Key, class List>
std::vector<std::int64_t> looked_up(const List& items, const List& keys, std::int64_t otherwise) {
  std::map<Key, std::int64_t> places;
  for (std::size_t i = 0; i < keys.size(); ++i) places.emplace(Key(keys[i]), static_cast<std::int64_t>(i));
  std::vector<std::int64_t> result;
  for (const auto& item : items) {
    const auto found = places.find(Key(item));
    result.push_back(found == places.end() ? otherwise : found->second);
  }
  return result;
}

// Two keys are equal if both are the same number, or both are NaN.
struct RealKey {
  double value;
  explicit RealKey(double v) : value(v) {}
  friend bool operator<(const RealKey& a, const RealKey& b) {
    if (std::isnan(a.value) || std::isnan(b.value)) return !std::isnan(a.value) && std::isnan(b.value);
    return a.value < b.value;
  }
};

// Gives for each element the value at the position of its key, or the default.
void give_values_of_keys(Call& call, const Tensor& keys, const Tensor& values) {
  const Tensor& x = call.tensor(0);
  if (keys.size() != values.size() || (x.type() == DataType::kString) != (keys.type() == DataType::kString))
    throw Error(ErrorCode::kBadInput, "its keys and values do not fit together, or not its input");
  const Tensor parts[] = {values, default_of(call, values.type())};
  const std::int64_t otherwise = values.size();
  std::vector<std::int64_t> places;
  if (x.type() == DataType::kString)
    places = looked_up<std::string>(x.strings(), keys.strings(), otherwise);
  else if (is_real(x.type()))
    places = looked_up<RealKey>(x.reals(), keys.reals(), otherwise);
  else
    places = looked_up<std::int64_t>(x.integers(), keys.integers(), otherwise);
  call.give(picked(concatenated(parts, 0), x.sizes(), places));
}

// Between texts and numbers; the input's type gives the direction. Of duplicate keys the last one counts, as in ONNX Runtime.
void give_text_or_number(Call& call, Tensor texts, Tensor numbers) {
  const bool from_texts = call.tensor(0).type() == DataType::kString;
  std::vector<std::int64_t> backwards(static_cast<std::size_t>(texts.size()));
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  if (texts.size() != numbers.size()) throw Error(ErrorCode::kBadInput, "its texts and numbers differ in count");
  texts = picked(texts, texts.sizes(), backwards), numbers = picked(numbers, numbers.sizes(), backwards);
  from_texts ? give_values_of_keys(call, texts, numbers) : give_values_of_keys(call, numbers, texts);
}

void run_label_encoder(Call& call) {
  constexpr int kKeysAndValues = 2;  // from this opset on; before, classes and their numbers
  if (call.opset() >= kKeysAndValues) return give_values_of_keys(call, list_of(call, "keys"), list_of(call, "values"));
  const Tensor classes = texts_of(call, "classes_strings");
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(classes.size()));
  std::iota(numbers.begin(), numbers.end(), 0);
  give_text_or_number(call, classes, Tensor::from_integers(DataType::kInt64, classes.sizes(), numbers));
}

void run_category_mapper(Call& call) {
  const std::vector<std::int64_t> numbers = call.integers("cats_int64s");
  give_text_or_number(call, texts_of(call, "cats_strings"),
                      Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(numbers.size())}, numbers));
}

// ---- Transformations

void run_array_feature_extractor(Call& call) {
  Tensor x = call.tensor(0);
  if (x.sizes().empty()) throw Error(ErrorCode::kBadInput, "its input has rank 0");
  if (x.sizes().size() == 1) x = x.reshaped({1, x.size()});
  std::vector<std::int64_t> wanted = call.integers(1);
  for (std::int64_t& i : wanted) i = checked_index(i, x.sizes().back());
  call.give(entries_of(x, x.sizes().size() - 1, wanted));
}

void run_binarizer(Call& call) {
  const Tensor& x = call.tensor(0);
  std::vector<double> values = x.reals();
  for (double& v : values) v = v > call.real("threshold", 0) ? 1 : 0;
  call.give(Tensor::from_reals(x.type(), x.sizes(), values));
}

// (x - offset) * scale, along the last axis.
void run_scaler(Call& call) {
  const Tensor& x = call.tensor(0);
  const std::vector<double> offsets = call.reals("offset"), scales = call.reals("scale");
  std::vector<double> values = x.reals();
  const auto columns = static_cast<std::size_t>(x.sizes().empty() ? 1 : x.sizes().back());
  const auto of = [&](const std::vector<double>& list, std::size_t i, double otherwise) {
    if (list.empty()) return otherwise;
    if (list.size() != 1 && list.size() != columns) throw Error(ErrorCode::kBadInput, "offset or scale has a wrong length");
    return list.size() == 1 ? list[0] : list[i % columns];
  };
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (values[i] - of(offsets, i, 0)) * of(scales, i, 1);
  call.give(Tensor::from_reals(DataType::kFloat, x.sizes(), values));
}

}  // namespace

void register_learned(Procedures& p) {
  p.add("TreeEnsemble", run_tree_ensemble, kLearnedDomain);
  p.add("LabelEncoder", run_label_encoder, kLearnedDomain);
  p.add("CategoryMapper", run_category_mapper, kLearnedDomain);
  p.add("ArrayFeatureExtractor", run_array_feature_extractor, kLearnedDomain);
  p.add("Binarizer", run_binarizer, kLearnedDomain);
  p.add("Scaler", run_scaler, kLearnedDomain);
}

}  // namespace rewright::operators
