// Ensembles of trees being read: branches of all kinds become TreeScores' (operators/definitions/trees.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operators/contrib/contrib.h"

namespace rewright::operators {

class CanonicalTrees {
 public:
  // The numbers of TreeEnsemble's nodes_modes (ai.onnx.ml 5).
  enum class Test : std::uint8_t { kAtMost, kLess, kAtLeast, kGreater, kEqual, kUnequal, kMember };
  static constexpr std::int64_t kTests = 7;

  struct Branch {
    std::int64_t feature = 0;
    Test test = Test::kAtMost;
    double split = 0;
    std::vector<double> members;   // of kMember
    bool missing_is_true = false;  // else a NaN is compared as other numbers are, as in ONNX Runtime
    std::int64_t yes = 0, no = 0;  // as in Trees: branches as set() numbers them, or ~leaf
  };

  // `type`: of x and the splits.
  CanonicalTrees(std::size_t branches, DataType type);

  // Throw Error(kBadInput) for a feature or target that cannot be.
  void set(std::size_t branch, const Branch& given);
  void add_root(std::int64_t target) { roots_.push_back(target); }
  // The votes of the next leaf are those added since the last one.
  void add_vote(std::int64_t target, double weight) { targets_.push_back(target), weights_.push_back(weight); }
  void end_leaf() { begins_.push_back(static_cast<std::int64_t>(targets_.size())); }

  // Scores of rows of `type`, [rows, targets]. Throws Error(kBadInput) if the trees are none.
  ValueId scores(ContribNode& n, ValueId x, std::int64_t targets, const char* aggregate) const;

 private:
  struct Node {
    std::int64_t feature = 0, yes = 0, no = 0;
    double split = 0;
  };

  double below(double split) const;  // the next smaller number of the type
  static Node never(std::int64_t feature, std::int64_t target);
  // x <= split, and x < split, where a missing x goes to `yes` or to `no`.
  Node at_most(std::int64_t feature, double split, std::int64_t yes, std::int64_t no, bool missing_is_true) const;
  Node less(std::int64_t feature, double split, std::int64_t yes, std::int64_t no, bool missing_is_true) const;
  Node equal(std::int64_t feature, double split, std::int64_t yes, std::int64_t no, bool missing_is_true);
  Node member(const Branch& given, bool missing_is_true);
  std::int64_t added(const Node& node);

  DataType type_;
  std::int64_t branches_;
  std::vector<Node> nodes_;  // the branches, then what some of them need besides
  std::vector<std::int64_t> roots_, begins_{0}, targets_;
  std::vector<double> weights_;
};

}  // namespace rewright::operators
