#include "operators/contrib/canonical_trees.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "operators/definitions/trees.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor integers(Sizes sizes, const std::vector<std::int64_t>& list) {
  return Tensor::from_integers(DataType::kInt64, std::move(sizes), list);
}

std::int64_t size_of(const auto& list) { return static_cast<std::int64_t>(list.size()); }

}  // namespace

CanonicalTrees::CanonicalTrees(std::size_t branches, DataType type)
    : type_(type), branches_(static_cast<std::int64_t>(branches)), nodes_(branches) {}

double CanonicalTrees::below(double split) const {
  if (type_ == DataType::kFloat) return std::nextafter(static_cast<float>(split), -std::numeric_limits<float>::infinity());
  return std::nextafter(split, -kInfinity);
}

// The test holds for no x.
CanonicalTrees::Node CanonicalTrees::never(std::int64_t feature, std::int64_t target) {
  return {feature, target, target, std::nan("")};
}

// A missing x fails every test. So where it goes to `yes`, the test is the opposite one: x > split, as -x < -split.
CanonicalTrees::Node CanonicalTrees::at_most(std::int64_t feature, double split, std::int64_t yes, std::int64_t no,
                                             bool missing_is_true) const {
  if (!missing_is_true) return {feature, yes, no, split};
  return less(~feature, -split, no, yes, false);
}

CanonicalTrees::Node CanonicalTrees::less(std::int64_t feature, double split, std::int64_t yes, std::int64_t no,
                                          bool missing_is_true) const {
  if (missing_is_true) return at_most(~feature, -split, no, yes, false);  // the opposite of x < split is -x <= -split
  return split == -kInfinity ? never(feature, no) : Node{feature, yes, no, below(split)};
}

// x <= split, but not x < split.
CanonicalTrees::Node CanonicalTrees::equal(std::int64_t feature, double split, std::int64_t yes, std::int64_t no,
                                           bool missing_is_true) {
  const std::int64_t rest = added(less(feature, split, no, yes, !missing_is_true));
  return at_most(feature, split, rest, no, missing_is_true);
}

// By halves.
CanonicalTrees::Node CanonicalTrees::member(const Branch& b, bool missing_is_true) {
  std::vector<double> members;
  for (const double m : b.members)
    if (!std::isnan(m)) members.push_back(m);
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  struct Range {
    std::size_t first, last;
    std::int64_t node;  // to be set
  };
  const std::int64_t missing = missing_is_true ? b.yes : b.no;
  if (members.empty()) return {b.feature, b.no, missing, kInfinity};
  const std::int64_t top = added({});
  std::vector<Range> open{{0, members.size(), top}};
  while (!open.empty()) {
    const Range r = open.back();
    open.pop_back();
    Node node;
    if (r.last - r.first == 1) {
      node = equal(b.feature, members[r.first], b.yes, b.no, false);
    } else {
      const std::size_t middle = (r.first + r.last) / 2;
      const std::int64_t left = added({}), right = added({});
      node = at_most(b.feature, members[middle - 1], left, right, false);
      open.push_back({r.first, middle, left});
      open.push_back({middle, r.last, right});
    }
    nodes_[static_cast<std::size_t>(r.node)] = node;
  }
  return {b.feature, top, missing, kInfinity};
}

std::int64_t CanonicalTrees::added(const Node& node) {
  nodes_.push_back(node);
  return size_of(nodes_) - 1;
}

void CanonicalTrees::set(std::size_t branch, const Branch& b) {
  if (b.feature < 0 || b.feature >= kMostElements)
    throw Error(ErrorCode::kBadInput, "there is no feature " + std::to_string(b.feature));
  for (const std::int64_t target : {b.yes, b.no})
    if (target >= branches_) throw Error(ErrorCode::kBadInput, "there is no node " + std::to_string(target));
  const bool missing = b.missing_is_true || b.test == Test::kUnequal;
  Node node;
  if (b.test == Test::kMember)
    node = member(b, missing);
  else if (std::isnan(b.split))
    node = {b.feature, b.test == Test::kUnequal ? b.yes : b.no, missing ? b.yes : b.no, kInfinity};
  else if (b.test == Test::kAtMost)
    node = at_most(b.feature, b.split, b.yes, b.no, missing);
  else if (b.test == Test::kLess)
    node = less(b.feature, b.split, b.yes, b.no, missing);
  else if (b.test == Test::kAtLeast)
    node = less(b.feature, b.split, b.no, b.yes, !missing);
  else if (b.test == Test::kGreater)
    node = at_most(b.feature, b.split, b.no, b.yes, !missing);
  else if (b.test == Test::kEqual)
    node = equal(b.feature, b.split, b.yes, b.no, missing);
  else
    node = equal(b.feature, b.split, b.no, b.yes, !missing);
  nodes_[branch] = node;
}

ValueId CanonicalTrees::scores(ContribNode& n, ValueId x, std::int64_t targets, const char* aggregate) const {
  require_few(targets);
  std::vector<std::int64_t> branches;
  std::vector<double> splits;
  std::int64_t columns = 0;
  for (const Node& node : nodes_) {
    branches.insert(branches.end(), {node.feature, node.yes, node.no});
    splits.push_back(node.split);
    columns = std::max(columns, Trees::column(node.feature) + 1);
  }
  Trees{branches, roots_, begins_, targets_}.checked_depths(columns, targets);
  const std::vector<ValueId> inputs{
      x,
      n.b.constant(Tensor::from_reals(type_, {size_of(splits)}, splits)),
      n.b.constant(integers({size_of(nodes_), Trees::kEntries}, branches)),
      n.b.constant(integers({size_of(roots_)}, roots_)),
      n.b.constant(integers({size_of(begins_)}, begins_)),
      n.b.constant(integers({size_of(targets_)}, targets_)),
      n.b.constant(Tensor::from_reals(type_, {size_of(weights_)}, weights_)),
  };
  return n.b.add("TreeScores", inputs,
                 {{"scores", Index(targets)}, {"columns", Index(columns)}, {"aggregate", std::string(aggregate)}});
}

}  // namespace rewright::operators
