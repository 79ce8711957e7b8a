// The core of an e-graph: classes of equal things, and the table that finds a node with the same contents.
//
//   Classes classes;                       // of the nodes' results
//   const std::uint32_t a = classes.add(), b = classes.add();
//   classes.merge(a, b);                   // now find(a) == find(b)
//   NodeTable table;                       // nodes by the hash of operator and operands' classes
//   if (const auto known = table.find(hash, [&](std::uint32_t node) { return nodes[node] == wanted; })) return *known;
//   table.insert(hash, number);
//
// After merges, nodes whose operands have become equal must be found and their results merged (congruence). An e-graph does so
// for the users of the merged classes, or with rehash() for all nodes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rewright {

// Numbers 0, 1, ... in classes (union-find). A class is named by one of its members.
class Classes {
 public:
  // A class of its own.
  std::uint32_t add() {
    parent_.push_back(static_cast<std::uint32_t>(parent_.size()));
    return parent_.back();
  }
  std::size_t size() const { return parent_.size(); }  // of all numbers

  // The name of the class.
  std::uint32_t find(std::uint32_t member) const {
    while (parent_[member] != member) member = parent_[member];
    return member;
  }

  // Merges two classes under the name `keep`. `gone` is the other one's name.
  void merge_into(std::uint32_t keep, std::uint32_t gone) { parent_[gone] = keep; }

  // Merges two classes under the smaller of their names. Returns the name kept and the name dropped; nullopt if they were one
  // class.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> merge(std::uint32_t a, std::uint32_t b) {
    a = find(a), b = find(b);
    if (a == b) return std::nullopt;
    const std::pair<std::uint32_t, std::uint32_t> names = std::minmax(a, b);
    merge_into(names.first, names.second);
    return names;
  }

 private:
  std::vector<std::uint32_t> parent_;
};

// Numbers by the hash of what they stand for.
class NodeTable {
 public:
  // The number with this hash for which `same(number)` holds.
  template <class Same>
  std::optional<std::uint32_t> find(std::uint64_t hash, const Same& same) const {
    const auto [first, last] = numbers_.equal_range(hash);
    for (auto at = first; at != last; ++at)
      if (same(at->second)) return at->second;
    return std::nullopt;
  }

  void insert(std::uint64_t hash, std::uint32_t number) { numbers_.emplace(hash, number); }

  void erase(std::uint64_t hash, std::uint32_t number) {
    const auto [first, last] = numbers_.equal_range(hash);
    const auto at = std::find_if(first, last, [&](const auto& entry) { return entry.second == number; });
    if (at != last) numbers_.erase(at);
  }

  void clear() { numbers_.clear(); }
  std::size_t size() const { return numbers_.size(); }

  // Enters nodes again until nothing changes. `enter` clears and fills the table, and returns whether it merged classes: a
  // merge can make further nodes equal.
  template <class Enter>
  void rehash(const Enter& enter) {
    do clear();
    while (enter());
  }

 private:
  std::unordered_multimap<std::uint64_t, std::uint32_t> numbers_;
};

}  // namespace rewright
