#include "operators/contrib/learned_parts.h"

#include <cmath>
#include <limits>
#include <span>

namespace rewright::operators {

ValueId rows_of(ContribNode& n, std::size_t i) {
  const Indices shape = n.shape(i);
  ContribNode::require(shape.size() == 1 || shape.size() == 2,
                       "its input has rank " + std::to_string(shape.size()) + ", must have shape [rows, features]");
  return shape.size() == 2 ? n.input(i) : n.b.reshaped(n.input(i), {1, shape[0]});
}

// To 1.2e-9: P. J. Acklam, "An algorithm for computing the inverse
// normal cumulative distribution function" (2003).
ValueId probit(ContribNode& n, ValueId scores) {
  Formulas f(n.b, DataType::kDouble);
  const auto polynomial = [&](ValueId x, std::initializer_list<double> coefficients) {
    ValueId y = f.number(*coefficients.begin());
    for (const double c : std::span(coefficients).subspan(1)) y = f.plus(f.times(y, x), c);
    return y;
  };
  const ValueId p = n.b.cast(scores, DataType::kDouble);
  // The tails are mirror images; `low` is the smaller of p and 1 - p.
  const ValueId is_upper = f.less(f.number(0.5), p);
  const ValueId low = f.where(is_upper, f.difference(f.number(1), p), p);
  const ValueId q = n.b.add("Sqrt", {f.scaled(n.b.add("Log", {low}), -2)});
  const ValueId tail = f.quotient(
      polynomial(q, {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00, -2.549732539343734e+00,
                     4.374664141464968e+00, 2.938163982698783e+00}),
      polynomial(q, {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00, 1}));
  const ValueId of_tail = f.where(is_upper, f.scaled(tail, -1), tail);
  const ValueId c = f.plus(p, -0.5), r = f.times(c, c);
  const ValueId middle =
      f.quotient(f.times(c, polynomial(r, {-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
                                           1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00})),
                 polynomial(r, {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                                -1.328068155288572e+01, 1}));
  constexpr double kTail = 0.02425, kInfinity = std::numeric_limits<double>::infinity();
  const ValueId inside = f.where(f.inside(p, kTail, 1 - kTail), middle, of_tail);
  const ValueId above = f.where(n.b.add("Equal", {p, f.number(0)}), f.number(-kInfinity), inside);
  return n.b.cast(f.where(n.b.add("Equal", {p, f.number(1)}), f.number(kInfinity), above), DataType::kFloat);
}

namespace {

// exp(score) over the sum of these in its row; scores that are 0 stay 0.
ValueId softmax_but_zeros(ContribNode& n, ValueId scores) {
  Formulas f(n.b, DataType::kFloat);
  const AttributeValue columns = Indices{1};
  const ValueId top = n.b.add("ReduceMax", {scores}, {{"axes", columns}, {"keepdims", true}}), zero = f.number(0);
  const ValueId powers = f.where(n.b.add("Equal", {scores, zero}), zero, n.b.add("Exp", {f.difference(scores, top)}));
  const ValueId total = n.b.add("ReduceSum", {powers}, {{"axes", columns}, {"keepdims", true}});
  return f.quotient(powers, f.where(f.less(zero, total), total, f.number(1)));
}

}  // namespace

ValueId transformed(ContribNode& n, ValueId scores, const std::string& how) {
  if (how == "NONE") return scores;
  if (how == "LOGISTIC") return n.b.add("Sigmoid", {scores});
  if (how == "SOFTMAX") return n.b.add("Softmax", {scores}, {{"axis", Index(1)}, {"flatten", false}});
  if (how == "SOFTMAX_ZERO") return softmax_but_zeros(n, scores);
  ContribNode::require(how == "PROBIT", "there is no post_transform \"" + how + "\"");
  return probit(n, scores);
}

ValueId labels_of(ContribNode& n, ValueId classes, const char* integers, const char* texts) {
  Tensor labels;
  if (std::vector<std::string> list = n.source.texts(texts); !list.empty()) {
    const auto count = static_cast<std::int64_t>(list.size());
    labels = Tensor::from_strings({count}, std::move(list));
  } else {
    const std::vector<std::int64_t> numbers = n.source.integers(integers);
    bool are_numbers = !numbers.empty();  // of the classes themselves
    for (std::size_t c = 0; c < numbers.size(); ++c) are_numbers = are_numbers && numbers[c] == static_cast<std::int64_t>(c);
    if (are_numbers) return classes;
    labels = Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(numbers.size())}, numbers);
  }
  return n.b.add("Gather", {n.b.constant(labels), classes}, {{"axis", Index(0)}});
}

}  // namespace rewright::operators
