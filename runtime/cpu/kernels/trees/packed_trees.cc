#include "runtime/cpu/kernels/trees/packed_trees.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

namespace rewright::cpu {

namespace {

using operators::Trees;

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMostSmall = 256;                    // leaves of a small tree
constexpr double kStep = 1.1, kTest = 0.055, kLeaf = 0.5;  // nanoseconds of a row

enum Section : std::size_t { kTrees, kNodes, kTests, kEnds, kPayloads, kBegins, kTargets, kWeights, kSections };

struct Header {
  std::uint64_t at[kSections];
  std::uint64_t trees;
  double mean_depth;
  Votes votes;
  std::uint32_t negates, has_small;
};

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

// The leaves and tests of one tree, for a tree that is none but a tree: each branch is reached by one way.
struct SmallTree {
  struct Test {
    std::int64_t branch;
    std::uint32_t first, last;  // the leaves that are reached only if it holds
  };
  std::vector<Test> tests;
  std::vector<std::int64_t> leaves;  // from left to right
};

template <class T>
class Packer {
 public:
  Packer(const Trees& trees, std::span<const T> splits, std::span<const T> weights, std::int64_t columns, std::int64_t scores)
      : t_(trees), splits_(splits), weights_(weights), columns_(columns), depths_(trees.checked_depths(columns, scores)) {
    if (trees.branch_count() + trees.leaf_count() >= std::numeric_limits<std::uint32_t>::max() / sizeof(TreeNode<T>))
      throw Error(ErrorCode::kUnsupported, "it has too many nodes");
    find_votes(scores);
    for (std::size_t b = 0; b < t_.branch_count(); ++b) negates_ = negates_ || t_.feature(b) < 0;
    place_nodes();
    for (std::size_t k = 0; k < t_.roots.size(); ++k) add_tree(k);
  }

  std::vector<std::byte> bytes() {
    Header header{};
    std::vector<std::byte> all(sizeof header);
    const auto add = [&](Section section, const auto& list) {
      all.resize((all.size() + kAlignment - 1) / kAlignment * kAlignment);
      header.at[section] = all.size();
      const auto bytes = std::as_bytes(std::span(list));
      all.insert(all.end(), bytes.begin(), bytes.end());
    };
    add(kTrees, trees_), add(kNodes, nodes_), add(kTests, tests_), add(kEnds, ends_), add(kPayloads, payloads_);
    if (votes_ == Votes::kSome) {
      add(kBegins, std::vector<std::uint32_t>(t_.begins.begin(), t_.begins.end()));
      add(kTargets, std::vector<std::uint32_t>(t_.targets.begin(), t_.targets.end()));
    }
    if (votes_ != Votes::kOne) add(kWeights, weights_);
    header.trees = trees_.size(), header.votes = votes_, header.negates = negates_, header.has_small = has_small_;
    header.mean_depth = trees_.empty() ? 0 : depth_sum_ / static_cast<double>(trees_.size());
    std::memcpy(all.data(), &header, sizeof header);
    return all;
  }

 private:
  void find_votes(std::int64_t scores) {
    const auto each = [&](std::int64_t votes) {
      for (std::size_t leaf = 0; leaf < t_.leaf_count(); ++leaf) {
        if (t_.begins[leaf + 1] - t_.begins[leaf] != votes || t_.begins[leaf] != static_cast<std::int64_t>(leaf) * votes)
          return false;
        for (std::int64_t v = 0; v < votes; ++v)
          if (t_.targets[static_cast<std::size_t>(t_.begins[leaf] + v)] != v) return false;
      }
      return true;
    };
    if (each(scores)) votes_ = scores == 1 ? Votes::kOne : Votes::kAll;
  }

  std::uint32_t column(std::int64_t feature) const {
    return static_cast<std::uint32_t>(feature < 0 ? columns_ + ~feature : feature);
  }
  T payload(std::int64_t leaf) const {
    if (votes_ == Votes::kOne) return weights_[static_cast<std::size_t>(leaf)];
    return payload_of_number<T>(static_cast<std::uint32_t>(leaf));
  }

  // Breadth first: what a test leads to lies side by side.
  void place_nodes() {
    constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> branch_at(t_.branch_count(), kNowhere), leaf_at(t_.leaf_count(), kNowhere);
    std::vector<std::int64_t> order;
    const auto place = [&](std::int64_t target) -> std::uint32_t {
      std::uint32_t& at = target < 0 ? leaf_at[static_cast<std::size_t>(~target)] : branch_at[static_cast<std::size_t>(target)];
      if (at == kNowhere) {
        at = static_cast<std::uint32_t>(order.size() * sizeof(TreeNode<T>));
        order.push_back(target);
      }
      return at;
    };
    std::size_t done = 0;
    for (const std::int64_t root : t_.roots) {
      roots_.push_back(place(root));
      for (; done < order.size(); ++done) {
        const std::int64_t target = order[done];
        const auto at = static_cast<std::uint32_t>(done * sizeof(TreeNode<T>));
        if (target < 0) {
          nodes_.push_back({payload(~target), 0, {at, at}});
          continue;
        }
        const auto b = static_cast<std::size_t>(target);
        const std::uint32_t no = place(t_.no(b)), yes = place(t_.yes(b));
        nodes_.push_back({splits_[b], column(t_.feature(b)), {no, yes}});
      }
    }
  }

  void add_tree(std::size_t k) {
    PackedTree tree{roots_[k], static_cast<std::uint32_t>(depths_[k]), 0, 0, 0, 0};
    depth_sum_ += static_cast<double>(depths_[k]);
    if constexpr (std::is_same_v<T, float>)
      if (const auto small = small_tree(t_.roots[k])) add_small(tree, *small);
    trees_.push_back(tree);
  }

  // nullopt if it has many leaves, or shares branches.
  std::optional<SmallTree> small_tree(std::int64_t root) {
    owned_.resize(t_.branch_count());
    SmallTree small;
    struct Open {
      std::int64_t target;
      std::size_t test;  // whose leaves end when the target is met; kNone: none
    };
    constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    std::vector<Open> open{{root, kNone}};
    while (!open.empty()) {
      const Open next = open.back();
      open.pop_back();
      if (next.test != kNone) small.tests[next.test].last = static_cast<std::uint32_t>(small.leaves.size());
      if (next.target < 0) {
        small.leaves.push_back(~next.target);
        if (small.leaves.size() > kMostSmall) return std::nullopt;
        continue;
      }
      const auto b = static_cast<std::size_t>(next.target);
      if (owned_[b]) return std::nullopt;
      owned_[b] = true;
      small.tests.push_back({next.target, static_cast<std::uint32_t>(small.leaves.size()), 0});
      open.push_back({t_.no(b), small.tests.size() - 1});
      open.push_back({t_.yes(b), kNone});
    }
    return small;
  }

  void add_small(PackedTree& tree, const SmallTree& small) {
    const std::uint32_t words = (static_cast<std::uint32_t>(small.leaves.size()) + 31) / 32;
    const std::size_t first_test = tests_.size(), first_end = ends_.size();
    for (std::uint32_t w = 0; w < words; ++w) {
      for (const SmallTree::Test& test : small.tests) {
        const std::uint32_t first = std::max(test.first, 32 * w), last = std::min(test.last, 32 * w + 32);
        if (first >= last) continue;
        const std::uint32_t lost = (last - first == 32 ? ~0u : (1u << (last - first)) - 1) << (first - 32 * w);
        const auto b = static_cast<std::size_t>(test.branch);
        tests_.push_back({static_cast<float>(splits_[b]), column(t_.feature(b)), ~lost});
      }
      ends_.push_back(static_cast<std::uint32_t>(tests_.size() - first_test));
    }
    const auto count = static_cast<double>(tests_.size() - first_test);
    if (kTest * count + kLeaf > kStep * static_cast<double>(tree.depth)) {
      tests_.resize(first_test), ends_.resize(first_end);
      return;
    }
    tree.words = words, tree.first_end = static_cast<std::uint32_t>(first_end);
    tree.first_test = static_cast<std::uint32_t>(first_test), tree.first_leaf = static_cast<std::uint32_t>(payloads_.size());
    for (const std::int64_t leaf : small.leaves) payloads_.push_back(payload(leaf));
    has_small_ = true;
  }

  const Trees& t_;
  std::span<const T> splits_, weights_;
  const std::int64_t columns_;
  std::vector<std::int64_t> depths_;
  std::vector<TreeNode<T>> nodes_;
  std::vector<std::uint32_t> roots_, ends_;
  std::vector<PackedTree> trees_;
  std::vector<TreeTest> tests_;
  std::vector<T> payloads_;
  std::vector<bool> owned_;  // by a small tree
  Votes votes_ = Votes::kSome;
  bool negates_ = false, has_small_ = false;
  double depth_sum_ = 0;
};

}  // namespace

template <class T>
T payload_of_number(std::uint32_t leaf) {
  return std::bit_cast<T>(static_cast<Bits<T>>(leaf));
}
template <class T>
std::uint32_t number_of_payload(T payload) {
  return static_cast<std::uint32_t>(std::bit_cast<Bits<T>>(payload));
}

template <class T>
std::vector<std::byte> PackedTrees<T>::pack(const Trees& trees, std::span<const T> splits, std::span<const T> weights,
                                            std::int64_t columns, std::int64_t scores) {
  return Packer<T>(trees, splits, weights, columns, scores).bytes();
}

template <class T>
PackedTrees<T>::PackedTrees(const std::byte* bytes) {
  const auto* const header = reinterpret_cast<const Header*>(bytes);
  const auto section = [&]<class E>(Section s, const E*& to) { to = reinterpret_cast<const E*>(bytes + header->at[s]); };
  const PackedTree* first = nullptr;
  section(kTrees, first), section(kNodes, nodes), section(kTests, tests), section(kEnds, ends), section(kPayloads, payloads);
  section(kBegins, begins), section(kTargets, targets), section(kWeights, weights);
  trees = {first, static_cast<std::size_t>(header->trees)};
  votes = header->votes, negates = header->negates != 0, has_small = header->has_small != 0, mean_depth = header->mean_depth;
}

template class PackedTrees<float>;
template class PackedTrees<double>;
template float payload_of_number(std::uint32_t);
template double payload_of_number(std::uint32_t);
template std::uint32_t number_of_payload(float);
template std::uint32_t number_of_payload(double);

}  // namespace rewright::cpu
