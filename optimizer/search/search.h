// Searches for a cheaper equivalent graph, region by region: backtracking (as in TASO, SOSP'19), equality saturation (as in
// Tensat, MLSys'21), or one after the other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "optimizer/costs/cost_model.h"
#include "optimizer/limits/limits.h"
#include "optimizer/matching/match.h"
#include "optimizer/matching/steps.h"
#include "optimizer/saturation/improve.h"

namespace rewright::optimizer {

struct SearchProgress {
  double fraction = 0;               // of the present pass over the graph
  int pass = 0;                      // from 1
  double cost_before = 0, cost = 0;  // seconds
  std::size_t graphs = 0;
};

enum class Strategy { kBacktrack, kSaturate, kAuto };
std::string_view name(Strategy strategy);  // "backtrack", "saturate", "auto"

struct SearchOptions {
  Strategy strategy = Strategy::kBacktrack;
  double alpha = 1.05;  // a step may lead to a graph that costs so many times the best one's cost
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::size_t memory = std::size_t{8} << 30;  // bytes of the process
  std::size_t region_nodes = 28;              // at most so many in a region
  std::size_t patience = 24;                  // a region is left after so many graphs were expanded without gain
  std::size_t max_graphs = 4000;              // in a region
  int max_passes = 6;
  ImproveOptions saturation;
  // Simplex iterations of all extractions together: where there are many regions, each gets less than it might have.
  std::int64_t iterations = 24000;
  double saturation_share = 0.3;  // of the time that is left when it begins, in auto
  int threads = 1;                // what is found is the same for any number
  std::stop_token cancel;
  std::function<void(const SearchProgress&)> progress;  // called by the thread that searches
};

// A graph that leads to the best one.
struct Milestone {
  Graph graph;
  std::vector<CertificateStep> steps;  // from the given graph to this one
  double cost = 0;                     // seconds
};

// Predictions for a graph of the search.
struct FrontPoint {
  Quantities quantities;
  std::size_t nodes = 0, rewrites = 0;
};

struct SearchResult {
  Graph graph;
  std::vector<CertificateStep> steps;  // from the given graph to this one
  double cost_before = 0, cost = 0;
  StopReason stop_reason = StopReason::kDone;
  std::size_t graphs_explored = 0;
  std::size_t regions = 0, regions_reused = 0;
  std::size_t e_nodes = 0;  // live ones of the largest e-graph
  // Of all whole graphs that were looked at: those of which none other needs less time and no more memory, or the reverse;
  // fastest first.
  std::vector<FrontPoint> front;
  std::vector<Milestone> milestones;  // others to measure, cheapest first, at most kMilestones
};
inline constexpr std::size_t kMilestones = 3;

// The graph is cut into regions where few values cross. Passes with other borders follow until nothing is gained; what was
// found in a region is done in all regions that are equal up to the contents of constants.
//
// Backtracking: in each region, graphs are expanded in order of their cost, by every rule that
// fits; those that cost more than the threshold allows, or were seen before (constants aside), are dropped. The threshold is
// the region's best cost and (alpha - 1) of the whole graph's cost, or, in small graphs, a multiple of it of the region's.
//
// Saturation: each region becomes an e-graph, and the cheapest choice out of it is put back.
//
// Auto: each region is saturated as it is given, and cleaned up (rewrites that gain at once), and the better counts; then
// saturation alone, until nothing is gained; then saturation and backtracking, and in each region the better.
//
// The same graph, rules, options and cost table give the same result, unless the time or the memory ends first.
SearchResult search(const Graph& graph, const RuleIndex& rules, CostModel& costs, const SearchOptions& options);

}  // namespace rewright::optimizer
