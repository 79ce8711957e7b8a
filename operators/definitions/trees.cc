#include "operators/definitions/trees.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "operators/definitions/families.h"
#include "operators/definitions/row_preparation.h"
#include "operators/onnx.h"
#include "operators/operator.h"
#include "operators/sink_builder.h"
#include "operators/specification.h"

namespace rewright::operators {

namespace {

Error wrong(const std::string& what) { return Error(ErrorCode::kBadInput, what); }

// The nodes of a TreeEnsembleRegressor or its like, numbered as such operators want them.
class NumberedTrees {
 public:
  NumberedTrees(const Trees& trees, const Tensor& splits, const Tensor& weights)
      : trees_(trees), type_(splits.type()), splits_(splits.reals()), weights_(weights.reals()) {}

  // False if there are many ways to some branches: there is a node for each.
  bool add_all() {
    const std::size_t most = 4 * (trees_.branch_count() + trees_.leaf_count());
    for (std::size_t t = 0; t < trees_.roots.size(); ++t) {
      std::vector<std::int64_t> order{trees_.roots[t]};
      for (std::size_t n = 0; n < order.size(); ++n) {
        if (modes_.size() > most) return false;
        const auto next = static_cast<std::int64_t>(order.size());
        if (order[n] < 0) {
          add_node(t, n, {0, "LEAF", 0, false}, 0);
          add_votes(t, n, static_cast<std::size_t>(~order[n]));
          continue;
        }
        const auto b = static_cast<std::size_t>(order[n]);
        const Test test = test_of(b);
        add_node(t, n, test, next);
        order.insert(order.end(),
                     {test.is_opposite ? trees_.no(b) : trees_.yes(b), test.is_opposite ? trees_.yes(b) : trees_.no(b)});
      }
    }
    return !modes_.empty();
  }

  OnnxSink::NamedAttributes attributes(const std::string& votes) const {
    const auto count = static_cast<std::int64_t>(modes_.size());
    OnnxSink::NamedAttributes result{{"nodes_treeids", tree_ids_},      {"nodes_nodeids", node_ids_},
                                     {"nodes_featureids", features_},   {"nodes_modes", Tensor::from_strings({count}, modes_)},
                                     {"nodes_truenodeids", yes_},       {"nodes_falsenodeids", no_},
                                     {votes + "_treeids", vote_trees_}, {votes + "_nodeids", vote_nodes_},
                                     {votes + "_ids", vote_targets_}};
    if (std::find(missing_.begin(), missing_.end(), Index(1)) != missing_.end())
      result.emplace_back("nodes_missing_value_tracks_true", missing_);
    add_reals(result, "nodes_values", values_);
    add_reals(result, votes + "_weights", vote_weights_);
    return result;
  }

 private:
  struct Test {
    std::int64_t feature;
    const char* mode;
    double value;
    bool is_opposite;  // and what is missing passes it
  };

  // -x <= split is x >= -split. Where that has an opposite, x <= a smaller number, all nodes are of one mode, which is faster.
  // Not with a subnormal number, which a runtime may take for zero.
  Test test_of(std::size_t b) const {
    const std::int64_t feature = trees_.feature(b), column = Trees::column(feature);
    const double split = splits_[b];
    if (feature >= 0) return {column, "BRANCH_LEQ", split, false};
    const double below = type_ == DataType::kFloat
                             ? std::nextafter(static_cast<float>(-split), -std::numeric_limits<float>::infinity())
                             : std::nextafter(-split, -std::numeric_limits<double>::infinity());
    const double least = type_ == DataType::kFloat ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
    if (std::isnan(split) || below == -split || (below != 0 && std::fabs(below) < least))
      return {column, "BRANCH_GTE", -split, false};
    return {column, "BRANCH_LEQ", below, true};
  }

  void add_node(std::size_t tree, std::size_t node, const Test& test, std::int64_t yes) {
    tree_ids_.emplace_back(tree), node_ids_.emplace_back(node), features_.emplace_back(test.feature);
    modes_.emplace_back(test.mode), values_.push_back(test.value), missing_.emplace_back(test.is_opposite ? 1 : 0);
    yes_.emplace_back(yes), no_.emplace_back(yes == 0 ? 0 : yes + 1);
  }
  void add_votes(std::size_t tree, std::size_t node, std::size_t leaf) {
    for (auto v = static_cast<std::size_t>(trees_.begins[leaf]); v < static_cast<std::size_t>(trees_.begins[leaf + 1]); ++v) {
      vote_trees_.emplace_back(tree), vote_nodes_.emplace_back(node);
      vote_targets_.emplace_back(trees_.targets[v]), vote_weights_.push_back(weights_[v]);
    }
  }
  void add_reals(OnnxSink::NamedAttributes& to, const std::string& name, const std::vector<double>& reals) const {
    if (type_ == DataType::kFloat)
      to.emplace_back(name, reals);
    else
      to.emplace_back(name + "_as_tensor", Tensor::from_reals(type_, {static_cast<std::int64_t>(reals.size())}, reals));
  }

  const Trees& trees_;
  DataType type_;
  std::vector<double> splits_, weights_;
  Indices tree_ids_, node_ids_, features_, missing_, yes_, no_, vote_trees_, vote_nodes_, vote_targets_;
  std::vector<std::string> modes_;
  std::vector<double> values_, vote_weights_;
};

bool write_trees(OnnxSink& sink, const Attributes& attributes, const std::vector<OnnxValue>& inputs,
                 const std::vector<OnnxValue>& outputs);

// The scores of each row: each tree leads it to a leaf, whose votes are added up for each target in the order of the trees, or
// the largest or smallest of them counts. A target without votes has score 0. Inputs: x and what Trees describes, with `splits`
// of the type of x and `weights` of votes, whose type is that of the scores; then, optionally, what is done to rows before the
// tests (RowPreparation).
//
// TreeEnsembleRegressor and its like are read as graphs around one (operators/contrib/trees.cc).
struct TreeScores {
  static constexpr std::string_view kName = "TreeScores";
  static constexpr InputCount kInputs{Trees::kInputs, Trees::kInputs + RowPreparation::kParts};
  Index scores = 1;   // targets
  Index columns = 0;  // at least as many features as any test needs
  std::string aggregate = "sum";

  template <class V>
  void fields(V&& v) {
    v("scores", scores), v("columns", columns), v("aggregate", aggregate);
  }

  Definition define(const Inputs& in) const {
    Definition d(in);
    require_types(d, in);
    d.output_without_denotation(in[6].type(), {in[0].size(0), scores});
    return d;
  }

  // All that the scores are a function of: the features of the rows, and the trees.
  Definition define_view(const Inputs& in) const {
    Definition d(in);
    require_types(d, in);
    const Operand& x = in[0];
    const auto part = [&](RowPreparation::Part p) -> const Operand& { return in[Trees::kInputs + p]; };
    const Operand &selected = part(RowPreparation::kSelected), &fillings = part(RowPreparation::kFillings),
                  &factors = part(RowPreparation::kFactors), &offsets = part(RowPreparation::kOffsets),
                  &scales = part(RowPreparation::kScales);
    d.output(x.type(), {x.size(0), features(in)}, [&](const Indices& i) {
      const Indices feature{i[1]};
      Element e = x({i[0], selected.present() ? axis_position(Index::load(selected(feature)), x.size(1)) : i[1]});
      if (fillings.present()) e = select(apply(functions::is_nan, e), fillings(feature), e);
      if (factors.present()) e = e * factors(feature);
      if (offsets.present()) e = e + offsets(feature);
      return scales.present() ? e * scales(feature) : e;
    });
    for (std::size_t n = 1; n < static_cast<std::size_t>(Trees::kInputs); ++n)
      d.output(in[n].type(), in[n].shape(), [&](const Indices& i) { return in[n](i); });
    return d;
  }

  std::vector<Tensor> execute(std::span<const Tensor> in) const {
    const Trees trees = Trees::of(in);
    const RowPreparation preparation = RowPreparation::of(in);
    const std::int64_t rows = in[0].sizes()[0], width = in[0].sizes()[1];
    const auto count = static_cast<std::size_t>(scores.value());
    const std::vector<std::int64_t> selected =
        preparation.has(RowPreparation::kSelected) ? preparation.columns(width) : std::vector<std::int64_t>();
    trees.checked_depths(preparation.has(RowPreparation::kSelected) ? std::ssize(selected) : width, scores.value());
    const RowPreparer prepared(preparation, in[1].type());
    const std::vector<double> x = in[0].reals(), splits = in[1].reals(), weights = in[6].reals();
    std::vector<double> y(static_cast<std::size_t>(rows) * count);
    std::vector<bool> voted(y.size());
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
      for (std::int64_t at : trees.roots) {
        while (at >= 0) {
          const auto b = static_cast<std::size_t>(at);
          const std::int64_t f = trees.feature(b), feature = Trees::column(f);
          const auto column =
              static_cast<std::size_t>(selected.empty() ? feature : selected[static_cast<std::size_t>(feature)]);
          const double value = prepared(feature, x[r * static_cast<std::size_t>(width) + column]);
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
  static const Index& features(const Inputs& in) {
    const Operand& selected = in[Trees::kInputs + RowPreparation::kSelected];
    return selected.present() ? selected.size(0) : in[0].size(1);
  }

  void require_types(Definition& d, const Inputs& in) const {
    const Operand &x = in[0], &splits = in[1], &branches = in[2], &targets = in[5], &weights = in[6];
    d.require_rank(x, 2, "x");
    d.require_same_type(x, splits);
    for (const Operand* reals : {&x, &weights})
      d.require(reals->type() == DataType::kFloat || reals->type() == DataType::kDouble,
                [&] { return "an operand is " + std::string(name(reals->type())) + ", float or double is needed"; });
    const auto require_list = [&](const Operand& list, std::size_t rank) {
      d.require(list.type() == DataType::kInt64,
                [&] { return "an operand is " + std::string(name(list.type())) + ", int64 is needed"; });
      d.require_rank(list, rank, "a list of trees");
    };
    for (const std::size_t i : {2, 3, 4, 5}) require_list(in[i], i == 2 ? 2 : 1);
    d.require_rank(splits, 1, "splits");
    d.require_rank(weights, 1, "weights");
    const auto fit = [] { return std::string("the lists of its trees have different lengths"); };
    d.require(equal(branches.size(0), splits.size(0)), fit);
    d.require(equal(branches.size(1), Trees::kEntries), fit);
    d.require(equal(targets.size(0), weights.size(0)), fit);
    for (std::size_t part = 0; part < RowPreparation::kParts; ++part) {
      const Operand& list = in[Trees::kInputs + part];
      if (!list.present()) continue;
      if (part == RowPreparation::kSelected) {
        require_list(list, 1);
        continue;
      }
      d.require_same_type(x, list);
      d.require_rank(list, 1, "a list of features");
      d.require(equal(list.size(0), features(in)), [&] {
        return "there are " + features(in).to_string() + " features, and numbers for " + list.size(0).to_string();
      });
    }
    d.require(less_equal(columns, features(in)), [&] {
      return "its trees ask for feature " + (columns - 1).to_string() + ", a row has " + features(in).to_string();
    });
    d.require(aggregate == "sum" || aggregate == "max" || aggregate == "min",
              [&] { return "aggregate is '" + aggregate + "'"; });
  }

  double combined(bool voted, double score, double vote) const {
    if (aggregate == "sum") return score + vote;
    return !voted ? vote : aggregate == "min" ? std::min(score, vote) : std::max(score, vote);
  }
};

// The rows with their features computed by operators of ONNX.
ValueId prepared_rows(OnnxSink& sink, const std::vector<OnnxValue>& inputs) {
  SinkBuilder b(sink);
  const auto part = [&](RowPreparation::Part p) {
    const std::size_t n = Trees::kInputs + p;
    return n < inputs.size() ? static_cast<ValueId>(inputs[n]) : kNoGradient;
  };
  auto x = static_cast<ValueId>(inputs[0]);
  if (const ValueId selected = part(RowPreparation::kSelected); selected != kNoGradient)
    x = b.add("Gather", {x, selected}, {{"axis", Index(1)}});
  if (const ValueId fillings = part(RowPreparation::kFillings); fillings != kNoGradient)
    x = b.add("Where", {b.add("IsNaN", {x}), fillings, x});
  for (const auto& [p, op] :
       {std::pair(RowPreparation::kFactors, "Mul"), {RowPreparation::kOffsets, "Add"}, {RowPreparation::kScales, "Mul"}})
    if (part(p) != kNoGradient) x = b.add(op, {x, part(p)});
  return x;
}

// Tests of the columns of x; nullopt if the preparation is not known, or not monotone.
std::optional<UnpreparedTests> unprepared(const OnnxSink& sink, const std::vector<Tensor>& constants,
                                          const std::vector<OnnxValue>& inputs) {
  RowPreparation preparation;
  std::optional<std::int64_t> width = sink.type_of(inputs[0]).shape[1].constant();
  for (std::size_t n = Trees::kInputs; n < inputs.size(); ++n) {
    if (inputs[n] == kAbsent) continue;
    const auto constant = sink.constant_value(inputs[n]);
    if (!constant) return std::nullopt;
    preparation.parts[n - Trees::kInputs] = *constant;
    // If the number of columns is open, there are as many as features.
    if (!width && !preparation.has(RowPreparation::kSelected)) width = constant->size();
  }
  if (!width) {
    width = 0;
    for (const std::int64_t column : preparation.parts[RowPreparation::kSelected].integers()) {
      if (column < 0) return std::nullopt;
      width = std::max(*width, column + 1);
    }
  }
  return without_preparation(Trees::of(constants), constants[1], preparation, *width);
}

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
  const auto numbered_from = [&](const Trees& trees, const Tensor& splits, OnnxValue x) {
    auto named = numbered_trees(trees, splits, constants[6], "target");
    if (!named) return false;
    named->emplace_back("n_targets", op.scores);
    if (op.aggregate != "sum") named->emplace_back("aggregate_function", std::string(op.aggregate == "max" ? "MAX" : "MIN"));
    sink.node("TreeEnsembleRegressor", std::move(*named), {x}, outputs, "ai.onnx.ml");
    return true;
  };
  const Trees trees = Trees::of(constants);
  trees.checked_depths(op.columns.value(), op.scores.value());
  const bool is_plain = std::all_of(inputs.begin() + Trees::kInputs, inputs.end(), [](OnnxValue v) { return v == kAbsent; });
  if (is_plain) return numbered_from(trees, constants[1], inputs[0]);
  if (const auto plain = unprepared(sink, constants, inputs)) return numbered_from(plain->in(trees), plain->splits, inputs[0]);
  return numbered_from(trees, constants[1], static_cast<OnnxValue>(prepared_rows(sink, inputs)));
}

// All that the scores are a function of, as an operator of the same name.
struct TreeView {
  static constexpr std::string_view kName = TreeScores::kName;
  static constexpr InputCount kInputs = TreeScores::kInputs;
  TreeScores trees;

  template <class V>
  void fields(V&& v) {
    trees.fields(v);
  }
  Definition define(const Inputs& in) const { return trees.define_view(in); }
};

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

std::optional<NamedValues> numbered_trees(const Trees& trees, const Tensor& splits, const Tensor& weights,
                                          const std::string& votes) {
  NumberedTrees numbered(trees, splits, weights);
  return numbered.add_all() ? std::optional(numbered.attributes(votes)) : std::nullopt;
}

const Operator* view_of(const Operator& op) {
  static Registry views;
  static const bool kFilled = (views.add<TreeView>(), true);
  return kFilled ? views.find(op.name()) : nullptr;
}

void register_trees(Registry& r) { r.add<TreeScores>(); }

}  // namespace rewright::operators
