// ai.onnx.ml: ensembles of trees in their older form, whose nodes have numbers.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "operators/procedures/learned/scores.h"
#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

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

// The scores of the leaves, each for a result.
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

// If all leaves name the same one of two classes, the score is that of the second class: a probability if there is no
// post-transform and no leaf is negative. A single class has one score, which only PROBIT changes.
void run_tree_ensemble_classifier(Call& call) {
  const Rows x(call);
  const Forest forest(call);
  const Labels labels(call, "classlabels_int64s", "classlabels_strings");
  const std::size_t count = labels.size();
  const Votes votes(call, forest, "class", count);
  const std::vector<double> base = base_values(call);
  const bool binary = count == 2 && votes.targets.size() == 1;
  const std::string how = transform_of(call);
  if (count == 0) throw wrong_lists();
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
      found.push_back(count == 1 ? static_cast<std::size_t>(row[0] > 0) : largest(row));
    }
    if (count > 1 || how == "PROBIT") transform(how, row);
    scores.insert(scores.end(), row.begin(), row.end());
  }
  call.give(count == 1 ? labels.of_one(found) : labels.of(found));
  give_rows(call, x.count, static_cast<std::int64_t>(count), scores);
}

}  // namespace

void register_numbered_trees(Procedures& p) {
  p.add("TreeEnsembleRegressor", run_tree_ensemble_regressor, kLearnedDomain);
  p.add("TreeEnsembleClassifier", run_tree_ensemble_classifier, kLearnedDomain);
}

}  // namespace rewright::operators
