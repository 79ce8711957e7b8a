#include "operators/definitions/trees.h"

#include <algorithm>
#include <limits>
#include <string>

#include "operators/definitions/families.h"
#include "operators/onnx.h"
#include "operators/operator.h"

namespace rewright::operators {

namespace {

Error wrong(const std::string& what) { return Error(ErrorCode::kBadInput, what); }

// The nodes of a TreeEnsembleRegressor, numbered as that operator wants them.
class NumberedTrees {
 public:
  NumberedTrees(const Trees& trees, std::span<const float> splits, std::span<const float> weights)
      : trees_(trees), splits_(splits), weights_(weights) {}

  // False if there are many ways to some branches: there is a node for each.
  bool add_all() {
    const std::size_t most = 4 * (trees_.branch_count() + trees_.leaf_count());
    for (std::size_t t = 0; t < trees_.roots.size(); ++t) {
      std::vector<std::int64_t> order{trees_.roots[t]};
      for (std::size_t n = 0; n < order.size(); ++n) {
        if (modes_.size() > most) return false;
        const auto next = static_cast<std::int64_t>(order.size());
        if (order[n] < 0) {
          add_node(t, n, 0, "LEAF", 0, 0);
          add_votes(t, n, static_cast<std::size_t>(~order[n]));
          continue;
        }
        const auto b = static_cast<std::size_t>(order[n]);
        const std::int64_t feature = trees_.feature(b);
        // -x <= split is x >= -split.
        add_node(t, n, Trees::column(feature), feature < 0 ? "BRANCH_GTE" : "BRANCH_LEQ",
                 feature < 0 ? -splits_[b] : splits_[b], next);
        order.insert(order.end(), {trees_.yes(b), trees_.no(b)});
      }
    }
    return !modes_.empty();
  }

  OnnxSink::NamedAttributes attributes() const {
    const auto count = static_cast<std::int64_t>(modes_.size());
    return {{"nodes_treeids", tree_ids_},     {"nodes_nodeids", node_ids_},
            {"nodes_featureids", features_},  {"nodes_modes", Tensor::from_strings({count}, modes_)},
            {"nodes_values", values_},        {"nodes_truenodeids", yes_},
            {"nodes_falsenodeids", no_},      {"target_treeids", vote_trees_},
            {"target_nodeids", vote_nodes_},  {"target_ids", vote_targets_},
            {"target_weights", vote_weights_}};
  }

 private:
  void add_node(std::size_t tree, std::size_t node, std::int64_t feature, const char* mode, double value, std::int64_t yes) {
    tree_ids_.emplace_back(tree), node_ids_.emplace_back(node), features_.emplace_back(feature);
    modes_.emplace_back(mode), values_.push_back(value);
    yes_.emplace_back(yes), no_.emplace_back(yes == 0 ? 0 : yes + 1);
  }
  void add_votes(std::size_t tree, std::size_t node, std::size_t leaf) {
    for (auto v = static_cast<std::size_t>(trees_.begins[leaf]); v < static_cast<std::size_t>(trees_.begins[leaf + 1]); ++v) {
      vote_trees_.emplace_back(tree), vote_nodes_.emplace_back(node);
      vote_targets_.emplace_back(trees_.targets[v]), vote_weights_.push_back(weights_[v]);
    }
  }

  const Trees& trees_;
  std::span<const float> splits_, weights_;
  Indices tree_ids_, node_ids_, features_, yes_, no_, vote_trees_, vote_nodes_, vote_targets_;
  std::vector<std::string> modes_;
  std::vector<double> values_, vote_weights_;
};

bool write_trees(OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs);

// The scores of each row: each tree leads it to a leaf, whose votes are added up for each target in the order of the trees, or
// the largest or smallest of them counts. A target without votes has score 0. Inputs: x and what Trees describes, with `splits`
// of the type of x and `weights` of votes, whose type is that of the scores.
//
// TreeEnsembleRegressor and its like are read as graphs around one (operators/contrib/trees.cc).
struct TreeScores {
  static constexpr std::string_view kName = "TreeScores";
  static constexpr InputCount kInputs{Trees::kInputs, Trees::kInputs};
  Index scores = 1;   // targets
  Index columns = 0;  // at least as many as any test needs
  std::string aggregate = "sum";

  template <class V>
  void fields(V&& v) {
    v("scores", scores), v("columns", columns), v("aggregate", aggregate);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    const Operand &x = in[0], &splits = in[1], &branches = in[2], &targets = in[5], &weights = in[6];
    d.require_rank(x, 2, "x");
    d.require_same_type(x, splits);
    for (const Operand* reals : {&x, &weights})
      d.require(reals->type() == DataType::kFloat || reals->type() == DataType::kDouble,
                [&] { return "an operand is " + std::string(name(reals->type())) + ", float or double is needed"; });
    for (const std::size_t i : {2, 3, 4, 5}) {
      d.require(in[i].type() == DataType::kInt64,
                [&] { return "an operand is " + std::string(name(in[i].type())) + ", int64 is needed"; });
      d.require_rank(in[i], i == 2 ? 2 : 1, "a list of trees");
    }
    d.require_rank(splits, 1, "splits");
    d.require_rank(weights, 1, "weights");
    const auto fit = [] { return std::string("the lists of its trees have different lengths"); };
    d.require(equal(branches.size(0), splits.size(0)), fit);
    d.require(equal(branches.size(1), Trees::kEntries), fit);
    d.require(equal(targets.size(0), weights.size(0)), fit);
    d.require(less_equal(columns, x.size(1)), [&] {
      return "its trees ask for feature " + (columns - 1).to_string() + ", a row has " + x.size(1).to_string();
    });
    d.require(aggregate == "sum" || aggregate == "max" || aggregate == "min",
              [&] { return "aggregate is '" + aggregate + "'"; });
    d.output_without_denotation(weights.type(), {x.size(0), scores});
    return d;
  }

  std::vector<Tensor> execute(std::span<const Tensor> in) const {
    const Trees trees = Trees::of(in);
    const std::int64_t rows = in[0].sizes()[0], width = in[0].sizes()[1];
    const auto count = static_cast<std::size_t>(scores.value());
    trees.checked_depths(width, scores.value());
    const std::vector<double> x = in[0].reals(), splits = in[1].reals(), weights = in[6].reals();
    std::vector<double> y(static_cast<std::size_t>(rows) * count);
    std::vector<bool> voted(y.size());
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
      for (std::int64_t at : trees.roots) {
        while (at >= 0) {
          const auto b = static_cast<std::size_t>(at);
          const std::int64_t f = trees.feature(b);
          const double value = x[r * static_cast<std::size_t>(width) + static_cast<std::size_t>(Trees::column(f))];
          at = (f < 0 ? -value : value) <= splits[b] ? trees.yes(b) : trees.no(b);
        }
        const auto leaf = static_cast<std::size_t>(~at);
        for (auto v = static_cast<std::size_t>(trees.begins[leaf]); v < static_cast<std::size_t>(trees.begins[leaf + 1]); ++v) {
          const std::size_t to = r * count + static_cast<std::size_t>(trees.targets[v]);
          y[to] = combined(voted[to], y[to], weights[v]);
          voted[to] = true;
        }
      }
    return {Tensor::from_reals(in[6].type(), {rows, scores.value()}, y)};
  }

  static void onnx(OnnxMapping& m) {
    m.type = {};
    m.write = write_trees;
  }

 private:
  double combined(bool voted, double score, double vote) const {
    if (aggregate == "sum") return score + vote;
    return !voted ? vote : aggregate == "min" ? std::min(score, vote) : std::max(score, vote);
  }
};

bool write_trees(OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs) {
  std::vector<Tensor> constants(1);
  for (std::size_t i = 1; i < static_cast<std::size_t>(Trees::kInputs); ++i) {
    const auto constant = sink.constant_value(inputs.at(i));
    if (!constant) return false;
    constants.push_back(*constant);
  }
  if (constants[1].type() != DataType::kFloat || constants[6].type() != DataType::kFloat) return false;
  const auto op = from_attributes<TreeScores>(attributes);
  const Trees trees = Trees::of(constants);
  trees.checked_depths(op.columns.value(), op.scores.value());
  NumberedTrees numbered(trees, constants[1].data<float>(), constants[6].data<float>());
  if (!numbered.add_all()) return false;
  OnnxSink::NamedAttributes named = numbered.attributes();
  named.emplace_back("n_targets", op.scores);
  if (op.aggregate != "sum") named.emplace_back("aggregate_function", std::string(op.aggregate == "max" ? "MAX" : "MIN"));
  sink.node("TreeEnsembleRegressor", std::move(named), {inputs[0]}, outputs, "ai.onnx.ml");
  return true;
}

// Finds the most tests on a way from each branch to a leaf. Without recursion: a tree may be as deep as its file is long.
class Depths {
 public:
  explicit Depths(const Trees& trees) : trees_(trees), depths_(trees.branch_count(), kUnknown) {}

  std::int64_t of(std::int64_t root) {
    if (root < 0) return 0;
    open_.push_back(root);
    while (!open_.empty()) {
      const auto b = static_cast<std::size_t>(open_.back());
      if (depths_[b] >= 0 || close(b)) open_.pop_back();
    }
    return known(root);
  }

 private:
  static constexpr std::int64_t kUnknown = -1, kOpen = -2;

  std::int64_t known(std::int64_t target) const { return target < 0 ? 0 : depths_[static_cast<std::size_t>(target)]; }

  // True if the depth is known now; else what it depends on was added to the open ones.
  bool close(std::size_t b) {
    const bool is_new = depths_[b] == kUnknown;
    depths_[b] = kOpen;
    bool is_known = true;
    for (const std::int64_t next : {trees_.yes(b), trees_.no(b)}) {
      if (known(next) >= 0) continue;
      if (!is_new || known(next) == kOpen) throw wrong("its tree has a cycle");
      open_.push_back(next);
      is_known = false;
      if (trees_.yes(b) == trees_.no(b)) break;
    }
    if (is_known) depths_[b] = 1 + std::max(known(trees_.yes(b)), known(trees_.no(b)));
    return is_known;
  }

  const Trees& trees_;
  std::vector<std::int64_t> depths_, open_;
};

}  // namespace

Trees Trees::of(std::span<const Tensor> inputs) {
  return {inputs[2].data<std::int64_t>(), inputs[3].data<std::int64_t>(), inputs[4].data<std::int64_t>(),
          inputs[5].data<std::int64_t>()};
}

std::vector<std::int64_t> Trees::checked_depths(std::int64_t columns, std::int64_t scores) const {
  const auto require_target = [&](std::int64_t target) {
    if (target >= 0 ? static_cast<std::size_t>(target) >= branch_count() : static_cast<std::size_t>(~target) >= leaf_count())
      throw wrong(target >= 0 ? "there is no node " + std::to_string(target) : "there is no leaf " + std::to_string(~target));
  };
  for (std::size_t b = 0; b < branch_count(); ++b) {
    if (column(feature(b)) >= columns)
      throw wrong("its trees ask for feature " + std::to_string(column(feature(b))) + ", a row has " + std::to_string(columns));
    require_target(yes(b));
    require_target(no(b));
  }
  for (const std::int64_t root : roots) require_target(root);
  for (std::size_t leaf = 0; leaf < leaf_count(); ++leaf)
    if (begins[leaf] < 0 || begins[leaf] > begins[leaf + 1]) throw wrong("the votes of its leaves are in no order");
  if (!begins.empty() && static_cast<std::size_t>(begins.back()) > targets.size())
    throw wrong("a leaf has votes that are not there");
  for (const std::int64_t target : targets)
    if (target < 0 || target >= scores) throw wrong("there is no target " + std::to_string(target));
  Depths depths(*this);
  std::vector<std::int64_t> result;
  for (const std::int64_t root : roots) result.push_back(depths.of(root));
  return result;
}

void register_trees(Registry& r) { r.add<TreeScores>(); }

}  // namespace rewright::operators
