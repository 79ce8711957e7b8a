// Preparation of features for the models of ai.onnx.ml.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "operators/procedures/learned/scores.h"
#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

void run_normalizer(Call& call) {
  const std::string norm = call.text("norm", "MAX");
  Rows x(call);
  for (std::int64_t r = 0; r < x.count; ++r) {
    const std::span<double> row(x.values.data() + r * x.columns, static_cast<std::size_t>(x.columns));
    double size = norm == "MAX" && !row.empty() ? row[0] : 0;
    for (const double v : row) {
      if (norm == "L1")
        size += std::fabs(v);
      else if (norm == "L2")
        size += v * v;
      else if (norm == "MAX")
        size = std::max(size, v);
      else
        throw Error(ErrorCode::kBadInput, "there is no norm \"" + norm + "\"");
    }
    if (norm == "L2") size = std::sqrt(size);
    for (double& v : row) v = size != 0 ? v / size : v;
  }
  call.give(Tensor::from_reals(DataType::kFloat, call.tensor(0).sizes(), x.values));
}

void run_imputer(Call& call) {
  const Tensor& x = call.tensor(0);
  const std::int64_t columns = x.sizes().empty() ? 1 : x.sizes().back();
  const auto replaced = [&]<class T>(std::vector<T> values, const std::vector<T>& by, const auto& is_missing) {
    if (by.size() != 1 && static_cast<std::int64_t>(by.size()) != columns) throw wrong_lists();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (is_missing(values[i])) values[i] = by[by.size() == 1 ? 0 : i % by.size()];
    return values;
  };
  if (is_real(x.type())) {
    const double missing = call.real("replaced_value_float", 0);
    call.give(Tensor::from_reals(x.type(), x.sizes(), replaced(x.reals(), call.reals("imputed_value_floats"), [&](double v) {
                                   return std::isnan(missing) ? std::isnan(v) : v == missing;
                                 })));
  } else {
    const std::int64_t missing = call.integer("replaced_value_int64", 0);
    call.give(Tensor::from_integers(
        x.type(), x.sizes(),
        replaced(x.integers(), call.integers("imputed_value_int64s"), [&](std::int64_t v) { return v == missing; })));
  }
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

void run_feature_vectorizer(Call& call) {
  const std::vector<std::int64_t> widths = call.integers("inputdimensions");
  if (widths.size() != call.input_count() || widths.empty()) throw wrong_lists();
  const std::int64_t width = std::accumulate(widths.begin(), widths.end(), std::int64_t{0}, [](std::int64_t a, std::int64_t b) {
    if (b < 0 || b > kMostElements) throw wrong_lists();
    return a + b;
  });
  std::int64_t rows = -1;
  std::vector<double> result;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const Tensor& x = call.tensor(i);
    const std::vector<std::int64_t> integers = is_real(x.type()) ? std::vector<std::int64_t>() : x.integers();
    const std::vector<double> values = is_real(x.type()) ? x.reals() : std::vector<double>(integers.begin(), integers.end());
    if (x.sizes().empty() || x.sizes().size() > 2) throw Error(ErrorCode::kBadInput, "its inputs must have one or two axes");
    const std::int64_t count = x.sizes()[0], columns = x.sizes().size() == 2 ? x.sizes()[1] : 1;
    if (rows < 0) {
      rows = count;
      result = zeros({rows, width});
    }
    if (count != rows) throw Error(ErrorCode::kBadInput, "its inputs have different numbers of rows");
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < std::min(columns, widths[i]); ++c)
        result[static_cast<std::size_t>(r * width + begin + c)] = values[static_cast<std::size_t>(r * columns + c)];
    begin += widths[i];
  }
  give_rows(call, rows, width, result);
}

}  // namespace

void register_feature_preparation(Procedures& p) {
  p.add("Normalizer", run_normalizer, kLearnedDomain);
  p.add("Imputer", run_imputer, kLearnedDomain);
  p.add("OneHotEncoder", run_one_hot_encoder, kLearnedDomain);
  p.add("FeatureVectorizer", run_feature_vectorizer, kLearnedDomain);
}

}  // namespace rewright::operators
