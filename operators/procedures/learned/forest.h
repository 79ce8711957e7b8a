// Decision trees, prepared for many rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace rewright::operators {

class Forest {
 public:
  // The numbers of TreeEnsemble's nodes_modes (ai.onnx.ml 5).
  enum class Test : std::uint8_t { kAtMost, kLess, kAtLeast, kGreater, kEqual, kUnequal, kMember };

  // Where a row goes: to a branch, or to a leaf, by their numbers.
  struct Target {
    bool is_leaf = false;
    std::size_t number = 0;
  };
  struct Branch {
    std::int64_t feature = 0;
    Test test = Test::kAtMost;
    double split = 0;
    std::vector<double> members;  // of kMember
    bool missing_is_true = false;
    Target yes, no;
  };

  // `compares_missing`: a NaN that does not go to `yes` is compared as other numbers are. Throws Error(kBadInput) if a root or
  // a branch leads nowhere, or if a tree has a cycle. `leaves`: how many there are.
  Forest(const std::vector<Branch>& branches, const std::vector<Target>& roots, std::size_t leaves, bool compares_missing);

  std::size_t trees() const { return roots_.size(); }

  // Calls `found(row, leaf)` for each tree and row. Trees come in their order for each row. Throws Error(kBadInput) if there
  // are fewer columns than features. `checkpoint` is called now and then.
  void for_each_leaf(std::span<const double> rows, std::int64_t columns, std::int64_t count,
                     const std::function<void()>& checkpoint,
                     const std::function<void(std::size_t row, std::size_t leaf)>& found) const;

 private:
  struct Node {  // a leaf leads to itself
    double split = 0;
    std::uint32_t feature = 0, yes = 0, no = 0;
    Test test = Test::kAtMost;
    bool missing_is_true = false, is_leaf = false;
  };
  struct Root {
    std::uint32_t node = 0, depth = 0;
  };

  std::uint32_t depth_of(std::uint32_t root, std::vector<std::uint32_t>& depths) const;
  bool goes_true(std::size_t node, double x) const;
  template <bool kOnlyAtMost>
  void walk(const Root& root, const double* rows, std::int64_t columns, std::size_t count, std::uint32_t* at) const;

  std::vector<Node> nodes_;  // branches, then leaves
  std::vector<std::vector<double>> members_;
  std::vector<Root> roots_;
  std::size_t branches_ = 0;
  std::int64_t features_ = 0;  // one more than the last that a branch asks for
  bool compares_missing_, only_at_most_ = true;
};

}  // namespace rewright::operators
