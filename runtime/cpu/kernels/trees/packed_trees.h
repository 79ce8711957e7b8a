// An ensemble of trees packed for the kernel that walks through it.
//
// All parts lie in one piece of memory without pointers, so that plans share it and a plan cache keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "operators/definitions/trees.h"
#include "runtime/cpu/loops/tree_loops.h"

namespace rewright::cpu {

// A branch or a leaf. A leaf leads to itself, so that rows that have reached theirs may go on with the others.
template <class T>
struct TreeNode {
  T split;  // of a leaf: its payload
  std::uint32_t column;
  std::uint32_t next[2];  // in bytes from the first node: if the test fails, and if it holds
};

// The votes of leaves, and the payload that a leaf stores for them.
enum class Votes : std::uint32_t {
  kOne,   // each gives one weight to the only target: that weight
  kAll,   // each gives a weight to every target, in order: the leaf's number
  kSome,  // the leaf's number
};

struct PackedTree {
  std::uint32_t root, depth;  // a node in bytes; the most tests
  // A small tree has tests by words of leaves as well: the first of each, and the number of words; 0: none.
  std::uint32_t words, first_end, first_test, first_leaf;
};

template <class T>
class PackedTrees {
 public:
  // The bytes of an ensemble; aligned to 64 bytes when they are used.
  static std::vector<std::byte> pack(const operators::Trees& trees, std::span<const T> splits, std::span<const T> weights,
                                     std::int64_t columns, std::int64_t scores);

  explicit PackedTrees(const std::byte* bytes);

  std::span<const PackedTree> trees;
  const std::byte* nodes = nullptr;
  const TreeTest* tests = nullptr;
  const std::uint32_t* ends = nullptr;  // of words, counted from a tree's first test
  const T* payloads = nullptr;          // of small trees' leaves
  const std::uint32_t *begins = nullptr, *targets = nullptr;
  const T* weights = nullptr;
  Votes votes = Votes::kSome;
  bool negates = false;  // some columns are negated ones, behind all others
  bool has_small = false;
  double mean_depth = 0;

  const TreeNode<T>& node(std::uint32_t at) const { return *reinterpret_cast<const TreeNode<T>*>(nodes + at); }
};

// A leaf's number as a payload.
template <class T>
T payload_of_number(std::uint32_t leaf);
template <class T>
std::uint32_t number_of_payload(T payload);

}  // namespace rewright::cpu
