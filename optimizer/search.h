// Backtracking search for a cheaper equivalent graph (as in TASO, SOSP'19), region by region.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "optimizer/certificate.h"
#include "optimizer/cost.h"
#include "optimizer/match.h"

namespace rewright {

// Why a search ended.
enum class StopReason { kDone, kTime, kMemory, kCancelled };
std::string_view name(StopReason reason);  // "done", "time", "memory", "cancelled"

struct SearchProgress {
  double fraction = 0;               // of the present pass over the graph
  int pass = 0;                      // from 1
  double cost_before = 0, cost = 0;  // seconds
  std::size_t graphs = 0;
};

struct SearchOptions {
  double alpha = 1.05;  // a step may lead to a graph that costs so many times the best one's cost
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::size_t memory = std::size_t{8} << 30;  // bytes of the process
  std::size_t region_nodes = 28;              // at most so many in a region
  std::size_t patience = 24;                  // a region is left after so many graphs were expanded without gain
  std::size_t max_graphs = 4000;              // in a region
  int max_passes = 6;
  std::stop_token cancel;
  std::function<void(const SearchProgress&)> progress;
};

struct SearchResult {
  Graph graph;
  std::vector<Step> steps;  // from the given graph to this one
  double cost_before = 0, cost = 0;
  StopReason stop_reason = StopReason::kDone;
  std::size_t graphs_explored = 0;
  std::size_t regions = 0, regions_reused = 0;
  // The graph after the first pass, with its number of steps: another one to measure.
  Graph first_pass;
  std::size_t first_pass_steps = 0;
};

// The graph is cut into regions where few values cross. In each, graphs are expanded in order of their cost, by every rule that
// fits; those that cost more than the threshold allows, or were seen before (constants aside), are dropped. The threshold is
// the region's best cost and (alpha - 1) of the whole graph's cost, or, in small graphs, a multiple of it of the region's.
// What was found in a region is done in all regions that are equal up to the contents of constants. Passes with other borders
// follow until nothing is gained.
//
// The same graph, rules, options and cost table give the same result, unless the time or the memory ends first.
SearchResult search(const Graph& graph, const RuleIndex& rules, CostModel& costs, const SearchOptions& options);

// What is applied where, for people: names of the nodes that a match in a region's graph stands on.
std::vector<std::string> names_at(const Graph& graph, std::span<const std::int64_t> where);

}  // namespace rewright
