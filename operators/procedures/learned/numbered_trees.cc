// ai.onnx.ml: ensembles of trees in their older form, whose nodes have numbers.
#include <algorithm>
#include <map>
#include <set>

#include "operators/procedures/learned/forest.h"
#include "operators/procedures/learned/scores.h"
#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

// The nodes of an ensemble, in the order of the attributes.
class NumberedNodes {
 public:
  explicit NumberedNodes(const Call& call) : trees_(call.integers("nodes_treeids")), modes_(call.texts("nodes_modes")) {
    const std::vector<std::int64_t> nodes = call.integers("nodes_nodeids");
    if (nodes.size() != trees_.size() || modes_.size() != trees_.size()) throw wrong_lists();
    std::set<std::int64_t> begun;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      place_.emplace(std::pair(trees_[n], nodes[n]), n);
      if (begun.insert(trees_[n]).second) roots_.push_back(n);
    }
  }

  std::size_t size() const { return trees_.size(); }
  std::size_t place_of(std::int64_t tree, std::int64_t node) const {
    const auto found = place_.find({tree, node});
    if (found == place_.end()) throw Error(ErrorCode::kBadInput, "there is no node " + std::to_string(node) + " in its tree");
    return found->second;
  }

  // Leaves have the numbers of their nodes.
  Forest forest(const Call& call) const {
    const std::vector<std::int64_t> features = call.integers("nodes_featureids"), yes = call.integers("nodes_truenodeids"),
                                    no = call.integers("nodes_falsenodeids"),
                                    missing = call.integers("nodes_missing_value_tracks_true");
    std::vector<double> splits = call.reals("nodes_values");
    if (const auto values = call.tensor("nodes_values_as_tensor")) splits = values->reals();
    for (const std::size_t length : {features.size(), splits.size(), yes.size(), no.size()})
      if (length != size()) throw wrong_lists();
    // Branches are numbered on their own.
    std::vector<std::size_t> branch_of(size());
    std::size_t count = 0;
    for (std::size_t n = 0; n < size(); ++n)
      if (!is_leaf(n)) branch_of[n] = count++;
    const auto target = [&](std::size_t n) { return Forest::Target{is_leaf(n), is_leaf(n) ? n : branch_of[n]}; };
    std::vector<Forest::Branch> branches;
    for (std::size_t n = 0; n < size(); ++n)
      if (!is_leaf(n))
        branches.push_back({features[n],
                            test_of(modes_[n]),
                            splits[n],
                            {},
                            n < missing.size() && missing[n] != 0,
                            target(place_of(trees_[n], yes[n])),
                            target(place_of(trees_[n], no[n]))});
    std::vector<Forest::Target> roots;
    for (const std::size_t root : roots_) roots.push_back(target(root));
    return {branches, roots, size(), true};
  }

 private:
  bool is_leaf(std::size_t n) const { return modes_[n] == "LEAF"; }
  static Forest::Test test_of(const std::string& mode) {
    static const std::map<std::string, Forest::Test> tests{
        {"BRANCH_LEQ", Forest::Test::kAtMost}, {"BRANCH_LT", Forest::Test::kLess},  {"BRANCH_GTE", Forest::Test::kAtLeast},
        {"BRANCH_GT", Forest::Test::kGreater}, {"BRANCH_EQ", Forest::Test::kEqual}, {"BRANCH_NEQ", Forest::Test::kUnequal}};
    const auto found = tests.find(mode);
    if (found == tests.end()) throw Error(ErrorCode::kBadInput, "there is no mode \"" + mode + "\" of nodes");
    return found->second;
  }

  std::vector<std::int64_t> trees_;
  std::vector<std::string> modes_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> place_;
  std::vector<std::size_t> roots_;
};

// The scores of the leaves, each for a result.
struct Votes {
  struct Vote {
    std::size_t target = 0;
    double weight = 0;
  };
  std::vector<Vote> votes;
  std::vector<std::size_t> begin;  // of each leaf's, and the end of the last one's
  std::set<std::size_t> targets;
  bool are_positive = true;

  Votes(const Call& call, const NumberedNodes& numbered, const std::string& prefix, std::size_t count) {
    const std::vector<std::int64_t> trees = call.integers(prefix + "_treeids"), nodes = call.integers(prefix + "_nodeids"),
                                    ids = call.integers(prefix + "_ids");
    std::vector<double> weights = call.reals(prefix + "_weights");
    if (const auto tensor = call.tensor(prefix + "_weights_as_tensor")) weights = tensor->reals();
    if (trees.size() != nodes.size() || trees.size() != ids.size() || trees.size() != weights.size()) throw wrong_lists();
    std::vector<std::vector<Vote>> of_leaf(numbered.size());
    for (std::size_t i = 0; i < trees.size(); ++i) {
      const auto id = static_cast<std::size_t>(checked_index(ids[i], static_cast<std::int64_t>(count)));
      targets.insert(id);
      are_positive = are_positive && weights[i] >= 0;
      of_leaf[numbered.place_of(trees[i], nodes[i])].push_back({id, weights[i]});
    }
    for (const std::vector<Vote>& leaf : of_leaf) {
      begin.push_back(votes.size());
      votes.insert(votes.end(), leaf.begin(), leaf.end());
    }
    begin.push_back(votes.size());
  }
  std::span<const Vote> of(std::size_t leaf) const {
    return std::span(votes).subspan(begin[leaf], begin[leaf + 1] - begin[leaf]);
  }
};

struct NumberedEnsemble {
  NumberedNodes numbered;
  Forest forest;
  Votes votes;
  std::vector<double> base;

  NumberedEnsemble(const Call& call, const std::string& prefix, std::size_t count)
      : numbered(call), forest(numbered.forest(call)), votes(call, numbered, prefix, count) {
    const auto tensor = call.tensor("base_values_as_tensor");
    base = tensor ? tensor->reals() : call.reals("base_values");
  }
};

void run_tree_ensemble_regressor(Call& call) {
  const Rows x(call);
  const std::int64_t targets = call.integer("n_targets", 1);
  require_few(targets);
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(targets, 0));
  const auto kept = call.kept<NumberedEnsemble>([&] { return NumberedEnsemble(call, "target", count); });
  const NumberedEnsemble& e = *kept;
  if (!e.base.empty() && e.base.size() != count) throw wrong_lists();
  const std::string aggregate = call.text("aggregate_function", "SUM"), how = transform_of(call);
  const bool is_min = aggregate == "MIN", chooses = is_min || aggregate == "MAX";
  std::vector<double> results(static_cast<std::size_t>(x.count) * count);
  std::vector<bool> met(chooses ? results.size() : 0);
  e.forest.for_each_leaf(
      x.values, x.columns, x.count, [&] { call.checkpoint(); },
      [&](std::size_t row, std::size_t leaf) {
        for (const auto& [id, weight] : e.votes.of(leaf)) {
          const std::size_t at = row * count + id;
          double& y = results[at];
          if (!chooses) {
            y += weight;
            continue;
          }
          y = !met[at] ? weight : is_min ? std::min(y, weight) : std::max(y, weight);
          met[at] = true;
        }
      });
  for (std::size_t r = 0; r < static_cast<std::size_t>(x.count); ++r) {
    const std::span<double> row = std::span(results).subspan(r * count, count);
    for (std::size_t t = 0; t < count; ++t) {
      if (aggregate == "AVERAGE") row[t] /= static_cast<double>(e.forest.trees());
      if (!e.base.empty()) row[t] += e.base[t];
    }
    transform(how, row);
  }
  give_rows(call, x.count, targets, results);
}

// If all leaves name the same one of two classes, the score is that of the second class: a probability if there is no
// post-transform and no leaf is negative. A single class has one score, which only PROBIT changes.
void run_tree_ensemble_classifier(Call& call) {
  const Rows x(call);
  const Labels labels(call, "classlabels_int64s", "classlabels_strings");
  const std::size_t count = labels.size();
  const auto kept = call.kept<NumberedEnsemble>([&] { return NumberedEnsemble(call, "class", count); });
  const NumberedEnsemble& e = *kept;
  const std::vector<double>& base = e.base;
  const bool binary = count == 2 && e.votes.targets.size() == 1;
  const std::string how = transform_of(call);
  if (count == 0) throw wrong_lists();
  if (!base.empty() && base.size() != count && !(binary && base.size() == 1)) throw wrong_lists();
  std::vector<double> scores(static_cast<std::size_t>(x.count) * count);
  e.forest.for_each_leaf(
      x.values, x.columns, x.count, [&] { call.checkpoint(); },
      [&](std::size_t row, std::size_t leaf) {
        for (const auto& [id, weight] : e.votes.of(leaf)) scores[row * count + id] += weight;
      });
  std::vector<std::size_t> found;
  for (std::size_t r = 0; r < static_cast<std::size_t>(x.count); ++r) {
    const std::span<double> row = std::span(scores).subspan(r * count, count);
    if (binary) {
      double one = row[*e.votes.targets.begin()];
      if (!base.empty()) one += base.size() == 1 ? base[0] : base[1];
      const bool is_probability = how == "NONE" && e.votes.are_positive;
      row[0] = is_probability ? 1 - one : -one;
      row[1] = one;
      found.push_back(one > (is_probability ? 0.5 : 0));
    } else {
      for (std::size_t c = 0; c < base.size(); ++c) row[c] += base[c];
      found.push_back(count == 1 ? static_cast<std::size_t>(row[0] > 0) : largest(row));
    }
    if (count > 1 || how == "PROBIT") transform(how, row);
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
