// The state of grouping: the groups formed so far. Internal to grouping.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/planning/grouping.h"
#include "runtime/planning/value_uses.h"

namespace rewright::planning {

inline bool is_8_bits(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

struct Partition {
  explicit Partition(DeviceKernels& device);

  DeviceKernels& kernels;
  const Graph& graph;
  const std::vector<std::int32_t> producers;  // by value; -1: none
  ValueUses uses;
  std::vector<int> group_of;  // by node; -1: none yet
  std::vector<Group> groups;

  const Node& node(int number) const { return *graph.nodes()[static_cast<std::size_t>(number)]; }
  // Adds a group of one node, which computes the node's first output.
  Group& add_group(int node);
  // Adds a node to a group; its first output becomes the group's result.
  void join(Group& group, int node);
  // May the node become part of an expression? It must be in no group, and only its first output used.
  bool is_free(int node) const;
  bool has_denotation(int node) const { return traits(node).has_denotation; }
  // Are there kernels for some nodes of this node's operator?
  bool has_kernels(int node) const {
    std::optional<bool>& known = has_kernels_[static_cast<std::size_t>(node)];
    if (!known) known = kernels.has_kernels(this->node(node).op->name());
    return *known;
  }
  const Traits& traits(int node) const {
    std::optional<Traits>& known = traits_[static_cast<std::size_t>(node)];
    if (!known) known = kernels.traits(this->node(node));
    return *known;
  }

 private:
  mutable std::vector<std::optional<Traits>> traits_;     // by node
  mutable std::vector<std::optional<bool>> has_kernels_;  // by node
};

// First phase: groups of kernels with everything they absorb; opaque nodes; views.
void group_kernels(Partition& partition);

// Second phase: all other nodes, as expressions of as many nodes as are worthwhile, or as single nodes.
void group_expressions(Partition& partition);

}  // namespace rewright::planning
