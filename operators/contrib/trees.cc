// ai.onnx.ml: ensembles of trees, in the form of versions 1 to 3, whose nodes have numbers, and in that of version 5, whose
// branches and leaves are lists of their own.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "operators/contrib/canonical_trees.h"
#include "operators/contrib/learned_parts.h"
#include "operators/procedures/learned/scores.h"
#include "operators/texts.h"

namespace rewright::operators {

namespace {

using Results = ContribNode::Results;
using Branch = CanonicalTrees::Branch;
using Test = CanonicalTrees::Test;

// x as floats, or as doubles if it has them.
ValueId real_rows(ContribNode& n) {
  const ValueId x = rows_of(n, 0);
  return n.b.type_of(x).type == DataType::kDouble ? x : n.b.cast(x, DataType::kFloat);
}

std::vector<double> reals_or_tensor(const ContribNode& n, const std::string& attribute) {
  const auto tensor = n.source.tensor(attribute + "_as_tensor");
  return tensor ? tensor->reals() : n.source.reals(attribute);
}

// ---- Nodes with numbers

class NumberedNodes {
 public:
  explicit NumberedNodes(const ContribNode& n)
      : n_(n), trees_(n.source.integers("nodes_treeids")), modes_(n.source.texts("nodes_modes")) {
    const std::vector<std::int64_t> nodes = n.source.integers("nodes_nodeids");
    if (nodes.size() != trees_.size() || modes_.size() != trees_.size()) throw wrong_lists();
    places_.reserve(nodes.size());
    std::set<std::int64_t> begun;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      places_.try_emplace({trees_[i], nodes[i]}, i);
      if (begun.insert(trees_[i]).second) roots_.push_back(i);
      targets_.push_back(modes_[i] == "LEAF" ? ~leaves_++ : branches_++);
    }
  }

  std::size_t tree_count() const { return roots_.size(); }
  std::size_t place_of(std::int64_t tree, std::int64_t node) const {
    const auto found = places_.find({tree, node});
    if (found == places_.end()) throw Error(ErrorCode::kBadInput, "there is no node " + std::to_string(node) + " in its tree");
    return found->second;
  }
  // The votes of leaves are added by the caller.
  CanonicalTrees trees(DataType type) const {
    const std::vector<std::int64_t> features = n_.source.integers("nodes_featureids"),
                                    yes = n_.source.integers("nodes_truenodeids"),
                                    no = n_.source.integers("nodes_falsenodeids"),
                                    missing = n_.source.integers("nodes_missing_value_tracks_true");
    const std::vector<double> splits = reals_or_tensor(n_, "nodes_values");
    for (const std::size_t length : {features.size(), splits.size(), yes.size(), no.size()})
      if (length != trees_.size()) throw wrong_lists();
    CanonicalTrees result(static_cast<std::size_t>(branches_), type);
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      if (targets_[i] < 0) continue;
      const auto target = [&](std::int64_t node) { return targets_[place_of(trees_[i], node)]; };
      const bool missing_is_true = i < missing.size() && missing[i] != 0;
      result.set(static_cast<std::size_t>(targets_[i]),
                 {features[i], test_of(modes_[i]), splits[i], {}, missing_is_true, target(yes[i]), target(no[i])});
    }
    for (const std::size_t root : roots_) result.add_root(targets_[root]);
    return result;
  }

  // The scores that leaves give, in the order of the leaves.
  struct Votes {
    struct Vote {
      std::int64_t target = 0;
      double weight = 0;
    };
    std::vector<std::vector<Vote>> of_leaf;
    std::set<std::int64_t> targets;
    bool are_positive = true;
  };
  Votes votes(const std::string& prefix, std::int64_t count) const {
    const std::vector<std::int64_t> trees = n_.source.integers(prefix + "_treeids"),
                                    nodes = n_.source.integers(prefix + "_nodeids"), ids = n_.source.integers(prefix + "_ids");
    const std::vector<double> weights = reals_or_tensor(n_, prefix + "_weights");
    if (trees.size() != nodes.size() || trees.size() != ids.size() || trees.size() != weights.size()) throw wrong_lists();
    Votes result;
    result.of_leaf.resize(static_cast<std::size_t>(leaves_));
    for (std::size_t i = 0; i < trees.size(); ++i) {
      const auto id = static_cast<std::int64_t>(checked_index(ids[i], count));
      result.targets.insert(id);
      result.are_positive = result.are_positive && weights[i] >= 0;
      // Only leaves give weights: those of branches are ignored.
      if (const std::int64_t at = targets_[place_of(trees[i], nodes[i])]; at < 0)
        result.of_leaf[static_cast<std::size_t>(~at)].push_back({id, weights[i]});
    }
    return result;
  }

 private:
  static Test test_of(const std::string& mode) {
    static const std::map<std::string, Test> tests{{"BRANCH_LEQ", Test::kAtMost},  {"BRANCH_LT", Test::kLess},
                                                   {"BRANCH_GTE", Test::kAtLeast}, {"BRANCH_GT", Test::kGreater},
                                                   {"BRANCH_EQ", Test::kEqual},    {"BRANCH_NEQ", Test::kUnequal}};
    const auto found = tests.find(mode);
    if (found == tests.end()) throw Error(ErrorCode::kBadInput, "there is no mode \"" + mode + "\" of nodes");
    return found->second;
  }

  struct Hash {
    std::size_t operator()(const std::pair<std::int64_t, std::int64_t>& id) const {
      return static_cast<std::size_t>(static_cast<std::uint64_t>(id.first) * 0x9E3779B97F4A7C15U +
                                      static_cast<std::uint64_t>(id.second));
    }
  };

  const ContribNode& n_;
  std::vector<std::int64_t> trees_;
  std::vector<std::string> modes_;
  std::unordered_map<std::pair<std::int64_t, std::int64_t>, std::size_t, Hash> places_;
  std::vector<std::int64_t> targets_;  // as in Trees
  std::vector<std::size_t> roots_;
  std::int64_t leaves_ = 0, branches_ = 0;
};

// ONNX Runtime adds the base to the sum in the type of the splits, and then makes floats of it.
// Zeros change nothing: no sum of leaves is a negative zero. The least or largest leaf may be one.
ValueId with_base(ContribNode& n, ValueId scores, const std::vector<double>& base, bool is_sum = true) {
  if (base.empty()) return scores;
  if (is_sum && std::all_of(base.begin(), base.end(), [](double b) { return b == 0; })) return scores;
  Formulas f(n.b, n.b.type_of(scores).type);
  return f.sum(scores, f.numbers({static_cast<std::int64_t>(base.size())}, base));
}

// The scores of an aggregate_function.
ValueId aggregated(ContribNode& n, const CanonicalTrees& trees, ValueId x, std::int64_t targets, std::size_t tree_count,
                   const std::string& how) {
  const char* const aggregate = how == "MIN" ? "min" : how == "MAX" ? "max" : "sum";
  ContribNode::require(how == "SUM" || how == "AVERAGE" || *aggregate == 'm', "there is no aggregate_function \"" + how + "\"");
  const ValueId scores = trees.scores(n, x, targets, aggregate);
  if (how != "AVERAGE" || tree_count == 0) return scores;
  Formulas f(n.b, n.b.type_of(scores).type);
  return f.quotient(scores, f.number(static_cast<double>(tree_count)));
}

Results tree_ensemble_regressor(ContribNode& n, std::string&) {
  const std::int64_t targets = n.source.integer("n_targets", 1);
  ContribNode::require(targets >= 0, "n_targets is " + std::to_string(targets));
  const ValueId x = real_rows(n);
  const NumberedNodes nodes(n);
  CanonicalTrees trees = nodes.trees(n.b.type_of(x).type);
  for (const auto& leaf : nodes.votes("target", targets).of_leaf) {
    for (const auto& [target, weight] : leaf) trees.add_vote(target, weight);
    trees.end_leaf();
  }
  const std::vector<double> base = reals_or_tensor(n, "base_values");
  if (!base.empty() && static_cast<std::int64_t>(base.size()) != targets) throw wrong_lists();
  const std::string how = n.source.text("aggregate_function", "SUM");
  const ValueId scores = aggregated(n, trees, x, targets, nodes.tree_count(), how);
  const bool is_sum = how == "SUM" || how == "AVERAGE";
  return n.results({transformed(n, n.b.cast(with_base(n, scores, base, is_sum), DataType::kFloat))});
}

constexpr const char *kIntegers = "classlabels_int64s", *kTexts = "classlabels_strings";

// The class of each row that has a truth value, as [rows].
ValueId as_classes(ContribNode& n, ValueId is_second) {
  return n.b.cast(n.b.reshaped(is_second, {n.b.shape_of(is_second)[0]}), DataType::kInt64);
}

// The scores [rows, 1] are those of the second of two classes: probabilities if there is no post-transform and no leaf is
// negative.
Results two_classes(ContribNode& n, ValueId one, bool is_probability) {
  Formulas f(n.b, n.b.type_of(one).type);
  const ValueId classes = as_classes(n, n.b.add("Greater", {one, f.number(is_probability ? 0.5 : 0)}));
  const ValueId other = is_probability ? f.difference(f.number(1), one) : n.b.add("Neg", {one});
  const ValueId scores = n.b.cast(n.joined({other, one}, 1), DataType::kFloat);
  return n.results({labels_of(n, classes, kIntegers, kTexts), transformed(n, scores)});
}

// A single class has one score, which only PROBIT changes. Integers as labels are ignored: the result is whether the score is
// positive, or the class's text. This is what ONNX Runtime does.
Results one_class(ContribNode& n, ValueId scores) {
  Formulas f(n.b, n.b.type_of(scores).type);
  ValueId classes = as_classes(n, n.b.add("Greater", {scores, f.number(0)}));
  if (!n.source.texts(kTexts).empty()) {
    const ValueId first = n.b.add("Mul", {classes, n.b.scalar(DataType::kInt64, 0)});
    classes = labels_of(n, first, kIntegers, kTexts);
  }
  const ValueId given = n.b.cast(scores, DataType::kFloat);
  return n.results({classes, n.source.text("post_transform", "NONE") == "PROBIT" ? probit(n, given) : given});
}

// If all leaves name the same one of two classes, the score is that of the second class.
Results tree_ensemble_classifier(ContribNode& n, std::string&) {
  const std::size_t labels = std::max(n.source.integers(kIntegers).size(), n.source.texts(kTexts).size());
  if (labels == 0) throw wrong_lists();
  const auto count = static_cast<std::int64_t>(labels);
  const ValueId x = real_rows(n);
  const NumberedNodes nodes(n);
  CanonicalTrees trees = nodes.trees(n.b.type_of(x).type);
  const NumberedNodes::Votes votes = nodes.votes("class", count);
  const bool is_binary = count == 2 && votes.targets.size() == 1;
  for (const auto& leaf : votes.of_leaf) {
    for (const auto& [target, weight] : leaf) trees.add_vote(is_binary ? 0 : target, weight);
    trees.end_leaf();
  }
  std::vector<double> base = reals_or_tensor(n, "base_values");
  if (!base.empty() && base.size() != labels && !(is_binary && base.size() == 1)) throw wrong_lists();
  if (is_binary && base.size() == 2) base.erase(base.begin());
  const ValueId scores = with_base(n, trees.scores(n, x, is_binary ? 1 : count, "sum"), base);
  if (is_binary) return two_classes(n, scores, n.source.text("post_transform", "NONE") == "NONE" && votes.are_positive);
  if (count == 1) return one_class(n, scores);
  const ValueId winner = n.b.add("ArgMax", {scores}, {{"axis", Index(1)}, {"keepdims", false}});
  return n.results({labels_of(n, winner, kIntegers, kTexts), transformed(n, n.b.cast(scores, DataType::kFloat))});
}

// ---- Lists of branches and leaves

std::vector<double> reals_of(const ContribNode& n, const char* attribute) {
  const auto tensor = n.source.tensor(attribute);
  return tensor ? tensor->reals() : std::vector<double>();
}

std::int64_t target_of(std::int64_t number, bool is_leaf) {
  if (number < 0) throw Error(ErrorCode::kBadInput, "there is no node " + std::to_string(number));
  return is_leaf ? ~number : number;
}

CanonicalTrees listed_trees(const ContribNode& n, DataType type) {
  const std::vector<std::int64_t> features = n.source.integers("nodes_featureids"),
                                  yes = n.source.integers("nodes_truenodeids"), no = n.source.integers("nodes_falsenodeids"),
                                  yes_leaves = n.source.integers("nodes_trueleafs"),
                                  no_leaves = n.source.integers("nodes_falseleafs"),
                                  missing = n.source.integers("nodes_missing_value_tracks_true");
  const std::vector<double> splits = reals_of(n, "nodes_splits"), members = reals_of(n, "membership_values");
  const auto modes_tensor = n.source.tensor("nodes_modes");
  const std::vector<std::int64_t> modes = modes_tensor ? modes_tensor->integers() : std::vector<std::int64_t>();
  const std::size_t count = features.size();
  for (const std::size_t size : {yes.size(), no.size(), yes_leaves.size(), no_leaves.size(), modes.size(), splits.size()})
    ContribNode::require(size == count, "the lists of its nodes have different lengths");
  CanonicalTrees trees(count, type);
  auto next = members.begin();
  for (std::size_t i = 0; i < count; ++i) {
    ContribNode::require(modes[i] >= 0 && modes[i] < CanonicalTrees::kTests,
                         "there is no mode " + std::to_string(modes[i]) + " of nodes");
    Branch b{features[i],
             static_cast<Test>(modes[i]),
             splits[i],
             {},
             i < missing.size() && missing[i] != 0,
             target_of(yes[i], yes_leaves[i] != 0),
             target_of(no[i], no_leaves[i] != 0)};
    if (b.test == Test::kMember) {
      // The sets follow each other; a NaN ends each.
      while (next != members.end() && !std::isnan(*next)) b.members.push_back(*next++);
      if (next != members.end()) ++next;
    }
    trees.set(i, b);
  }
  return trees;
}

Results tree_ensemble(ContribNode& n, std::string&) {
  static constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  static constexpr const char* kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const std::int64_t targets = n.source.integer("n_targets", 1), transform = n.source.integer("post_transform", 0),
                     aggregate = n.source.integer("aggregate_function", 1);
  ContribNode::require(transform >= 0 && transform < 5, "there is no post_transform " + std::to_string(transform));
  ContribNode::require(aggregate >= 0 && aggregate < 4, "there is no aggregate_function " + std::to_string(aggregate));
  ContribNode::require(targets >= 0, "n_targets is " + std::to_string(targets));
  n.require_rank(0, 2);
  const ValueId x = real_rows(n);
  CanonicalTrees trees = listed_trees(n, n.b.type_of(x).type);
  const std::vector<std::int64_t> roots = n.source.integers("tree_roots"), ids = n.source.integers("leaf_targetids");
  const std::vector<double> weights = reals_of(n, "leaf_weights");
  for (const std::int64_t root : roots) trees.add_root(target_of(root, false));
  ContribNode::require(ids.size() == weights.size(), "the lists of its leaves have different lengths");
  for (std::size_t leaf = 0; leaf < ids.size(); ++leaf) {
    trees.add_vote(static_cast<std::int64_t>(checked_index(ids[leaf], targets)), weights[leaf]);
    trees.end_leaf();
  }
  const ValueId scores = aggregated(n, trees, x, targets, roots.size(), kAggregates[aggregate]);
  const ValueId given = transform == 0 ? scores : transformed(n, n.b.cast(scores, DataType::kFloat), kTransforms[transform]);
  return n.results({n.b.cast(given, n.type(0))});
}

}  // namespace

void register_contrib_trees(ContribOperators& c) {
  c.add("TreeEnsembleRegressor", tree_ensemble_regressor, kLearnedDomain);
  c.add("TreeEnsembleClassifier", tree_ensemble_classifier, kLearnedDomain);
  c.add("TreeEnsemble", tree_ensemble, kLearnedDomain);
}

}  // namespace rewright::operators
