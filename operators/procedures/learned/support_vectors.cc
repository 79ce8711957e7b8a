// ai.onnx.ml: support vectors.
#include "operators/procedures/learned/support_vectors.h"

#include <algorithm>
#include <cmath>

#include "operators/formulas.h"
#include "operators/procedures/learned/scores.h"
#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

ValueId squared_distances(GraphBuilder& graph, ValueId a, ValueId b) {
  const Indices of_a = graph.shape_of(a), of_b = graph.shape_of(b);
  const ValueId difference =
      graph.add("Sub", {graph.reshaped(a, {of_a[0], 1, of_a[1]}), graph.reshaped(b, {1, of_b[0], of_b[1]})});
  return graph.summed(graph.add("Mul", {difference, difference}), {2});
}

ValueId kernel_values(GraphBuilder& graph, const OnnxAttributes& attributes, ValueId x, ValueId vectors) {
  const std::string type = attributes.text("kernel_type", "LINEAR");
  std::vector<double> parameters = attributes.reals("kernel_params");
  parameters.resize(3);
  const double gamma = parameters[0], added = parameters[1], degree = parameters[2];
  Formulas f(graph, DataType::kFloat);
  if (type == "RBF") return graph.add("Exp", {f.scaled(squared_distances(graph, x, vectors), -gamma)});
  const ValueId product = graph.add("MatMul", {x, graph.transposed(vectors, {1, 0})});
  if (type == "LINEAR") return product;
  const ValueId affine = f.plus(f.scaled(product, gamma), added);
  if (type == "POLY") return graph.add("Pow", {affine, f.number(degree)});
  if (type == "SIGMOID") return graph.add("Tanh", {affine});
  throw Error(ErrorCode::kBadInput, "there is no kernel \"" + type + "\"");
}

std::optional<PairScores> pair_scores(GraphBuilder& graph, const OnnxAttributes& attributes, ValueId x, std::size_t classes) {
  const std::vector<double> coefficients = attributes.reals("coefficients"), rho = attributes.reals("rho"),
                            vectors = attributes.reals("support_vectors");
  const std::vector<std::int64_t> by_class = attributes.integers("vectors_per_class");
  if (by_class.empty()) throw Error(ErrorCode::kUnsupported, "linear forms of SVMClassifier");
  std::vector<std::size_t> begin{0};
  for (const std::int64_t n : by_class)
    begin.push_back(begin.back() + static_cast<std::size_t>(checked_index(n, kMostElements)));
  const Index columns = graph.shape_of(x)[1];
  const std::size_t supports = begin.back(), pairs = classes * (classes - 1) / 2;
  const bool fit = classes >= 2 && by_class.size() == classes && rho.size() == pairs && columns.is_constant() &&
                   vectors.size() == supports * static_cast<std::size_t>(columns.value()) &&
                   coefficients.size() == (classes - 1) * supports;
  if (!fit) return std::nullopt;
  // The weight of each vector in the score of each pair, and of each pair that its first class wins in the votes.
  std::vector<double> weights(supports * pairs), wins(pairs * classes), losses(classes);
  std::size_t pair = 0;
  for (std::size_t i = 0; i < classes; ++i)
    for (std::size_t j = i + 1; j < classes; ++j, ++pair) {
      for (std::size_t s = begin[i]; s < begin[i + 1]; ++s) weights[s * pairs + pair] = coefficients[(j - 1) * supports + s];
      for (std::size_t s = begin[j]; s < begin[j + 1]; ++s) weights[s * pairs + pair] = coefficients[i * supports + s];
      wins[pair * classes + i] = 1, wins[pair * classes + j] = -1;
      losses[j] += 1;
    }
  Formulas f(graph, DataType::kFloat);
  const auto rows = static_cast<std::int64_t>(supports), of_pairs = static_cast<std::int64_t>(pairs),
             of_classes = static_cast<std::int64_t>(classes);
  const ValueId kernels = kernel_values(graph, attributes, x, f.numbers({rows, columns.value()}, vectors));
  const ValueId scores =
      f.sum(graph.add("MatMul", {kernels, f.numbers({rows, of_pairs}, weights)}), f.numbers({of_pairs}, rho));
  const ValueId first_wins = graph.cast(graph.add("Greater", {scores, f.number(0)}), DataType::kFloat);
  const ValueId votes =
      f.sum(graph.add("MatMul", {first_wins, f.numbers({of_pairs, of_classes}, wins)}), f.numbers({of_classes}, losses));
  return PairScores{scores, votes};
}

namespace {

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

// A classifier that gives probabilities; others are graphs as a whole.
void run_svm_classifier(Call& call) {
  const Labels labels(call, "classlabels_ints", "classlabels_strings");
  const std::vector<double> prob_a = call.reals("prob_a"), prob_b = call.reals("prob_b");
  const std::size_t classes = labels.size(), pairs = classes * (classes - 1) / 2;
  if (classes < 2 || prob_a.size() != pairs || prob_b.size() != pairs) throw wrong_lists();
  const Rows x(call);
  const Call::Given given{Tensor::from_reals(DataType::kFloat, {x.count, x.columns}, x.values)};
  const auto graph = call.graph("scores", std::span(&given, 1), [&](GraphBuilder& b, const std::vector<ValueId>& values) {
    const auto found = pair_scores(b, call, values[0], classes);
    if (!found) throw wrong_lists();
    return std::vector<ValueId>{found->scores, found->votes};
  });
  const std::vector<Datum> results = graph->run(std::vector<Datum>{given.tensor});
  const std::vector<double> scores = results.at(0).tensor().reals(), votes = results.at(1).tensor().reals();
  std::vector<double> shares;
  std::vector<std::size_t> found;
  for (std::size_t r = 0; r < static_cast<std::size_t>(x.count); ++r) {
    call.checkpoint();
    found.push_back(largest(std::span(votes).subspan(r * classes, classes)));
    std::vector<double> row = probabilities(std::span(scores).subspan(r * pairs, pairs), prob_a, prob_b, classes);
    transform(transform_of(call), row);
    shares.insert(shares.end(), row.begin(), row.end());
  }
  call.give(labels.of(found));
  give_rows(call, x.count, static_cast<std::int64_t>(classes), shares);
}

}  // namespace

void register_support_vectors(Procedures& p) { p.add("SVMClassifier", run_svm_classifier, kLearnedDomain); }

}  // namespace rewright::operators
