#include "operators/procedures/learned/scores.h"

#include <cmath>
#include <numbers>
#include <numeric>

namespace rewright::operators {

double probit(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -HUGE_VAL : p == 1 ? HUGE_VAL : std::nan("");
  constexpr double kFar = 40;  // beyond it the tail is 0 in double
  double low = -kFar, high = kFar;
  for (int halving = 0; halving < 100; ++halving) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < p ? low : high) = middle;
  }
  return low;
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

namespace {

Tensor real_tensor(const Tensor& x) {
  if (is_real(x.type())) return x;
  const std::vector<std::int64_t> integers = x.integers();
  return Tensor::from_reals(DataType::kDouble, x.sizes(), std::vector<double>(integers.begin(), integers.end()));
}

}  // namespace

Rows::Rows(const Tensor& x) : values(x.reals()) {
  const Sizes& sizes = x.sizes();
  if (sizes.empty() || sizes.size() > 2) throw Error(ErrorCode::kBadInput, "its input must have shape [rows, features]");
  count = sizes.size() == 2 ? sizes[0] : 1;
  columns = sizes.back();
}

Rows::Rows(const Call& call) : Rows(real_tensor(call.tensor(0))) {}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void transform(const std::string& how, std::span<double> scores) {
  if (how == "NONE" || scores.empty()) return;
  if (how == "LOGISTIC") {
    for (double& s : scores) s = logistic(s);
    return;
  }
  if (how == "PROBIT") {
    for (double& s : scores) s = probit(s);
    return;
  }
  const bool keeps_zero = how == "SOFTMAX_ZERO";
  if (!keeps_zero && how != "SOFTMAX") throw Error(ErrorCode::kBadInput, "there is no post_transform \"" + how + "\"");
  const double top = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& s : scores) total += s = keeps_zero && s == 0 ? 0 : std::exp(s - top);
  for (double& s : scores) s = total > 0 ? s / total : s;
}

Tensor Labels::of(const std::vector<std::size_t>& classes) const {
  const Sizes sizes{static_cast<std::int64_t>(classes.size())};
  if (!texts_.empty()) {
    std::vector<std::string> texts;
    for (const std::size_t c : classes) texts.push_back(texts_.at(c));
    return Tensor::from_strings(sizes, std::move(texts));
  }
  std::vector<std::int64_t> numbers;
  for (const std::size_t c : classes) numbers.push_back(numbers_.empty() ? static_cast<std::int64_t>(c) : numbers_.at(c));
  return Tensor::from_integers(DataType::kInt64, sizes, numbers);
}

Tensor Labels::of_one(const std::vector<std::size_t>& positive) const {
  if (!texts_.empty()) return of(std::vector<std::size_t>(positive.size(), 0));
  const std::vector<std::int64_t> numbers(positive.begin(), positive.end());
  return Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(numbers.size())}, numbers);
}

std::size_t largest(std::span<const double> scores) {
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

void give_rows(Call& call, std::int64_t rows, std::int64_t columns, std::span<const double> values) {
  call.give(Tensor::from_reals(DataType::kFloat, {rows, columns}, {values.begin(), values.end()}));
}

}  // namespace rewright::operators
