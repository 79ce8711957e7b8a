// Random plans for tests: each node is cut in one of the ways that are proved, each given value held in some way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "plans/plan.h"

namespace rewright::testing {

// A way to hold a value of these sizes.
inline plans::Holding random_holding(std::mt19937& random, const TensorType& type, std::int64_t processes, bool alike) {
  std::vector<plans::Holding> ways{plans::whole()};
  for (std::size_t axis = 0; axis < type.rank(); ++axis)
    if (const std::int64_t rows = type.shape[axis].value(); rows >= processes && (!alike || rows % processes == 0))
      ways.push_back(plans::cut_along(axis, 1, rows, processes, rows));
  return ways[random() % ways.size()];
}

// One in so many nodes, to be computed again before each later one.
inline std::vector<Recomputation> random_recomputations(std::mt19937& random, const Graph& graph, unsigned one_in) {
  std::vector<Recomputation> result;
  for (std::int32_t before = 1; before < static_cast<std::int32_t>(graph.nodes().size()); ++before) {
    Recomputation r{before, {}};
    for (std::int32_t n = 0; n < before; ++n)
      if (graph.nodes()[static_cast<std::size_t>(n)]->op && random() % one_in == 0) r.nodes.push_back(n);
    if (!r.nodes.empty()) result.push_back(std::move(r));
  }
  return result;
}

// The nodes with an operator, each somewhere behind what it reads.
inline std::vector<std::size_t> random_sequence(std::mt19937& random, const Graph& graph) {
  const auto producers = graph.producers();
  const std::size_t count = graph.nodes().size();
  std::vector<bool> done(count);
  const auto can_be_next = [&](std::size_t n) {
    return !done[n] && std::ranges::all_of(graph.nodes()[n]->inputs, [&](ValueId v) {
      return v == kNoValue || producers[v] < 0 || done[static_cast<std::size_t>(producers[v])];
    });
  };
  std::vector<std::size_t> result;
  for (std::size_t left = count; left > 0; --left) {
    std::vector<std::size_t> next;
    for (std::size_t n = 0; n < count; ++n)
      if (can_be_next(n)) next.push_back(n);
    const std::size_t n = next[random() % next.size()];
    done[n] = true;
    if (graph.nodes()[n]->op) result.push_back(n);
  }
  return result;
}

// `again`: nodes that are copies.
inline plans::Plan random_plan(std::mt19937& random, const Graph& graph, plans::ChoiceFinder& choices, std::int64_t processes,
                               const std::vector<std::pair<std::size_t, ValueId>>& replaced = {}, bool alike = false,
                               std::vector<bool> again = {}) {
  plans::Partition partition;
  const auto producers = graph.producers();
  std::vector<plans::Holding> held(graph.value_count());
  for (const auto& node : graph.nodes()) {
    std::vector<plans::NodeChoice> ways = choices.of(graph, *node);
    std::erase_if(ways, [&](const plans::NodeChoice& way) {
      for (std::size_t k = 0; k < way.needs.size(); ++k)
        if (node->inputs[k] != kNoValue && way.needs[k].holding.kind == plans::Holding::Kind::kPartial &&
            (producers[node->inputs[k]] < 0 || !(held[node->inputs[k]] == way.needs[k].holding)))
          return true;  // partial sums are had only as they are made
      return false;
    });
    // Cuts are preferred to computing the whole node in each process, which is the first choice.
    const plans::NodeChoice& way = ways[ways.size() > 1 && random() % 8 > 0 ? 1 + random() % (ways.size() - 1) : 0];
    partition.nodes.push_back(way);
    for (std::size_t o = 0; o < node->outputs.size(); ++o)
      if (node->outputs[o] != kNoValue) held[node->outputs[o]] = way.gives[o];
  }
  for (ValueId v = 0; v < graph.value_count(); ++v)
    partition.given.push_back(producers[v] < 0 ? random_holding(random, graph.value(v).type, processes, alike)
                                               : plans::whole());
  if (random() % 2) partition.sequence = random_sequence(random, graph);
  partition.again = std::move(again);
  plans::PartitionOptions options;
  options.processes = processes;
  options.replaced = replaced;
  return make_plan(graph, partition, options);
}

}  // namespace rewright::testing
