// Ensembles of decision trees: the scores of rows.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "operators/definitions/row_preparation.h"
#include "runtime/cpu/kernels/trees/packed_trees.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

namespace {

using operators::Trees;
using Count = std::int64_t;

constexpr Count kTogether = 16;  // rows or trees that walk together: their reads overlap
constexpr Count kBlock = 256;    // rows that a tree sees before the next one does
constexpr double kStep = 1.2;    // nanoseconds

enum class Aggregate { kSum, kMax, kMin };

struct TreeShape {
  Count rows, width, columns, scores;  // columns: those that tests ask for
  Aggregate aggregate;
};

template <class T>
class TreeScoresKernel final : public Kernel {
 public:
  TreeScoresKernel(const TreeShape& shape, Tensor bytes, const TreeLoops& loops)
      : s_(shape), bytes_(std::move(bytes)), p_(bytes_.bytes().data()), loops_(loops) {}

  void run(const Call& call) const override {
    const auto* const x = reinterpret_cast<const T*>(call.inputs[0]);
    auto* const y = reinterpret_cast<T*>(call.outputs[0]);
    const double nanoseconds =
        static_cast<double>(s_.rows) * static_cast<double>(p_.trees.size()) * (p_.mean_depth + 1) * kStep;
    const Count units = (s_.rows + TreeLoops::kRows - 1) / TreeLoops::kRows, pieces = call.workers.pieces(nanoseconds, units);
    call.workers.share(pieces, [&](Count piece, int) {
      const Count last = std::min(s_.rows, first_unit(units, piece + 1, pieces) * TreeLoops::kRows);
      for (Count r = first_unit(units, piece, pieces) * TreeLoops::kRows; r < last; r += kBlock)
        run_block(x + r * s_.width, y + r * s_.scores, std::min(kBlock, last - r));
    });
  }

 private:
  using Node = TreeNode<T>;

  // Rows with the negated columns behind the others, if there are tests of those.
  struct Rows {
    const T* x;
    Count stride, count;
  };

  void run_block(const T* x, T* y, Count count) const {
    static thread_local std::vector<T> wide;
    static thread_local std::vector<char> voted;
    std::fill_n(y, count * s_.scores, T{0});
    Rows rows{x, s_.width, count};
    if (p_.negates) {
      wide.resize(static_cast<std::size_t>(2 * s_.columns * count));
      for (Count r = 0; r < count; ++r)
        for (Count c = 0; c < s_.columns; ++c) {
          T* const to = wide.data() + 2 * s_.columns * r + c;
          to[0] = x[r * s_.width + c];
          to[s_.columns] = -to[0];
        }
      rows = {wide.data(), 2 * s_.columns, count};
    }
    if (s_.aggregate == Aggregate::kSum) {
      if (p_.votes == Votes::kOne) return run_rows(x, rows, [&](Count r, T payload) { y[r] += payload; });
      if (p_.votes == Votes::kAll && s_.scores == 2) return run_rows(x, rows, adding<2>(y));
      if (p_.votes == Votes::kAll && s_.scores == 3) return run_rows(x, rows, adding<3>(y));
      if (p_.votes == Votes::kAll) return run_rows(x, rows, adding<0>(y));
      return run_rows(x, rows, [&](Count r, T payload) {
        const std::uint32_t leaf = number_of_payload(payload);
        for (std::uint32_t v = p_.begins[leaf]; v < p_.begins[leaf + 1]; ++v) y[r * s_.scores + p_.targets[v]] += p_.weights[v];
      });
    }
    voted.assign(static_cast<std::size_t>(count * s_.scores), 0);
    run_rows(x, rows, [&](Count r, T payload) { choose(y + r * s_.scores, voted.data() + r * s_.scores, payload); });
  }

  // Adds the weights of a leaf that votes for all targets; kScores: how many, 0 for any number.
  template <Count kScores>
  auto adding(T* y) const {
    return [y, this, scores = kScores > 0 ? kScores : s_.scores](Count r, T payload) {
      const T* const weights = p_.weights + static_cast<Count>(number_of_payload(payload)) * scores;
      for (Count t = 0; t < scores; ++t) y[r * scores + t] += weights[t];
    };
  }

  void choose(T* y, char* voted, T payload) const {
    const auto vote = [&](Count target, T weight) {
      const bool better = s_.aggregate == Aggregate::kMin ? weight < y[target] : y[target] < weight;
      if (!voted[target] || better) y[target] = weight;
      voted[target] = 1;
    };
    if (p_.votes == Votes::kOne) return vote(0, payload);
    const auto leaf = static_cast<Count>(number_of_payload(payload));
    if (p_.votes == Votes::kAll) {
      for (Count t = 0; t < s_.scores; ++t) vote(t, p_.weights[leaf * s_.scores + t]);
      return;
    }
    for (std::uint32_t v = p_.begins[leaf]; v < p_.begins[leaf + 1]; ++v)
      vote(static_cast<Count>(p_.targets[v]), p_.weights[v]);
  }

  // Calls found(row, payload) for each tree of a row, in the order of the trees. `given`: the rows without negated columns.
  template <class Found>
  void run_rows(const T* given, const Rows& rows, const Found& found) const {
    const Count whole = rows.count / kTogether * kTogether;
    for (Count r = whole; r < rows.count; ++r) run_row(rows.x + r * rows.stride, [&](T payload) { found(r, payload); });
    if (whole == 0) return;
    static thread_local std::vector<float> transposed;
    if constexpr (std::is_same_v<T, float>)
      if (p_.has_small) {
        const Count width = s_.columns * (p_.negates ? 2 : 1), groups = (whole + TreeLoops::kRows - 1) / TreeLoops::kRows;
        transposed.resize(static_cast<std::size_t>(width * groups * TreeLoops::kRows));
        for (Count r = 0; r < whole; r += TreeLoops::kRows)
          loops_.transpose(given + r * s_.width, std::min(TreeLoops::kRows, whole - r), s_.width, s_.columns, p_.negates,
                           transposed.data() + r * width);
      }
    for (const PackedTree& tree : p_.trees) {
      if constexpr (std::is_same_v<T, float>)
        if (tree.words > 0) {
          run_small(tree, transposed.data(), whole, found);
          continue;
        }
      for (Count r = 0; r < whole; r += kTogether) {
        const T* x[kTogether];
        std::uint32_t at[kTogether];
        for (Count k = 0; k < kTogether; ++k) x[k] = rows.x + (r + k) * rows.stride, at[k] = tree.root;
        walk(x, at, tree.depth);
        for (Count k = 0; k < kTogether; ++k) found(r + k, p_.node(at[k]).split);
      }
    }
  }

  template <class Found>
  void run_small(const PackedTree& tree, const float* x, Count count, const Found& found) const {
    const Count width = s_.columns * (p_.negates ? 2 : 1);
    alignas(64) std::int32_t leaves[TreeLoops::kRows];
    const T* const payloads = p_.payloads + tree.first_leaf;
    for (Count r = 0; r < count; r += TreeLoops::kRows) {
      loops_.leaves(p_.tests + tree.first_test, p_.ends + tree.first_end, tree.words, x + r * width, leaves);
      const Count some = std::min(TreeLoops::kRows, count - r);
      for (Count k = 0; k < some; ++k) found(r + k, payloads[leaves[k]]);
    }
  }

  template <class Found>
  void run_row(const T* row, const Found& found) const {
    for (std::size_t first = 0; first < p_.trees.size(); first += kTogether) {
      const std::size_t count = std::min<std::size_t>(kTogether, p_.trees.size() - first);
      const T* x[kTogether];
      std::uint32_t at[kTogether], depth = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(kTogether); ++k) {
        const PackedTree& tree = p_.trees[first + std::min(k, count - 1)];
        x[k] = row, at[k] = tree.root, depth = std::max(depth, tree.depth);
      }
      walk(x, at, depth);
      for (std::size_t k = 0; k < count; ++k) found(p_.node(at[k]).split);
    }
  }

  // From each node to the leaf that its row reaches.
  void walk(const T* const* x, std::uint32_t* at, std::uint32_t depth) const {
    constexpr std::uint32_t kSteps = 4;
    for (std::uint32_t done = 0; done < depth;) {
      for (const std::uint32_t end = std::min(depth, done + kSteps); done < end; ++done)
#pragma GCC unroll 16
        for (Count k = 0; k < kTogether; ++k) {
          const Node& node = p_.node(at[k]);
          at[k] = node.next[x[k][node.column] <= node.split];
        }
      if (done == depth) break;
      bool are_leaves = true;
      for (Count k = 0; k < kTogether; ++k) are_leaves = are_leaves && p_.node(at[k]).next[0] == at[k];
      if (are_leaves) break;
    }
  }

  TreeShape s_;
  Tensor bytes_;
  PackedTrees<T> p_;
  const TreeLoops& loops_;
};

class TreeScoresPlan final : public NodePlan {
 public:
  // `origin`: what the packed trees are made from.
  TreeScoresPlan(const Node& node, const TreeShape& shape, std::vector<Tensor> constants, ConstantOrigin origin)
      : node_(node), shape_(shape), constants_(std::move(constants)), origin_(std::move(origin)) {}

  void emit(Planner& planner, ValueId result) override {
    const bool is_float = planner.info(node_.inputs[0]).type == DataType::kFloat;
    const int x = planner.storage(node_.inputs[0], kPlain);
    auto kernel = is_float ? made<float>(planner) : made<double>(planner);
    planner.add_step(std::move(kernel), {x}, {planner.add_value(result, kPlain)});
  }

 private:
  // Packed at most once in a process: how many bytes that takes is kept like a constant.
  template <class T>
  std::unique_ptr<Kernel> made(Planner& planner) const {
    std::vector<std::byte> packed;
    const auto pack = [&] {
      if (packed.empty()) packed = packed_trees<T>();
    };
    std::uint64_t size = 0;
    const Tensor sizes = planner.prepared(origin_, "bytes of trees", sizeof size, [&](std::byte* to) {
      pack();
      size = packed.size();
      std::memcpy(to, &size, sizeof size);
    });
    std::memcpy(&size, sizes.bytes().data(), sizeof size);
    Tensor bytes = planner.prepared(origin_, "trees", size, [&](std::byte* to) {
      pack();
      std::copy(packed.begin(), packed.end(), to);
    });
    return std::make_unique<TreeScoresKernel<T>>(shape_, std::move(bytes), loops_for<TreeLoops>(planner.options().isa));
  }

  // Tests are of the columns themselves: the preparation of rows is in their numbers.
  template <class T>
  std::vector<std::byte> packed_trees() const {
    const Trees given = Trees::of(constants_);
    const auto preparation = operators::RowPreparation::of(constants_);
    std::optional<operators::UnpreparedTests> tests;
    if (!preparation.is_nothing()) {
      given.checked_depths(std::numeric_limits<Count>::max(), shape_.scores);  // features are checked with their numbers
      tests = operators::without_preparation(given, constants_[1], preparation, shape_.width).value();
    }
    const Tensor& splits = tests ? tests->splits : constants_[1];
    return PackedTrees<T>::pack(tests ? tests->in(given) : given, splits.data<T>(), constants_[6].data<T>(), shape_.columns,
                                shape_.scores);
  }

  const Node& node_;
  TreeShape shape_;                // columns: that the packed tests ask for
  std::vector<Tensor> constants_;  // inputs of the node but x
  ConstantOrigin origin_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_tree_scores(Planner& planner, const Node& node) {
  const DataType type = planner.info(node.inputs[0]).type;
  if (type != DataType::kFloat && type != DataType::kDouble) return nullptr;
  std::vector<Tensor> constants(1);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    constants.push_back(node.inputs[i] == kNoValue ? Tensor() : planner.constant(node.inputs[i]));
    if (node.inputs[i] != kNoValue && !constants.back()) return nullptr;
  }
  if (constants[6].type() != type) return nullptr;
  const AttributeReader attributes(node);
  const Sizes& x = planner.info(node.inputs[0]).sizes;
  const std::string& how = attributes.text("aggregate");
  TreeShape shape{x[0], x[1], attributes.number("columns"), attributes.number("scores"),
                  how == "max"   ? Aggregate::kMax
                  : how == "min" ? Aggregate::kMin
                                 : Aggregate::kSum};
  ConstantOrigin origin;
  for (std::size_t i = 1; i < constants.size(); ++i)
    if (constants[i]) origin.add(static_cast<Count>(i)).add(constants[i]);
  origin.add(shape.columns).add(shape.scores);
  if (constants.size() > static_cast<std::size_t>(Trees::kInputs)) origin.add(shape.width);
  if (const auto preparation = operators::RowPreparation::of(constants); !preparation.is_nothing()) {
    // The search itself belongs to the packed trees, which are made once.
    const auto columns = operators::columns_without_preparation(Trees::of(constants), constants[1], preparation, shape.width);
    if (!columns) return nullptr;
    shape.columns = *columns;
  }
  return std::make_unique<TreeScoresPlan>(node, shape, std::move(constants), std::move(origin));
}

}  // namespace rewright::cpu
