// ai.onnx.ml: support vectors.
#include <algorithm>
#include <cmath>

#include "operators/procedures/learned/scores.h"
#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

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

// Probabilities of classes from `pairs`[i * count + j], the probability of class i if the class is i or j: the second method of
// T.-F. Wu, C.-J. Lin, R. C. Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling", JMLR 5 (2004).
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

// Turns scores of pairs of classes into probabilities of classes.
std::vector<double> probabilities(std::span<const double> scores, std::span<const double> a, std::span<const double> b,
                                  std::size_t classes) {
  constexpr double kLeast = 1e-7;  // no class is impossible
  std::vector<double> pairs(classes * classes);
  std::size_t next = 0;
  for (std::size_t i = 0; i < classes; ++i)
    for (std::size_t j = i + 1; j < classes; ++j, ++next) {
      const double p = std::clamp(logistic(-(a[next] * scores[next] + b[next])), kLeast, 1 - kLeast);
      pairs[i * classes + j] = p, pairs[j * classes + i] = 1 - p;
    }
  return coupled(pairs, classes);
}

// Compares each class with each other one; returns the one that wins most often.
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

}  // namespace

void register_support_vectors(Procedures& p) {
  p.add("SVMRegressor", run_svm_regressor, kLearnedDomain);
  p.add("SVMClassifier", run_svm_classifier, kLearnedDomain);
}

}  // namespace rewright::operators
