// ai.onnx.ml: encoders.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

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

void run_one_hot_encoder(Call& call) {
  const Tensor& x = call.tensor(0);
  const auto positions = [&]<class T>(const std::vector<T>& values, const std::vector<T>& categories) {
    std::map<T, std::size_t> place;
    for (std::size_t i = 0; i < categories.size(); ++i) place.emplace(categories[i], i);
    std::vector<double> result(values.size() * categories.size());
    require_few(static_cast<std::int64_t>(result.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto found = place.find(values[i]);
      if (found != place.end())
        result[i * categories.size() + found->second] = 1;
      else if (call.integer("zeros", 1) == 0)
        throw Error(ErrorCode::kBadInput, "an element is none of its categories");
    }
    Sizes sizes = x.sizes();
    sizes.push_back(static_cast<std::int64_t>(categories.size()));
    call.give(Tensor::from_reals(DataType::kFloat, sizes, result));
  };
  if (x.type() == DataType::kString) {
    positions(std::vector<std::string>(x.strings().begin(), x.strings().end()), call.texts("cats_strings"));
  } else if (is_real(x.type())) {
    std::vector<std::int64_t> whole;
    for (const double v : x.reals()) whole.push_back(static_cast<std::int64_t>(std::clamp(v, -9e18, 9e18)));
    positions(whole, call.integers("cats_int64s"));
  } else {
    positions(x.integers(), call.integers("cats_int64s"));
  }
}

}  // namespace

void register_encoders(Procedures& p) {
  p.add("LabelEncoder", run_label_encoder, kLearnedDomain);
  p.add("CategoryMapper", run_category_mapper, kLearnedDomain);
  p.add("OneHotEncoder", run_one_hot_encoder, kLearnedDomain);
}

}  // namespace rewright::operators
