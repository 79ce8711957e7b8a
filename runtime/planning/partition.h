// The state of grouping: which nodes are in groups so far. Internal to grouping.
#pragma once

#include <cstdint>
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
  // A new group of one node, which computes the node's first output.
  Group& add_group(int node);
  // Adds a node to a group, whose result its first output then is.
  void join(Group& group, int node);
  // May the node still become part of an expression? It is in no group, and only its first output is used.
  bool is_free(int node) const;
  bool has_denotation(int node) const { return kernels.define(this->node(node)).has_denotation(); }
};

// First: groups of kernels, with what the kernels absorb; groups of opaque nodes, and views.
void group_kernels(Partition& partition);

// Then: everything that is left, as expressions of as many nodes as are worth it, or as single nodes.
void group_expressions(Partition& partition);

}  // namespace rewright::planning
