// ai.onnx.ml: linear models, support vectors, ensembles of trees in their older form, and what comes before them.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <set>

#include "operators/pieces.h"
#include "operators/procedures.h"
#include "operators/scores.h"

namespace rewright {

double probit(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -HUGE_VAL : p == 1 ? HUGE_VAL : std::nan("");
  constexpr double kFar = 40;  // beyond it nothing is left in double
  double low = -kFar, high = kFar;
  for (int halving = 0; halving < 100; ++halving) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < p ? low : high) = middle;
  }
  return low;
}

namespace {

constexpr const char* kDomain = "ai.onnx.ml";

Error wrong_lists() { return Error(ErrorCode::kBadInput, "the lists in its attributes do not fit one another"); }

// A batch of rows; a tensor of one axis is one row.
struct Rows {
  std::vector<double> values;
  std::int64_t count = 0, columns = 0;
  explicit Rows(const Tensor& x) : values(x.reals()) {
    const Sizes& sizes = x.sizes();
    if (sizes.empty() || sizes.size() > 2) throw Error(ErrorCode::kBadInput, "its input must have shape [rows, features]");
    count = sizes.size() == 2 ? sizes[0] : 1;
    columns = sizes.back();
  }
  explicit Rows(const Call& call) : Rows(real_tensor(call.tensor(0))) {}
  std::span<const double> row(std::int64_t i) const {
    return std::span(values).subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns));
  }

 private:
  static Tensor real_tensor(const Tensor& x) {
    if (is_real(x.type())) return x;
    const std::vector<std::int64_t> integers = x.integers();
    return Tensor::from_reals(DataType::kDouble, x.sizes(), std::vector<double>(integers.begin(), integers.end()));
  }
};

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// What becomes of a row of scores.
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

std::string transform_of(const Call& call) { return call.text("post_transform", "NONE"); }

// The classes of a classifier, integers or texts.
class Labels {
 public:
  Labels(const Call& call, const char* integers, const char* texts)
      : numbers_(call.integers(integers)), texts_(call.texts(texts)) {}
  std::size_t size() const { return std::max(numbers_.size(), texts_.size()); }
  Tensor of(const std::vector<std::size_t>& classes) const {
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

 private:
  std::vector<std::int64_t> numbers_;
  std::vector<std::string> texts_;
};

std::size_t largest(std::span<const double> scores) {
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

void give_rows(Call& call, std::int64_t rows, std::int64_t columns, std::span<const double> values) {
  call.give(Tensor::from_reals(DataType::kFloat, {rows, columns}, {values.begin(), values.end()}));
}

// ---- Before a model

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

// ---- Linear models

// Scores of all rows for each of the rows of coefficients.
std::vector<double> linear_scores(const Rows& x, const std::vector<double>& coefficients, const std::vector<double>& intercepts,
                                  std::int64_t targets) {
  if (targets < 1 || targets > kMostElements || static_cast<std::int64_t>(coefficients.size()) != targets * x.columns ||
      (!intercepts.empty() && static_cast<std::int64_t>(intercepts.size()) != targets))
    throw wrong_lists();
  std::vector<double> scores = zeros({x.count, targets});
  for (std::int64_t r = 0; r < x.count; ++r)
    for (std::int64_t t = 0; t < targets; ++t)
      scores[static_cast<std::size_t>(r * targets + t)] =
          dot(x.row(r), std::span(coefficients).subspan(static_cast<std::size_t>(t * x.columns))) +
          (intercepts.empty() ? 0 : intercepts[static_cast<std::size_t>(t)]);
  return scores;
}

void run_linear_regressor(Call& call) {
  const Rows x(call);
  const std::int64_t targets = call.integer("targets", 1);
  std::vector<double> scores = linear_scores(x, call.reals("coefficients"), call.reals("intercepts"), targets);
  const std::string how = transform_of(call);
  for (std::int64_t r = 0; r < x.count; ++r)
    transform(how, std::span(scores).subspan(static_cast<std::size_t>(r * targets), static_cast<std::size_t>(targets)));
  give_rows(call, x.count, targets, scores);
}

// One score for two classes is that of the second one.
void run_linear_classifier(Call& call) {
  const Rows x(call);
  const Labels labels(call, "classlabels_ints", "classlabels_strings");
  const std::vector<double> coefficients = call.reals("coefficients");
  if (x.columns == 0 || coefficients.empty()) throw wrong_lists();
  const auto targets = static_cast<std::int64_t>(coefficients.size()) / x.columns;
  const std::vector<double> given = linear_scores(x, coefficients, call.reals("intercepts"), targets);
  const bool is_second = targets == 1 && labels.size() == 2;
  if (!is_second && static_cast<std::size_t>(targets) != labels.size()) throw wrong_lists();
  const std::string how = transform_of(call);
  std::vector<double> scores;
  std::vector<std::size_t> classes;
  for (std::int64_t r = 0; r < x.count; ++r) {
    const auto begin = given.begin() + static_cast<std::ptrdiff_t>(r * targets);
    std::vector<double> row(begin, begin + static_cast<std::ptrdiff_t>(targets));
    if (is_second) row.insert(row.begin(), -row[0]);
    classes.push_back(is_second ? static_cast<std::size_t>(row[1] > 0) : largest(row));
    transform(how, row);
    scores.insert(scores.end(), row.begin(), row.end());
  }
  call.give(labels.of(classes));
  give_rows(call, x.count, is_second ? 2 : targets, scores);
}

// ---- Support vectors

double kernel(const Call& call, std::span<const double> a, std::span<const double> b) {
  const std::string type = call.text("kernel_type", "LINEAR");
  std::vector<double> parameters = call.reals("kernel_params");
  parameters.resize(3);
  const double gamma = parameters[0], added = parameters[1], degree = parameters[2];
  if (type == "LINEAR") return dot(a, b);
  if (type == "POLY") return std::pow(gamma * dot(a, b) + added, degree);
  if (type == "SIGMOID") return std::tanh(gamma * dot(a, b) + added);
  if (type != "RBF") throw Error(ErrorCode::kBadInput, "there is no kernel \"" + type + "\"");
  double distance = 0;
  for (std::size_t i = 0; i < a.size(); ++i) distance += (a[i] - b[i]) * (a[i] - b[i]);
  return std::exp(-gamma * distance);
}

void run_svm_regressor(Call& call) {
  const Rows x(call);
  const std::vector<double> coefficients = call.reals("coefficients"), rho = call.reals("rho"),
                            vectors = call.reals("support_vectors");
  const std::int64_t supports = call.integer("n_supports", 0);
  const auto columns = static_cast<std::size_t>(x.columns);
  const std::size_t count = supports > 0 ? static_cast<std::size_t>(supports) : 1;
  if (rho.empty() || coefficients.size() != (supports > 0 ? count : columns) ||
      (supports > 0 && vectors.size() / count != columns))
    throw wrong_lists();
  std::vector<double> results;
  for (std::int64_t r = 0; r < x.count; ++r) {
    call.checkpoint();
    double y = rho[0];
    for (std::size_t s = 0; s < count && supports > 0; ++s)
      y += coefficients[s] * kernel(call, x.row(r), std::span(vectors).subspan(s * columns, columns));
    if (supports <= 0) y += kernel(call, x.row(r), coefficients);
    if (call.integer("one_class", 0) != 0) y = y > 0 ? 1 : -1;
    transform(transform_of(call), std::span(&y, 1));
    results.push_back(y);
  }
  give_rows(call, x.count, 1, results);
}

// The probabilities of classes, of which `pairs`[i * count + j] says that of i where it is i or j: the second method of T.-F.
// Wu, C.-J. Lin, R. C. Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling", JMLR 5 (2004).
std::vector<double> coupled(std::span<const double> pairs, std::size_t count) {
  const auto of_pair = [&](std::size_t i, std::size_t j) { return pairs[i * count + j]; };
  std::vector<double> q(count * count), p(count, 1 / static_cast<double>(count));
  for (std::size_t t = 0; t < count; ++t)
    for (std::size_t j = 0; j < count; ++j) {
      if (j == t) continue;
      q[t * count + t] += of_pair(j, t) * of_pair(j, t);
      q[t * count + j] = -of_pair(j, t) * of_pair(t, j);
    }
  const double small = 0.005 / static_cast<double>(count);
  for (std::size_t round = 0; round < std::max<std::size_t>(100, count); ++round) {
    std::vector<double> qp;
    for (std::size_t t = 0; t < count; ++t) qp.push_back(dot(std::span(q).subspan(t * count, count), p));
    double pqp = dot(p, qp);
    if (std::all_of(qp.begin(), qp.end(), [&](double v) { return std::fabs(v - pqp) < small; })) break;
    for (std::size_t t = 0; t < count; ++t) {
      const double diagonal = q[t * count + t], step = (pqp - qp[t]) / diagonal;
      pqp = (pqp + step * (step * diagonal + 2 * qp[t])) / ((1 + step) * (1 + step));
      p[t] += step;
      for (std::size_t j = 0; j < count; ++j) {
        qp[j] = (qp[j] + step * q[t * count + j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
  return p;
}

// Scores of pairs as probabilities of classes.
std::vector<double> probabilities(std::span<const double> scores, std::span<const double> a, std::span<const double> b,
                                  std::size_t classes) {
  constexpr double kLeast = 1e-7;  // neither is impossible
  std::vector<double> pairs(classes * classes);
  std::size_t next = 0;
  for (std::size_t i = 0; i < classes; ++i)
    for (std::size_t j = i + 1; j < classes; ++j, ++next) {
      const double p = std::clamp(logistic(-(a[next] * scores[next] + b[next])), kLeast, 1 - kLeast);
      pairs[i * classes + j] = p, pairs[j * classes + i] = 1 - p;
    }
  return coupled(pairs, classes);
}

// Each class against each other one; those that win most often are found.
void run_svm_classifier(Call& call) {
  const Rows x(call);
  const Labels labels(call, "classlabels_ints", "classlabels_strings");
  const std::vector<double> coefficients = call.reals("coefficients"), rho = call.reals("rho"),
                            vectors = call.reals("support_vectors");
  const std::vector<std::int64_t> by_class = call.integers("vectors_per_class");
  const std::vector<double> prob_a = call.reals("prob_a"), prob_b = call.reals("prob_b");
  if (by_class.empty()) throw Error(ErrorCode::kUnsupported, "linear forms of SVMClassifier");
  const std::size_t classes = labels.size(), columns = static_cast<std::size_t>(x.columns);
  std::vector<std::size_t> begin{0};
  for (const std::int64_t n : by_class)
    begin.push_back(begin.back() + static_cast<std::size_t>(checked_index(n, kMostElements)));
  const std::size_t supports = begin.back(), pairs = classes * (classes - 1) / 2;
  if (classes < 2 || by_class.size() != classes || rho.size() != pairs || vectors.size() != supports * columns ||
      coefficients.size() != (classes - 1) * supports ||
      (!prob_a.empty() && (prob_a.size() != pairs || prob_b.size() != pairs)))
    throw wrong_lists();
  const bool binary = classes == 2, is_probable = !prob_a.empty();
  std::vector<double> scores;
  std::vector<std::size_t> found;
  for (std::int64_t r = 0; r < x.count; ++r) {
    call.checkpoint();
    std::vector<double> kernels, votes(classes), row;
    for (std::size_t s = 0; s < supports; ++s)
      kernels.push_back(kernel(call, x.row(r), std::span(vectors).subspan(s * columns, columns)));
    for (std::size_t i = 0; i < classes; ++i)
      for (std::size_t j = i + 1; j < classes; ++j) {
        double score = rho[row.size()];
        for (std::size_t s = begin[i]; s < begin[i + 1]; ++s) score += coefficients[(j - 1) * supports + s] * kernels[s];
        for (std::size_t s = begin[j]; s < begin[j + 1]; ++s) score += coefficients[i * supports + s] * kernels[s];
        votes[score > 0 ? i : j] += 1;
        row.push_back(score);
      }
    found.push_back(largest(votes));
    if (is_probable)
      row = probabilities(row, prob_a, prob_b, classes);
    else if (binary)
      row.insert(row.begin(), -row[0]);
    transform(transform_of(call), row);
    scores.insert(scores.end(), row.begin(), row.end());
  }
  call.give(labels.of(found));
  give_rows(call, x.count, static_cast<std::int64_t>(is_probable || binary ? classes : pairs), scores);
}

// ---- Trees whose nodes have numbers

class Forest {
 public:
  explicit Forest(const Call& call)
      : trees_(call.integers("nodes_treeids")),
        nodes_(call.integers("nodes_nodeids")),
        features_(call.integers("nodes_featureids")),
        missing_(call.integers("nodes_missing_value_tracks_true")),
        splits_(call.reals("nodes_values")),
        modes_(call.texts("nodes_modes")) {
    if (const auto values = call.tensor("nodes_values_as_tensor")) splits_ = values->reals();
    const std::vector<std::int64_t> yes = call.integers("nodes_truenodeids"), no = call.integers("nodes_falsenodeids");
    const std::size_t count = trees_.size();
    for (const std::size_t size : {nodes_.size(), features_.size(), splits_.size(), modes_.size(), yes.size(), no.size()})
      if (size != count) throw wrong_lists();
    std::set<std::int64_t> begun;
    for (std::size_t n = 0; n < count; ++n) {
      place_.emplace(std::pair(trees_[n], nodes_[n]), n);
      if (begun.insert(trees_[n]).second) roots_.push_back(n);
    }
    for (std::size_t n = 0; n < count; ++n) {
      const bool is_leaf = modes_[n] == "LEAF";
      yes_.push_back(is_leaf ? n : place_of(trees_[n], yes[n]));
      no_.push_back(is_leaf ? n : place_of(trees_[n], no[n]));
    }
  }

  std::size_t trees() const { return roots_.size(); }
  std::size_t place_of(std::int64_t tree, std::int64_t node) const {
    const auto found = place_.find({tree, node});
    if (found == place_.end()) throw Error(ErrorCode::kBadInput, "there is no node " + std::to_string(node) + " in its tree");
    return found->second;
  }

  std::size_t leaf(std::size_t tree, std::span<const double> x) const {
    std::size_t n = roots_[tree];
    for (std::size_t steps = 0; steps <= trees_.size(); ++steps) {
      if (modes_[n] == "LEAF") return n;
      const double value = x[static_cast<std::size_t>(checked_index(features_[n], static_cast<std::int64_t>(x.size())))];
      n = goes_true(n, value) ? yes_[n] : no_[n];
    }
    throw Error(ErrorCode::kBadInput, "its tree has a cycle");
  }

 private:
  bool goes_true(std::size_t n, double x) const {
    const double split = splits_[n];
    const std::string& mode = modes_[n];
    if (std::isnan(x) && n < missing_.size() && missing_[n] != 0) return true;
    if (mode == "BRANCH_LEQ") return x <= split;
    if (mode == "BRANCH_LT") return x < split;
    if (mode == "BRANCH_GTE") return x >= split;
    if (mode == "BRANCH_GT") return x > split;
    if (mode == "BRANCH_EQ") return x == split;
    if (mode == "BRANCH_NEQ") return x != split;
    throw Error(ErrorCode::kBadInput, "there is no mode \"" + mode + "\" of nodes");
  }

  std::vector<std::int64_t> trees_, nodes_, features_, missing_;
  std::vector<double> splits_;
  std::vector<std::string> modes_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> place_;
  std::vector<std::size_t> roots_, yes_, no_;
};

// What the leaves say, and for which result.
struct Votes {
  std::map<std::size_t, std::vector<std::pair<std::size_t, double>>> of_leaf;
  std::set<std::size_t> targets;
  bool are_positive = true;
  Votes(const Call& call, const Forest& forest, const std::string& prefix, std::size_t count) {
    const std::vector<std::int64_t> trees = call.integers(prefix + "_treeids"), nodes = call.integers(prefix + "_nodeids"),
                                    ids = call.integers(prefix + "_ids");
    std::vector<double> weights = call.reals(prefix + "_weights");
    if (const auto tensor = call.tensor(prefix + "_weights_as_tensor")) weights = tensor->reals();
    if (trees.size() != nodes.size() || trees.size() != ids.size() || trees.size() != weights.size()) throw wrong_lists();
    for (std::size_t i = 0; i < trees.size(); ++i) {
      const auto id = static_cast<std::size_t>(checked_index(ids[i], static_cast<std::int64_t>(count)));
      targets.insert(id);
      are_positive = are_positive && weights[i] >= 0;
      of_leaf[forest.place_of(trees[i], nodes[i])].emplace_back(id, weights[i]);
    }
  }
};

std::vector<double> base_values(const Call& call) {
  const auto tensor = call.tensor("base_values_as_tensor");
  return tensor ? tensor->reals() : call.reals("base_values");
}

void run_tree_ensemble_regressor(Call& call) {
  const Rows x(call);
  const Forest forest(call);
  const std::int64_t targets = call.integer("n_targets", 1);
  require_few(targets);
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(targets, 0));
  const Votes votes(call, forest, "target", count);
  const std::string aggregate = call.text("aggregate_function", "SUM");
  const std::vector<double> base = base_values(call);
  if (!base.empty() && base.size() != count) throw wrong_lists();
  std::vector<double> results;
  for (std::int64_t r = 0; r < x.count; ++r) {
    call.checkpoint();
    std::vector<double> row(count);
    std::vector<bool> met(count);
    for (std::size_t tree = 0; tree < forest.trees(); ++tree) {
      const auto found = votes.of_leaf.find(forest.leaf(tree, x.row(r)));
      if (found == votes.of_leaf.end()) continue;
      for (const auto& [id, weight] : found->second) {
        const bool first = !met[id];
        met[id] = true;
        row[id] = aggregate == "MIN"   ? (first ? weight : std::min(row[id], weight))
                  : aggregate == "MAX" ? (first ? weight : std::max(row[id], weight))
                                       : row[id] + weight;
      }
    }
    for (std::size_t t = 0; t < count; ++t) {
      if (aggregate == "AVERAGE") row[t] /= static_cast<double>(forest.trees());
      if (!base.empty()) row[t] += base[t];
    }
    transform(transform_of(call), row);
    results.insert(results.end(), row.begin(), row.end());
  }
  give_rows(call, x.count, targets, results);
}

// Leaves that all speak of one class, of two, give the score of the second one: a probability if nothing transforms it and no
// leaf is negative.
void run_tree_ensemble_classifier(Call& call) {
  const Rows x(call);
  const Forest forest(call);
  const Labels labels(call, "classlabels_int64s", "classlabels_strings");
  const std::size_t count = labels.size();
  const Votes votes(call, forest, "class", count);
  const std::vector<double> base = base_values(call);
  const bool binary = count == 2 && votes.targets.size() == 1;
  const std::string how = transform_of(call);
  if (count < 2) throw Error(ErrorCode::kUnsupported, "fewer than two classes");
  if (!base.empty() && base.size() != count && !(binary && base.size() == 1)) throw wrong_lists();
  std::vector<double> scores;
  std::vector<std::size_t> found;
  for (std::int64_t r = 0; r < x.count; ++r) {
    call.checkpoint();
    std::vector<double> row(count);
    for (std::size_t tree = 0; tree < forest.trees(); ++tree)
      if (const auto at = votes.of_leaf.find(forest.leaf(tree, x.row(r))); at != votes.of_leaf.end())
        for (const auto& [id, weight] : at->second) row[id] += weight;
    if (binary) {
      double one = row[*votes.targets.begin()];
      if (!base.empty()) one += base.size() == 1 ? base[0] : base[1];
      const bool is_probability = how == "NONE" && votes.are_positive;
      row = {is_probability ? 1 - one : -one, one};
      found.push_back(one > (is_probability ? 0.5 : 0));
    } else {
      for (std::size_t c = 0; c < base.size(); ++c) row[c] += base[c];
      found.push_back(largest(row));
    }
    transform(how, row);
    scores.insert(scores.end(), row.begin(), row.end());
  }
  call.give(labels.of(found));
  give_rows(call, x.count, static_cast<std::int64_t>(count), scores);
}

}  // namespace

void register_classical(Procedures& p) {
  p.add("Normalizer", run_normalizer, kDomain);
  p.add("Imputer", run_imputer, kDomain);
  p.add("OneHotEncoder", run_one_hot_encoder, kDomain);
  p.add("FeatureVectorizer", run_feature_vectorizer, kDomain);
  p.add("LinearRegressor", run_linear_regressor, kDomain);
  p.add("LinearClassifier", run_linear_classifier, kDomain);
  p.add("SVMRegressor", run_svm_regressor, kDomain);
  p.add("SVMClassifier", run_svm_classifier, kDomain);
  p.add("TreeEnsembleRegressor", run_tree_ensemble_regressor, kDomain);
  p.add("TreeEnsembleClassifier", run_tree_ensemble_classifier, kDomain);
}

}  // namespace rewright
