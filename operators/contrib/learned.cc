// ai.onnx.ml: the operators of classical models that are arithmetic. What has no graph here (maps, what refuses inputs) is a
// procedure. Trees are in trees.cc.
#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "operators/contrib/contrib.h"
#include "operators/contrib/learned_parts.h"
#include "operators/procedures/learned/scores.h"
#include "operators/procedures/learned/support_vectors.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;

ValueId float_rows(ContribNode& n, std::size_t i) { return n.b.cast(rows_of(n, i), DataType::kFloat); }

// A number for each column of x, or one for all; nullopt if their count is neither, or the columns are not known.
std::optional<ValueId> by_column(ContribNode& n, ValueId x, const Tensor& numbers) {
  const Indices shape = n.b.shape_of(x);
  if (numbers.size() != 1 && (shape.empty() || !(shape.back() == Index(numbers.size())))) return std::nullopt;
  return n.b.constant(numbers);
}

Tensor reals_of(DataType type, const std::vector<double>& list) {
  return Tensor::from_reals(type, {static_cast<std::int64_t>(list.size())}, list);
}

constexpr const char* kWrongLists = "the lists in its attributes do not fit its input, whose columns must be known";

Results refused(std::string& reason, const char* why) {
  reason = why;
  return std::nullopt;
}

// (x - offset) * scale.
Results scaler(ContribNode& n, std::string& reason) {
  ValueId x = n.b.cast(n.input(0), DataType::kFloat);
  for (const auto& [attribute, op] : {std::pair("offset", "Sub"), std::pair("scale", "Mul")}) {
    const std::vector<double> numbers = n.source.reals(attribute);
    if (numbers.empty()) continue;
    const auto columns = by_column(n, x, reals_of(DataType::kFloat, numbers));
    if (!columns) return refused(reason, kWrongLists);
    x = n.b.add(op, {x, *columns});
  }
  return n.results({x});
}

Results binarizer(ContribNode& n, std::string&) {
  const DataType type = n.type(0);
  const double threshold = n.source.real("threshold", 0);
  const ValueId x = is_real(type) ? n.input(0) : n.b.cast(n.input(0), DataType::kDouble);
  return n.results({n.b.cast(n.b.add("Greater", {x, n.b.scalar(n.b.type_of(x).type, threshold)}), type)});
}

// Replaces missing elements by a number for each column.
Results imputer(ContribNode& n, std::string& reason) {
  const DataType type = n.type(0);
  const ValueId x = n.input(0);
  Tensor numbers, missing;
  if (is_real(type)) {
    numbers = reals_of(type, n.source.reals("imputed_value_floats"));
    missing = Tensor::scalar(type, n.source.real("replaced_value_float", 0));
  } else if (is_integer(type)) {
    const std::vector<std::int64_t> list = n.source.integers("imputed_value_int64s");
    numbers = Tensor::from_integers(type, {static_cast<std::int64_t>(list.size())}, list);
    missing = Tensor::from_integers(type, {}, std::vector<std::int64_t>{n.source.integer("replaced_value_int64", 0)});
  } else {
    return refused(reason, "its elements are no numbers");
  }
  const auto columns = by_column(n, x, numbers);
  if (!columns) return refused(reason, kWrongLists);
  const bool is_nan = is_real(type) && std::isnan(missing.reals()[0]);
  const ValueId is_missing = is_nan ? n.b.add("IsNaN", {x}) : n.b.add("Equal", {x, n.b.constant(missing)});
  return n.results({n.b.add("Where", {is_missing, *columns, x})});
}

// Each row over its norm, unless that is 0.
Results normalizer(ContribNode& n, std::string& reason) {
  const std::string norm = n.source.text("norm", "MAX");
  const ValueId x = n.b.cast(n.input(0), DataType::kFloat);
  const Indices shape = n.b.shape_of(x);
  ContribNode::require(shape.size() == 1 || shape.size() == 2, "its input must have shape [rows, features]");
  if (shape.back() == Index(0)) return n.results({x});
  if (!shape.back().is_constant()) return refused(reason, "the number of its columns is not known");
  const AttributeValue last = Indices{Index(shape.size() - 1)};
  const auto reduced = [&](const char* op, ValueId v) { return n.b.add(op, {v}, {{"axes", last}, {"keepdims", true}}); };
  ValueId size = kNoGradient;
  if (norm == "MAX")
    size = reduced("ReduceMax", x);
  else if (norm == "L1")
    size = reduced("ReduceSum", n.b.add("Abs", {x}));
  else if (norm == "L2")
    size = n.b.add("Sqrt", {reduced("ReduceSum", n.b.add("Mul", {x, x}))});
  ContribNode::require(size != kNoGradient, "there is no norm \"" + norm + "\"");
  Formulas f(n.b, DataType::kFloat);
  const ValueId is_zero = n.b.add("Equal", {size, f.number(0)});
  return n.results({f.quotient(x, f.where(is_zero, f.number(1), size))});
}

// The columns of all inputs side by side, as many of each as `inputdimensions` says: the first ones, or zeros behind them.
Results feature_vectorizer(ContribNode& n, std::string& reason) {
  const std::vector<std::int64_t> widths = n.source.integers("inputdimensions");
  if (widths.size() != n.source.input_count() || widths.empty()) return refused(reason, kWrongLists);
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const Indices shape = n.shape(i);
    ContribNode::require(shape.size() == 1 || shape.size() == 2, "its inputs must have one or two axes");
    const ValueId x = n.b.cast(n.input(i), DataType::kFloat);
    const ValueId rows = shape.size() == 2 ? x : n.b.reshaped(x, {shape[0], 1});
    const Index columns = n.b.shape_of(rows)[1];
    if (!columns.is_constant() || widths[i] < 0 || widths[i] > kMostElements) return refused(reason, kWrongLists);
    parts.push_back(n.entries(rows, 1, 0, std::min(columns.value(), widths[i])));
    if (columns.value() < widths[i])
      parts.push_back(n.b.filled({DataType::kFloat, {shape[0], Index(widths[i] - columns.value())}}, 0));
  }
  return n.results({n.joined(parts, 1)});
}

// The columns with these numbers. A vector is one row.
Results array_feature_extractor(ContribNode& n, std::string&) {
  const Indices shape = n.shape(0);
  ContribNode::require(!shape.empty(), "its input has rank 0");
  const ValueId x = shape.size() == 1 ? n.b.reshaped(n.input(0), {1, shape[0]}) : n.input(0);
  Index count = 1;
  for (const Index& size : n.shape(1)) count = count * size;
  const ValueId columns = n.b.reshaped(n.input(1), {count});
  return n.results({n.b.add("Gather", {x, columns}, {{"axis", Index(std::max<std::size_t>(shape.size(), 2) - 1)}})});
}

// ---- Encoders of integers by short lists; of texts, reals and long lists they are procedures, which hash.

constexpr std::size_t kMostKeys = 64;

// Whether each element is each of these keys, along a new last axis. Nullopt unless both are integers, and the keys are few and
// different.
std::optional<ValueId> is_key(ContribNode& n, const std::vector<std::int64_t>& keys) {
  const std::set<std::int64_t> different(keys.begin(), keys.end());
  if (!is_integer(n.type(0)) || keys.empty() || keys.size() > kMostKeys || different.size() != keys.size()) return std::nullopt;
  Indices shape = n.shape(0);
  shape.emplace_back(1);
  const ValueId x = n.b.reshaped(n.b.cast(n.input(0), DataType::kInt64), shape);
  const auto count = static_cast<std::int64_t>(keys.size());
  return n.b.add("Equal", {x, n.b.constant(Tensor::from_integers(DataType::kInt64, {count}, keys))});
}

constexpr const char* kNoShortList = "it is no short list of integers";

Results one_hot_encoder(ContribNode& n, std::string& reason) {
  if (n.source.integer("zeros", 1) == 0) return refused(reason, "it refuses what it does not know");
  const auto found = is_key(n, n.source.integers("cats_int64s"));
  if (!found) return refused(reason, kNoShortList);
  return n.results({n.b.cast(*found, DataType::kFloat)});
}

// The position of its key, or that behind the last one, is looked up in a table.
Results label_encoder(ContribNode& n, std::string& reason) {
  const std::vector<std::int64_t> keys = n.source.integers("keys_int64s"), integers = n.source.integers("values_int64s");
  const std::vector<double> reals = n.source.reals("values_floats");
  const auto found = is_key(n, keys);
  const auto count = static_cast<std::int64_t>(keys.size());
  if (!found || std::max(integers.size(), reals.size()) != keys.size() || std::min(integers.size(), reals.size()) != 0)
    return refused(reason, kNoShortList);
  std::vector<std::int64_t> steps;
  for (std::int64_t i = 0; i < count; ++i) steps.push_back(i - count);
  const ValueId step = n.b.add(
      "Mul", {n.b.cast(*found, DataType::kInt64), n.b.constant(Tensor::from_integers(DataType::kInt64, {count}, steps))});
  const Indices last{Index(n.b.shape_of(step).size() - 1)};
  const ValueId steps_taken = n.b.add("ReduceSum", {step}, {{"axes", last}, {"keepdims", false}});
  const ValueId place = n.b.add(
      "Add", {steps_taken, n.b.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector<std::int64_t>{count}))});
  std::vector<std::int64_t> table = integers;
  table.push_back(n.source.integer("default_int64", -1));
  std::vector<double> real_table = reals;
  real_table.push_back(n.source.real("default_float", -0.0));
  const ValueId values = n.b.constant(reals.empty() ? Tensor::from_integers(DataType::kInt64, {count + 1}, table)
                                                    : Tensor::from_reals(DataType::kFloat, {count + 1}, real_table));
  return n.results({n.b.add("Gather", {values, place}, {{"axis", Index(0)}})});
}

// ---- Linear models

// x C' + intercepts, for C of [targets, columns]; nullopt if their counts do not fit.
std::optional<ValueId> scores_of(ContribNode& n, ValueId x, std::int64_t targets) {
  const Index columns = n.b.shape_of(x)[1];
  const std::vector<double> coefficients = n.source.reals("coefficients"), intercepts = n.source.reals("intercepts");
  const auto given = static_cast<std::int64_t>(coefficients.size());
  if (!columns.is_constant() || columns.value() == 0 || targets < 1 || given / columns.value() < targets) return std::nullopt;
  if (!intercepts.empty() && static_cast<std::int64_t>(intercepts.size()) != targets) return std::nullopt;
  std::vector<double> transposed;
  for (std::int64_t c = 0; c < columns.value(); ++c)
    for (std::int64_t t = 0; t < targets; ++t)
      transposed.push_back(coefficients[static_cast<std::size_t>(t * columns.value() + c)]);
  Formulas f(n.b, DataType::kFloat);
  const ValueId product = n.b.add("MatMul", {x, f.numbers({columns.value(), targets}, transposed)});
  return intercepts.empty() ? product : f.sum(product, f.numbers({targets}, intercepts));
}

Results linear_regressor(ContribNode& n, std::string& reason) {
  const std::int64_t targets = n.source.integer("targets", 1);
  const auto scores = scores_of(n, float_rows(n, 0), targets);
  if (!scores) return refused(reason, kWrongLists);
  return n.results({transformed(n, *scores)});
}

// A single score for two classes is that of the second one; the first one's is then 1 minus it, and only a logistic function is
// applied, as in ONNX Runtime.
Results linear_classifier(ContribNode& n, std::string& reason) {
  const ValueId x = float_rows(n, 0);
  const std::size_t labels =
      std::max(n.source.integers("classlabels_ints").size(), n.source.texts("classlabels_strings").size());
  const std::size_t intercepts = n.source.reals("intercepts").size(), coefficients = n.source.reals("coefficients").size();
  const Index columns = n.b.shape_of(x)[1];
  if (labels == 0 || !columns.is_constant() || columns.value() == 0) return refused(reason, kWrongLists);
  const auto targets =
      static_cast<std::int64_t>(intercepts > 0 ? intercepts : coefficients / static_cast<std::size_t>(columns.value()));
  const bool is_second = targets == 1 && labels == 2;
  if (!is_second && static_cast<std::size_t>(targets) > labels) return refused(reason, kWrongLists);
  const auto scores = scores_of(n, x, targets);
  if (!scores) return refused(reason, kWrongLists);
  ValueId classes = kNoGradient, given = kNoGradient;
  if (is_second) {
    const std::string how = n.source.text("post_transform", "NONE");
    Formulas f(n.b, DataType::kFloat);
    classes = n.b.cast(n.b.reshaped(n.b.add("Greater", {*scores, f.number(0)}), {n.b.shape_of(x)[0]}), DataType::kInt64);
    const ValueId second = how == "LOGISTIC" ? n.b.add("Sigmoid", {*scores}) : *scores;
    given = n.joined({f.difference(f.number(1), second), second}, 1);
    if (how == "PROBIT") given = probit(n, given);
  } else {
    classes = n.b.add("ArgMax", {*scores}, {{"axis", Index(1)}, {"keepdims", false}});
    given = transformed(n, *scores);
  }
  return n.results({labels_of(n, classes, "classlabels_ints", "classlabels_strings"), given});
}

// ---- Support vectors

// The sum of kernels with all vectors, or the kernel with the coefficients themselves, plus rho; for one class its sign.
Results svm_regressor(ContribNode& n, std::string& reason) {
  const std::vector<double> coefficients = n.source.reals("coefficients"), rho = n.source.reals("rho"),
                            vectors = n.source.reals("support_vectors");
  const std::int64_t supports = n.source.integer("n_supports", 0), given = static_cast<std::int64_t>(coefficients.size());
  const ValueId x = float_rows(n, 0);
  const Index columns = n.b.shape_of(x)[1];
  if (rho.empty() || !columns.is_constant()) return refused(reason, kWrongLists);
  Formulas f(n.b, DataType::kFloat);
  ValueId y = kNoGradient;
  if (supports > 0) {
    if (given != supports || static_cast<std::int64_t>(vectors.size()) != supports * columns.value())
      return refused(reason, kWrongLists);
    const ValueId kernels = kernel_values(n.b, n.source, x, f.numbers({supports, columns.value()}, vectors));
    y = n.b.add("MatMul", {kernels, f.numbers({supports, 1}, coefficients)});
  } else {
    if (given != columns.value()) return refused(reason, kWrongLists);
    y = kernel_values(n.b, n.source, x, f.numbers({1, given}, coefficients));
  }
  y = f.plus(y, rho[0]);
  if (n.source.integer("one_class", 0) != 0) y = f.where(n.b.add("Greater", {y, f.number(0)}), f.number(1), f.number(-1));
  return n.results({transformed(n, y)});
}

Results svm_classifier(ContribNode& n, std::string& reason) {
  if (!n.source.reals("prob_a").empty()) return refused(reason, "its probabilities are iterated");
  const std::size_t classes =
      std::max(n.source.integers("classlabels_ints").size(), n.source.texts("classlabels_strings").size());
  const auto found = pair_scores(n.b, n.source, float_rows(n, 0), classes);
  if (!found) return refused(reason, kWrongLists);
  const ValueId winner = n.b.add("ArgMax", {found->votes}, {{"axis", Index(1)}, {"keepdims", false}});
  ValueId scores = found->scores;
  if (classes == 2) scores = n.joined({n.scaled(scores, -1), scores}, 1);
  return n.results({labels_of(n, winner, "classlabels_ints", "classlabels_strings"), transformed(n, scores)});
}

}  // namespace

void register_contrib_learned(ContribOperators& c) {
  c.add("Scaler", scaler, kLearnedDomain);
  c.add("Binarizer", binarizer, kLearnedDomain);
  c.add("Imputer", imputer, kLearnedDomain);
  c.add("Normalizer", normalizer, kLearnedDomain);
  c.add("FeatureVectorizer", feature_vectorizer, kLearnedDomain);
  c.add("ArrayFeatureExtractor", array_feature_extractor, kLearnedDomain);
  c.add("OneHotEncoder", one_hot_encoder, kLearnedDomain);
  c.add("LabelEncoder", label_encoder, kLearnedDomain);
  c.add("LinearRegressor", linear_regressor, kLearnedDomain);
  c.add("LinearClassifier", linear_classifier, kLearnedDomain);
  c.add("SVMRegressor", svm_regressor, kLearnedDomain);
  c.add("SVMClassifier", svm_classifier, kLearnedDomain);
}

}  // namespace rewright::operators
