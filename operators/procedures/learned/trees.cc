// ai.onnx.ml 5: ensembles of trees, whose branches and leaves are lists of their own.
#include <algorithm>
#include <cmath>

#include "operators/procedures/learned/forest.h"
#include "operators/procedures/learned/scores.h"
#include "operators/procedures/procedures.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

constexpr std::int64_t kTests = 7;

std::vector<double> reals_of(const Call& call, const char* attribute) {
  const auto tensor = call.tensor(attribute);
  return tensor ? tensor->reals() : std::vector<double>();
}

std::size_t number(std::int64_t value) {
  if (value < 0) throw Error(ErrorCode::kBadInput, "there is no node " + std::to_string(value));
  return static_cast<std::size_t>(value);
}

std::vector<Forest::Branch> branches_of(const Call& call) {
  const std::vector<std::int64_t> features = call.integers("nodes_featureids"), yes = call.integers("nodes_truenodeids"),
                                  no = call.integers("nodes_falsenodeids"), yes_leaves = call.integers("nodes_trueleafs"),
                                  no_leaves = call.integers("nodes_falseleafs"),
                                  missing = call.integers("nodes_missing_value_tracks_true");
  const std::vector<double> splits = reals_of(call, "nodes_splits"), members = reals_of(call, "membership_values");
  const auto modes_tensor = call.tensor("nodes_modes");
  const std::vector<std::int64_t> modes = modes_tensor ? modes_tensor->integers() : std::vector<std::int64_t>();
  const std::size_t count = features.size();
  for (const std::size_t size : {yes.size(), no.size(), yes_leaves.size(), no_leaves.size(), modes.size(), splits.size()})
    if (size != count) throw Error(ErrorCode::kBadInput, "the lists of its nodes have different lengths");
  std::vector<Forest::Branch> branches(count);
  auto next = members.begin();
  for (std::size_t n = 0; n < count; ++n) {
    if (modes[n] < 0 || modes[n] >= kTests)
      throw Error(ErrorCode::kBadInput, "there is no mode " + std::to_string(modes[n]) + " of nodes");
    Forest::Branch& b = branches[n];
    b = {features[n],
         static_cast<Forest::Test>(modes[n]),
         splits[n],
         {},
         n < missing.size() && missing[n] != 0,
         {yes_leaves[n] != 0, number(yes[n])},
         {no_leaves[n] != 0, number(no[n])}};
    if (b.test != Forest::Test::kMember) continue;
    // The sets follow each other; a NaN ends each.
    while (next != members.end() && !std::isnan(*next)) b.members.push_back(*next++);
    if (next != members.end()) ++next;
  }
  return branches;
}

std::vector<Forest::Target> roots_of(const Call& call) {
  std::vector<Forest::Target> roots;
  for (const std::int64_t root : call.integers("tree_roots")) roots.push_back({false, number(root)});
  return roots;
}

struct Ensemble {
  std::vector<std::int64_t> targets;  // of each leaf
  std::vector<double> weights;
  Forest forest;
  std::int64_t count = 0, aggregate = 0;
  std::string transform;

  explicit Ensemble(const Call& call)
      : targets(call.integers("leaf_targetids")),
        weights(reals_of(call, "leaf_weights")),
        forest(branches_of(call), roots_of(call), weights.size(), false),
        count(call.integer("n_targets", 1)),
        aggregate(call.integer("aggregate_function", 1)) {
    static const char* const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    const std::int64_t kind = call.integer("post_transform", 0);
    if (kind < 0 || kind >= 5) throw Error(ErrorCode::kBadInput, "there is no post_transform " + std::to_string(kind));
    transform = transforms[kind];
    if (targets.size() != weights.size() || count < 0) throw Error(ErrorCode::kBadInput, "its leaves or targets are wrong");
    for (std::int64_t& target : targets) target = checked_index(target, count);
  }
};

void run_tree_ensemble(Call& call) {
  constexpr std::int64_t kAverage = 0, kMin = 2, kMax = 3;
  const Tensor& x = call.tensor(0);
  if (x.sizes().size() != 2) throw Error(ErrorCode::kBadInput, "its input must have shape [rows, features]");
  const auto kept = call.kept<Ensemble>([&] { return Ensemble(call); });
  const Ensemble& e = *kept;
  const std::int64_t rows = x.sizes()[0];
  if (e.count > (std::int64_t{1} << 32) / std::max<std::int64_t>(rows, 1))
    throw Error(ErrorCode::kBadInput, "its leaves or targets are wrong");
  std::vector<double> results(static_cast<std::size_t>(rows * e.count));
  const bool chooses = e.aggregate == kMin || e.aggregate == kMax;
  std::vector<bool> met(chooses ? results.size() : 0);
  const double share = e.aggregate == kAverage ? static_cast<double>(e.forest.trees()) : 1;
  e.forest.for_each_leaf(
      x.reals(), x.sizes()[1], rows, [&] { call.checkpoint(); },
      [&](std::size_t row, std::size_t leaf) {
        const std::size_t at = row * static_cast<std::size_t>(e.count) + static_cast<std::size_t>(e.targets[leaf]);
        double& y = results[at];
        const double weight = e.weights[leaf];
        if (!chooses) {
          y += weight / share;
          return;
        }
        y = !met[at] ? weight : e.aggregate == kMin ? std::min(y, weight) : std::max(y, weight);
        met[at] = true;
      });
  if (e.count > 0)
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
      transform(e.transform,
                std::span(results).subspan(row * static_cast<std::size_t>(e.count), static_cast<std::size_t>(e.count)));
  call.give(Tensor::from_reals(x.type(), {rows, e.count}, results));
}

}  // namespace

void register_trees(Procedures& p) { p.add("TreeEnsemble", run_tree_ensemble, kLearnedDomain); }

}  // namespace rewright::operators
