// Maps, and tables of them: what classifiers of ai.onnx.ml give, and what vectorizers take.
#include <algorithm>
#include <map>
#include <numeric>

#include "operators/procedures/learned/scores.h"
#include "operators/procedures/procedures.h"
#include "operators/procedures/text_numbers.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

// A vocabulary or list of classes in two attributes, one of integers and one of texts.
Tensor list_in(const Call& call, const char* integers, const char* texts) {
  if (std::vector<std::string> list = call.texts(texts); !list.empty()) {
    const auto count = static_cast<std::int64_t>(list.size());
    return Tensor::from_strings({count}, std::move(list));
  }
  const std::vector<std::int64_t> list = call.integers(integers);
  return Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(list.size())}, list);
}

template <class List>
std::vector<std::int64_t> order_of(const List& list) {
  std::vector<std::int64_t> order(list.size());
  std::iota(order.begin(), order.end(), 0);
  const auto less = [&](std::int64_t a, std::int64_t b) {
    return list[static_cast<std::size_t>(a)] < list[static_cast<std::size_t>(b)];
  };
  std::stable_sort(order.begin(), order.end(), less);
  const auto end = std::unique(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return !less(a, b); });
  if (end != order.end()) throw Error(ErrorCode::kBadInput, "it names a class twice");
  return order;
}

// The classes in ascending order, as ONNX Runtime's maps have them, and the column of each.
struct SortedClasses {
  std::shared_ptr<const Tensor> keys;
  std::vector<std::int64_t> columns;
  bool in_order = false;
};

SortedClasses sorted_classes(const Call& call) {
  const Tensor classes = list_in(call, "classlabels_int64s", "classlabels_strings");
  SortedClasses result;
  result.columns = classes.type() == DataType::kString ? order_of(classes.strings()) : order_of(classes.data<std::int64_t>());
  result.keys = std::make_shared<const Tensor>(picked(classes, classes.sizes(), result.columns));
  result.in_order = std::is_sorted(result.columns.begin(), result.columns.end());
  return result;
}

void run_zip_map(Call& call) {
  const auto classes = call.kept<SortedClasses>([&] { return sorted_classes(call); });
  const Tensor& x = call.tensor(0);
  if (x.sizes().empty() || x.sizes().size() > 2) throw Error(ErrorCode::kBadInput, "its input must have one or two axes");
  if (x.type() != DataType::kFloat) throw Error(ErrorCode::kBadInput, "its input must have elements of type float");
  const std::int64_t rows = x.sizes().size() == 2 ? x.sizes()[0] : 1, columns = x.sizes().back();
  if (columns != classes->keys->size())
    throw Error(ErrorCode::kBadInput, "its input has " + std::to_string(columns) + " columns, for " +
                                          std::to_string(classes->keys->size()) + " classes");
  const Tensor table =
      (classes->in_order ? x : entries_of(x, x.sizes().size() - 1, classes->columns)).reshaped({rows, columns});
  const auto owner = std::make_shared<const Tensor>(table);
  const auto bytes = static_cast<std::size_t>(columns) * sizeof(float);
  std::vector<Datum> maps;
  maps.reserve(static_cast<std::size_t>(rows));
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
    maps.push_back(Datum::map(classes->keys, Tensor(DataType::kFloat, {columns}, owner, table.bytes().data() + r * bytes)));
  call.give(Datum::sequence(std::move(maps)));
}

// For each word of the vocabulary the position of its value in the map; `none` if it has no such key.
template <class List>
std::vector<std::int64_t> positions_in(const List& keys, const List& vocabulary, std::int64_t none) {
  std::map<typename List::value_type, std::int64_t> places;
  for (std::size_t i = 0; i < keys.size(); ++i) places[keys[i]] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> positions;
  for (const auto& word : vocabulary) {
    const auto found = places.find(word);
    positions.push_back(found == places.end() ? none : found->second);
  }
  return positions;
}

// A single 0, or an empty text.
Tensor nothing_of(DataType type) {
  return type == DataType::kString ? Tensor::from_strings({1}, {""}) : Tensor::scalar(type, 0).reshaped({1});
}

void run_dict_vectorizer(Call& call) {
  const Tensor vocabulary = list_in(call, "int64_vocabulary", "string_vocabulary");
  const Datum& map = call.input(0);
  const Tensor &keys = *map.keys(), &values = map.values();
  if ((keys.type() == DataType::kString) != (vocabulary.type() == DataType::kString))
    throw Error(ErrorCode::kBadInput, "its input's keys are not of the type of its vocabulary");
  const std::int64_t none = values.size();
  const std::vector<std::int64_t> positions = keys.type() == DataType::kString
                                                  ? positions_in(keys.strings(), vocabulary.strings(), none)
                                                  : positions_in(keys.integers(), vocabulary.integers(), none);
  const Tensor parts[] = {values.reshaped({none}), nothing_of(values.type())};
  call.give(picked(concatenated(parts, 0), {1, vocabulary.size()}, positions));
}

// The values in the order of their keys; if sparse, each at the position that its key names, and nothing at the others.
void run_cast_map(Call& call) {
  const Datum& map = call.input(0);
  const std::string to = call.text("cast_to", "TO_FLOAT");
  const std::vector<std::int64_t> keys = map.keys()->integers();
  Tensor values = map.values();
  if (to == "TO_STRING" && values.type() != DataType::kString) {
    values = numerals_of(values, "%f");
  } else if (to != "TO_STRING") {
    const DataType type = to == "TO_INT64" ? DataType::kInt64 : DataType::kFloat;
    values = values.type() == DataType::kString ? numbers_in(values, type)
                                                : Tensor::from_reals(type, values.sizes(), values.reals());
  }
  std::vector<std::int64_t> order = order_of(keys);
  if (call.text("map_form", "DENSE") == "DENSE") return call.give(picked(values, {1, values.size()}, order));
  const std::int64_t count = call.integer("max_map", 1), none = values.size();
  if (count <= 0) throw Error(ErrorCode::kBadInput, "max_map must be positive");
  require_few(count);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(count), none);
  for (const std::int64_t i : order) {
    const std::int64_t key = keys[static_cast<std::size_t>(i)];
    if (key < 0) throw Error(ErrorCode::kBadInput, "a key is negative: " + std::to_string(key));
    if (key < count) positions[static_cast<std::size_t>(key)] = i;
  }
  // ONNX does not define the text at positions without a key; ONNX Runtime writes "0.f".
  const bool is_text = values.type() == DataType::kString;
  const Tensor parts[] = {values.reshaped({none}), is_text ? Tensor::from_strings({1}, {"0.f"}) : nothing_of(values.type())};
  call.give(picked(concatenated(parts, 0), {1, count}, positions));
}

}  // namespace

void register_maps(Procedures& p) {
  p.add("ZipMap", run_zip_map, kLearnedDomain);
  p.add("DictVectorizer", run_dict_vectorizer, kLearnedDomain);
  p.add("CastMap", run_cast_map, kLearnedDomain);
}

}  // namespace rewright::operators
