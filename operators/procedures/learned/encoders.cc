// ai.onnx.ml: encoders.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "operators/procedures/learned/scores.h"
#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

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

// Two reals are the same key if both are the same number, or both are NaN.
struct RealHash {
  std::size_t operator()(double v) const { return std::isnan(v) ? 1 : std::hash<double>()(v); }
};
struct SameReal {
  bool operator()(double a, double b) const { return a == b || (std::isnan(a) && std::isnan(b)); }
};

// Positions of keys: the first one's, of equal keys. Made once for a node.
class KeyTable {
 public:
  explicit KeyTable(const Tensor& keys)
      : is_text_(keys.type() == DataType::kString), is_real_(is_real(keys.type())), count_(keys.size()) {
    if (is_text_)
      fill(texts_, keys.strings());
    else if (is_real_)
      fill(reals_, keys.reals());
    else
      fill(integers_, keys.integers());
  }
  bool is_text() const { return is_text_; }
  std::int64_t count() const { return count_; }
  // For each element its key's position; `count()` if it is none. Reals that are sought among integers are cut off to integers.
  std::vector<std::int64_t> places_of(const Tensor& x) const {
    std::vector<std::int64_t> places;
    places.reserve(static_cast<std::size_t>(x.size()));
    const auto look_up = [&](const auto& table, const auto& items, const auto& as_key) {
      for (const auto& item : items) {
        const auto found = table.find(as_key(item));
        places.push_back(found == table.end() ? count_ : found->second);
      }
    };
    const auto same = [](const auto& item) -> const auto& { return item; };
    const auto whole = [](double v) { return static_cast<std::int64_t>(std::clamp(v, -9e18, 9e18)); };
    if (is_text_)
      look_up(texts_, x.strings(), same);
    else if (is_real_ && x.type() == DataType::kFloat)
      look_up(reals_, x.data<float>(), [](float v) { return static_cast<double>(v); });
    else if (is_real_)
      look_up(reals_, x.reals(), same);
    else if (x.type() == DataType::kInt64)
      look_up(integers_, x.data<std::int64_t>(), same);
    else if (is_real(x.type()))
      look_up(integers_, x.reals(), whole);
    else
      look_up(integers_, x.integers(), same);
    return places;
  }

 private:
  template <class Table, class List>
  static void fill(Table& table, const List& keys) {
    for (std::size_t i = 0; i < keys.size(); ++i) table.emplace(keys[i], static_cast<std::int64_t>(i));
  }
  bool is_text_, is_real_;
  std::int64_t count_;
  std::unordered_map<std::string, std::int64_t> texts_;
  std::unordered_map<double, std::int64_t, RealHash, SameReal> reals_;
  std::unordered_map<std::int64_t, std::int64_t> integers_;
};

// Keys, and their values with the default behind them.
struct Encoding {
  KeyTable keys;
  Tensor values;
};

Encoding encoding(const Call& call, const Tensor& keys, const Tensor& values) {
  if (keys.size() != values.size()) throw Error(ErrorCode::kBadInput, "its keys and values do not fit together");
  const Tensor parts[] = {values, default_of(call, values.type())};
  return {KeyTable(keys), concatenated(parts, 0)};
}

// Gives for each element the value at the position of its key, or the default.
void give_values_of_keys(Call& call, const Encoding& encoding) {
  const Tensor& x = call.tensor(0);
  if ((x.type() == DataType::kString) != encoding.keys.is_text())
    throw Error(ErrorCode::kBadInput, "its keys and its input are not both texts");
  call.give(picked(encoding.values, x.sizes(), encoding.keys.places_of(x)));
}

struct BothWays {
  Encoding from_texts, from_numbers;
};

// Between texts and numbers; the input's type gives the direction. Of duplicate keys the last one counts, as in ONNX Runtime.
void give_text_or_number(Call& call, const std::function<std::pair<Tensor, Tensor>()>& texts_and_numbers) {
  const auto both = call.kept<BothWays>([&] {
    auto [texts, numbers] = texts_and_numbers();
    if (texts.size() != numbers.size()) throw Error(ErrorCode::kBadInput, "its texts and numbers differ in count");
    std::vector<std::int64_t> backwards(static_cast<std::size_t>(texts.size()));
    std::iota(backwards.rbegin(), backwards.rend(), 0);
    texts = picked(texts, texts.sizes(), backwards), numbers = picked(numbers, numbers.sizes(), backwards);
    return BothWays{encoding(call, texts, numbers), encoding(call, numbers, texts)};
  });
  give_values_of_keys(call, call.tensor(0).type() == DataType::kString ? both->from_texts : both->from_numbers);
}

void run_label_encoder(Call& call) {
  constexpr int kKeysAndValues = 2;  // from this opset on; before, classes and their numbers
  if (call.opset() >= kKeysAndValues)
    return give_values_of_keys(
        call, *call.kept<Encoding>([&] { return encoding(call, list_of(call, "keys"), list_of(call, "values")); }));
  give_text_or_number(call, [&] {
    const Tensor classes = texts_of(call, "classes_strings");
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(classes.size()));
    std::iota(numbers.begin(), numbers.end(), 0);
    return std::pair(classes, Tensor::from_integers(DataType::kInt64, classes.sizes(), numbers));
  });
}

void run_category_mapper(Call& call) {
  give_text_or_number(call, [&] {
    const std::vector<std::int64_t> numbers = call.integers("cats_int64s");
    return std::pair(texts_of(call, "cats_strings"),
                     Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(numbers.size())}, numbers));
  });
}

struct Categories {
  KeyTable texts, numbers;
};

void run_one_hot_encoder(Call& call) {
  const Tensor& x = call.tensor(0);
  const auto kept = call.kept<Categories>([&] {
    const std::vector<std::int64_t> numbers = call.integers("cats_int64s");
    return Categories{KeyTable(texts_of(call, "cats_strings")),
                      KeyTable(Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(numbers.size())}, numbers))};
  });
  const KeyTable& categories = x.type() == DataType::kString ? kept->texts : kept->numbers;
  const std::vector<std::int64_t> places = categories.places_of(x);
  const std::int64_t count = categories.count();
  if (count > 0 && x.size() > kMostElements / count) require_few(kMostElements + 1);
  if (call.integer("zeros", 1) == 0 && std::find(places.begin(), places.end(), count) != places.end())
    throw Error(ErrorCode::kBadInput, "an element is none of its categories");
  Sizes sizes = x.sizes();
  sizes.push_back(count);
  Tensor result(DataType::kFloat, std::move(sizes));
  const auto elements = result.mutable_data<float>();
  std::fill(elements.begin(), elements.end(), 0.0F);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i] < count) elements[i * static_cast<std::size_t>(count) + static_cast<std::size_t>(places[i])] = 1;
  call.give(std::move(result));
}

}  // namespace

void register_encoders(Procedures& p) {
  p.add("LabelEncoder", run_label_encoder, kLearnedDomain);
  p.add("CategoryMapper", run_category_mapper, kLearnedDomain);
  p.add("OneHotEncoder", run_one_hot_encoder, kLearnedDomain);
}

}  // namespace rewright::operators
