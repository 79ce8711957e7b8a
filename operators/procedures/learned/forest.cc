#include "operators/procedures/learned/forest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"

namespace rewright::operators {

namespace {

// Rows that walk through a tree together: their reads overlap.
constexpr std::size_t kTogether = 16;
constexpr std::size_t kBlock = 256;  // rows that a tree sees before the next one does
constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max(), kOpen = kUnknown - 1;

Error wrong(const std::string& what) { return Error(ErrorCode::kBadInput, what); }

}  // namespace

Forest::Forest(const std::vector<Branch>& branches, const std::vector<Target>& roots, std::size_t leaves, bool compares_missing)
    : branches_(branches.size()), compares_missing_(compares_missing) {
  if (branches.size() + leaves >= kOpen) throw wrong("it has too many nodes");
  const auto place_of = [&](const Target& target) {
    if (target.number >= (target.is_leaf ? leaves : branches_))
      throw wrong("there is no " + std::string(target.is_leaf ? "leaf " : "node ") + std::to_string(target.number));
    return static_cast<std::uint32_t>(target.is_leaf ? branches_ + target.number : target.number);
  };
  nodes_.resize(branches_ + leaves);
  for (std::size_t n = 0; n < branches_; ++n) {
    const Branch& branch = branches[n];
    if (branch.feature < 0 || branch.feature >= kOpen) throw wrong("there is no feature " + std::to_string(branch.feature));
    features_ = std::max(features_, branch.feature + 1);
    nodes_[n] = {branch.split,
                 static_cast<std::uint32_t>(branch.feature),
                 place_of(branch.yes),
                 place_of(branch.no),
                 branch.test,
                 branch.missing_is_true,
                 false};
    only_at_most_ = only_at_most_ && branch.test == Test::kAtMost && !branch.missing_is_true;
    if (branch.test != Test::kMember) continue;
    members_.resize(branches_);
    members_[n] = branch.members;
    std::sort(members_[n].begin(), members_[n].end());
  }
  for (std::size_t n = branches_; n < nodes_.size(); ++n) {
    nodes_[n].yes = nodes_[n].no = static_cast<std::uint32_t>(n);
    nodes_[n].is_leaf = true;
  }
  std::vector<std::uint32_t> depths(nodes_.size(), kUnknown);
  for (const Target& root : roots) {
    const std::uint32_t node = place_of(root);
    roots_.push_back({node, depth_of(node, depths)});
  }
}

// The most steps from a node to a leaf. Without recursion: a tree may be as deep as its file is long.
std::uint32_t Forest::depth_of(std::uint32_t root, std::vector<std::uint32_t>& depths) const {
  std::vector<std::uint32_t> open{root};
  while (!open.empty()) {
    const std::uint32_t n = open.back();
    const Node& node = nodes_[n];
    if (node.is_leaf) depths[n] = 0;
    if (depths[n] < kOpen) {
      open.pop_back();
      continue;
    }
    const bool is_new = depths[n] == kUnknown;
    depths[n] = kOpen;
    bool is_known = true;
    for (const std::uint32_t next : {node.yes, node.no}) {
      if (depths[next] < kOpen) continue;
      if (!is_new || depths[next] == kOpen) throw wrong("its tree has a cycle");
      open.push_back(next);
      is_known = false;
      if (node.yes == node.no) break;
    }
    if (is_known) depths[n] = 1 + std::max(depths[node.yes], depths[node.no]);
  }
  return depths[root];
}

bool Forest::goes_true(std::size_t n, double x) const {
  const Node& node = nodes_[n];
  if (std::isnan(x) && (node.missing_is_true || !compares_missing_)) return node.missing_is_true;
  switch (node.test) {
    case Test::kAtMost:
      return x <= node.split;
    case Test::kLess:
      return x < node.split;
    case Test::kAtLeast:
      return x >= node.split;
    case Test::kGreater:
      return x > node.split;
    case Test::kEqual:
      return x == node.split;
    case Test::kUnequal:
      return x != node.split;
    case Test::kMember:
      return !std::isnan(x) && std::binary_search(members_[n].begin(), members_[n].end(), x);
  }
  return false;
}

template <bool kOnlyAtMost>
void Forest::walk(const Root& root, const double* rows, std::int64_t columns, std::size_t count, std::uint32_t* at) const {
  for (std::size_t r = 0; r < count; ++r) at[r] = root.node;
  for (std::uint32_t step = 0; step < root.depth; ++step) {
    bool are_leaves = true;
    for (std::size_t r = 0; r < count; ++r) {
      const Node& node = nodes_[at[r]];
      const double x = rows[static_cast<std::int64_t>(r) * columns + node.feature];
      const bool is_true = kOnlyAtMost ? x <= node.split : node.is_leaf || goes_true(at[r], x);
      at[r] = is_true ? node.yes : node.no;
      are_leaves = are_leaves && nodes_[at[r]].is_leaf;
    }
    if (are_leaves) break;
  }
}

void Forest::for_each_leaf(std::span<const double> rows, std::int64_t columns, std::int64_t count,
                           const std::function<void()>& checkpoint,
                           const std::function<void(std::size_t row, std::size_t leaf)>& found) const {
  if (features_ > columns)
    throw wrong("its trees ask for feature " + std::to_string(features_ - 1) + ", a row has " + std::to_string(columns));
  const std::array<double, 1> nothing{};
  const double* const data = columns > 0 ? rows.data() : nothing.data();  // leaves read a feature that counts for nothing
  const auto all = static_cast<std::size_t>(count);
  std::array<std::uint32_t, kTogether> at{};
  for (std::size_t begin = 0; begin < all; begin += kBlock) {
    checkpoint();
    const std::size_t end = std::min(all, begin + kBlock);
    for (const Root& root : roots_)
      for (std::size_t r = begin; r < end; r += kTogether) {
        const std::size_t together = std::min(kTogether, end - r);
        const double* const first = data + static_cast<std::int64_t>(columns > 0 ? r : 0) * columns;
        only_at_most_ ? walk<true>(root, first, columns, together, at.data())
                      : walk<false>(root, first, columns, together, at.data());
        for (std::size_t k = 0; k < together; ++k) found(r + k, at[k] - branches_);
      }
  }
}

}  // namespace rewright::operators
