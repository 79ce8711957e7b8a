// Ensembles of decision trees as tensors: what TreeScores reads, and checks of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "expressions/attributes.h"
#include "expressions/tensor.h"

namespace rewright::operators {

// The structure of an ensemble: the integers among TreeScores' inputs.
//
// A branch has three entries: its feature, and where it leads if its test holds and if it does not. The test is
// x[feature] <= split, or -x[~feature] <= split for a negative feature; it does not hold for NaN. A target that is not negative
// is a branch, another is leaf ~target. Branches and leaves may be reached by several ways.
struct Trees {
  std::span<const std::int64_t> branches;  // 3 for each
  std::span<const std::int64_t> roots;     // a target for each tree
  std::span<const std::int64_t> begins;    // of each leaf's votes, and the end of the last one's
  std::span<const std::int64_t> targets;   // of each vote

  static constexpr std::size_t kEntries = 3;
  static constexpr int kInputs = 7;  // x, splits, branches, roots, begins, targets, weights; a RowPreparation may follow

  std::size_t branch_count() const { return branches.size() / kEntries; }
  std::size_t leaf_count() const { return begins.empty() ? 0 : begins.size() - 1; }
  std::int64_t feature(std::size_t branch) const { return branches[kEntries * branch]; }
  std::int64_t yes(std::size_t branch) const { return branches[kEntries * branch + 1]; }
  std::int64_t no(std::size_t branch) const { return branches[kEntries * branch + 2]; }
  static std::int64_t column(std::int64_t feature) { return feature < 0 ? ~feature : feature; }

  // Reads the inputs of a TreeScores, whose constants must outlive the result.
  static Trees of(std::span<const Tensor> inputs);

  // Throws Error(kBadInput) if a target does not exist, a tree has a cycle, or the lists do not fit one another. `columns`: of
  // rows, `scores`: targets of votes. Returns the most tests on a way through each tree.
  std::vector<std::int64_t> checked_depths(std::int64_t columns, std::int64_t scores) const;
};

// The trees as attributes of a TreeEnsembleRegressor (`votes`: "target") or TreeEnsembleClassifier ("class"). nullopt if there
// are none, or if too many ways lead to some branches: each would be a node.
using NamedValues = std::vector<std::pair<std::string, AttributeValue>>;
std::optional<NamedValues> numbered_trees(const Trees& trees, const Tensor& splits, const Tensor& weights,
                                          const std::string& votes);

}  // namespace rewright::operators
