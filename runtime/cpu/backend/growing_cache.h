// Graphs with a cache that grows from call to call: one plan for all of its lengths.
//
// Sizes that depend on the cache's length mostly occur in attention with a cache, whose kernel takes them with each call, and
// in a few nodes before all others, such as those that count the ones of a mask. These few are a graph of their own, planned
// for each length in some microseconds; their results are inputs of the other.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "runtime/cpu/planning/kernel.h"

namespace rewright::cpu {

struct GrowingCache {
  Graph before, rest;  // `rest` has the inputs of the graph, then the outputs of `before`
  Index past, present, total;

  // May one plan of `rest` serve these sizes of the cache and others?
  bool serves(const Substitution& sizes) const;
  CacheLengths lengths(const Substitution& sizes) const;
  // The sizes of inputs without those that grow.
  std::vector<Sizes> key(std::span<const Tensor> inputs, const CacheLengths& lengths) const;

 private:
  friend std::optional<GrowingCache> find_growing_cache(const Graph& graph);
  Index length_, group_;                                      // new positions, and heads of queries for each of keys
  std::vector<std::pair<std::size_t, std::size_t>> growing_;  // input, axis
};

// nullopt if the graph, which has whole operators (planning/whole_operators.h), is none of those.
std::optional<GrowingCache> find_growing_cache(const Graph& graph);

}  // namespace rewright::cpu
