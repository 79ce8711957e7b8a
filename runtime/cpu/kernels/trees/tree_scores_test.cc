#include "runtime/cpu/kernels/trees/packed_trees.h"

#include <cmath>
#include <limits>

#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;

namespace {

enum class Form { kTrees, kChain, kShared };

// An ensemble of a few features, whose splits and elements are small integers, so that there are ties.
struct ForestBuilder : rewright::testing::GraphBuilder {
  using GraphBuilder::GraphBuilder;

  std::int64_t scores = 1;
  std::vector<std::int64_t> branches, roots, begins{0}, targets;
  std::vector<double> splits, weights;

  std::int64_t branch(bool may_negate) {
    const std::int64_t feature = pick(0, kFeatures - 1);
    branches.insert(branches.end(), {may_negate && pick(0, 2) == 0 ? ~feature : feature, 0, 0});
    splits.push_back(pick(0, 20) == 0 ? std::nan("") : static_cast<double>(pick(-3, 3)));
    return std::ssize(splits) - 1;
  }
  // Votes for some targets, or once for all of them.
  std::int64_t leaf(bool for_all) {
    const std::int64_t votes = for_all ? scores : pick(0, 2);
    for (std::int64_t v = 0; v < votes; ++v) {
      targets.push_back(for_all ? v : pick(0, scores - 1));
      weights.push_back(static_cast<double>(pick(-8, 8)) / 4);
    }
    begins.push_back(std::ssize(targets));
    return ~(std::ssize(begins) - 2);
  }
  void tree(Form form, std::int64_t leaves, bool for_all, bool may_negate) {
    if (leaves == 1) return roots.push_back(leaf(for_all));
    const std::size_t first = splits.size();
    roots.push_back(branch(may_negate));
    std::vector<std::size_t> open{3 * first + 1, 3 * first + 2};  // places in `branches`
    while (std::ssize(open) < leaves) {
      const std::size_t at = form == Form::kChain ? open.size() - 1 : static_cast<std::size_t>(pick(0, std::ssize(open) - 1));
      const std::int64_t next = branch(may_negate);
      branches[open[at]] = next;
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
      open.push_back(static_cast<std::size_t>(3 * next + 1));
      open.push_back(static_cast<std::size_t>(3 * next + 2));
      if (form == Form::kShared && pick(0, 4) == 0) {  // two ways to one branch
        branches[open.back()] = branch(may_negate);
        branches[open[open.size() - 2]] = branches[open.back()];
        const auto shared = static_cast<std::size_t>(branches[open.back()]);
        open.resize(open.size() - 2);
        open.insert(open.end(), {3 * shared + 1, 3 * shared + 2});
      }
    }
    for (const std::size_t at : open) branches[at] = leaf(for_all);
  }
  Tensor integers(Sizes sizes, const std::vector<std::int64_t>& list) const {
    return Tensor::from_integers(DataType::kInt64, std::move(sizes), list);
  }
  // Numbers for each feature; sometimes such that tests have no form without a preparation.
  Tensor numbers(DataType type, bool may_vanish) {
    std::vector<double> list;
    for (std::int64_t k = 0; k < kFeatures; ++k) {
      list.push_back(static_cast<double>(pick(1, 7)) / (pick(0, 1) == 0 ? 4 : 3) * (pick(0, 2) == 0 ? -1 : 1));
      if (may_vanish && pick(0, 30) == 0) list.back() = pick(0, 1) == 0 ? 0 : std::numeric_limits<double>::infinity();
    }
    return Tensor::from_reals(type, {kFeatures}, list);
  }
  // A random preparation of rows.
  std::vector<ValueId> preparation(DataType type) {
    std::vector<ValueId> parts;
    std::vector<std::int64_t> selected;
    for (std::int64_t k = 0; k < kFeatures; ++k) selected.push_back(pick(-kFeatures, kFeatures - 1));
    for (int part = 0; part < 5; ++part) {
      const bool is_there = pick(0, 2) > 0;
      parts.push_back(!is_there   ? kNoValue
                      : part == 0 ? graph.add_constant(integers({kFeatures}, selected))
                                  : graph.add_constant(numbers(type, part > 1)));
    }
    while (!parts.empty() && parts.back() == kNoValue) parts.pop_back();
    return parts;
  }
  void finish(DataType type, std::int64_t rows, const std::string& aggregate, bool prepares = false) {
    const auto count = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
    std::vector<double> x(static_cast<std::size_t>(rows * kFeatures));
    for (double& v : x) v = pick(0, 8) == 0 ? std::nan("") : static_cast<double>(pick(-4, 4));
    inputs.push_back(Tensor::from_reals(type, {rows, kFeatures}, x));
    std::vector<ValueId> operands{graph.add_input("x", {type, {rows, kFeatures}}),
                                  graph.add_constant(Tensor::from_reals(type, {count(splits)}, splits)),
                                  graph.add_constant(integers({count(splits), 3}, branches)),
                                  graph.add_constant(integers({count(roots)}, roots)),
                                  graph.add_constant(integers({count(begins)}, begins)),
                                  graph.add_constant(integers({count(targets)}, targets)),
                                  graph.add_constant(Tensor::from_reals(type, {count(weights)}, weights))};
    if (prepares)
      for (const ValueId part : preparation(type)) operands.push_back(part);
    const ValueId y = node(graph, "TreeScores", operands,
                           {{"scores", Index(scores)}, {"columns", Index(kFeatures)}, {"aggregate", aggregate}})[0];
    graph.add_output("y", y);
  }

  static constexpr std::int64_t kFeatures = 4;
};

}  // namespace

TEST_CASE("scores of ensembles of trees") {
  for (unsigned seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    ForestBuilder b(seed);
    b.scores = b.pick(1, 4);
    const bool for_all = b.pick(0, 1) == 0, may_negate = b.pick(0, 1) == 0;
    for (std::int64_t trees = b.pick(0, 20); trees > 0; --trees)
      b.tree(static_cast<Form>(b.pick(0, 2)), std::vector<std::int64_t>{1, 2, 8, 31, 32, 33, 70, 280}[b.pick(0, 7)], for_all,
             may_negate);
    const DataType type = b.pick(0, 3) == 0 ? DataType::kDouble : DataType::kFloat;
    b.finish(type, std::vector<std::int64_t>{0, 1, 5, 16, 31, 70, 300}[b.pick(0, 6)],
             std::vector<std::string>{"sum", "sum", "max", "min"}[b.pick(0, 3)], seed % 2 == 1);
    check_graph(b.graph, b.inputs);
  }
}

TEST_CASE("small trees are packed by their leaves, others as nodes alone") {
  const auto words = [](Form form, std::int64_t leaves) {
    ForestBuilder b(7);
    b.tree(form, leaves, true, false);
    const operators::Trees trees{b.branches, b.roots, b.begins, b.targets};
    const std::vector<float> splits(b.splits.begin(), b.splits.end()), weights(b.weights.begin(), b.weights.end());
    const std::vector<std::byte> packed = PackedTrees<float>::pack(trees, splits, weights, ForestBuilder::kFeatures, 1);
    Tensor bytes(DataType::kUint8, {static_cast<std::int64_t>(packed.size())});
    std::copy(packed.begin(), packed.end(), bytes.mutable_bytes().begin());
    return PackedTrees<float>(bytes.bytes().data()).trees[0].words;
  };
  CHECK(words(Form::kTrees, 31) == 1);
  CHECK(words(Form::kChain, 60) == 2);
  CHECK(words(Form::kTrees, 1000) == 0);
  CHECK(words(Form::kShared, 200) == 0);
}

TEST_CASE("trees that are none are refused") {
  const auto refuses = [](std::vector<std::int64_t> branches, std::vector<std::int64_t> roots,
                          std::vector<std::int64_t> targets, const char* message) {
    const std::vector<std::int64_t> begins{0, std::ssize(targets)};
    const operators::Trees trees{branches, roots, begins, targets};
    CHECK_THROWS_WITH(trees.checked_depths(2, 1), message);
  };
  refuses({0, ~0, 1}, {0}, {0}, "there is no node 1");
  refuses({0, ~0, ~1}, {0}, {0}, "there is no leaf 1");
  refuses({0, ~0, ~0}, {4}, {0}, "there is no node 4");
  refuses({2, ~0, ~0}, {0}, {0}, "its trees ask for feature 2, a row has 2");
  refuses({0, ~0, ~0}, {0}, {1}, "there is no target 1");
  refuses({0, ~0, 0}, {0}, {0}, "its tree has a cycle");
  refuses({0, ~0, 1, 0, 2, ~0, 1, ~0, 0}, {0}, {0}, "its tree has a cycle");
  // A chain as long as a file may make it.
  std::vector<std::int64_t> chain, one{0}, begins{0, 1};
  for (std::int64_t n = 1; n < 200000; ++n) chain.insert(chain.end(), {0, n, ~0});
  chain.insert(chain.end(), {0, ~0, ~0});
  CHECK(operators::Trees{chain, one, begins, one}.checked_depths(1, 1) == std::vector<std::int64_t>{200000});
}
