// The optimizer: from a graph to the fastest equivalent one for a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "optimizer/certificate.h"
#include "optimizer/cost_database.h"
#include "optimizer/device.h"
#include "optimizer/fold.h"
#include "optimizer/search.h"

namespace rewright {

struct OptimizeProgress {
  std::string stage;             // "folding", "searching", "measuring", "checking"
  double fraction = 0;           // of the stage
  double predicted_gain = 1;     // predicted time before / of the best graph so far
  double predicted_seconds = 0;  // of the best graph so far; 0: not known yet
};

struct OptimizeOptions {
  MathClass math = MathClass::kReassociates;
  bool for_training = false;  // weights are variables: they are not folded
  Strategy strategy = Strategy::kAuto;
  Objective objective = Objective::kLatency;  // others are predicted: graphs are timed for the report alone
  double alpha = 1.05;
  double budget_seconds = 18;                 // of search, with the measuring of operators
  std::size_t memory = std::size_t{8} << 30;  // bytes of the process
  SearchOptions search;                       // its other limits; what is said above and `cancel` and `progress` go before
  std::map<std::string, std::int64_t> sizes;  // of the model's symbolic sizes; 1 where none is given
  int check_runs = 1;
  std::uint64_t seed = 0;
  FoldOptions fold;
  TimingOptions timing;     // of the whole graphs at the end
  bool measure = true;      // false: predicted costs alone decide, by a roofline with the same rates everywhere
  bool time_graphs = true;  // false: predicted costs alone decide
  std::function<void(const OptimizeProgress&)> progress;
  std::stop_token cancel;  // ends the search; what was found is still measured and checked
};

struct AppliedRule {
  std::string rule;
  std::vector<std::string> where;  // names of nodes or values
};

struct OpaqueNode {
  std::string node, reason;
};

struct CheckReport {
  int runs = 0;
  double max_abs_error = 0;
  double max_rel_error = 0;  // of an output: largest difference / largest magnitude of the output
  bool ok = true;
  std::string note;  // why nothing could be compared
};

struct OptimizeReport {
  std::string device;
  std::string strategy;     // "backtrack", "saturate", "auto"
  std::string stop_reason;  // of the search: "done", "saturated", "nodes", "time", "memory", "cancelled"
  double search_seconds = 0;
  std::size_t graphs_explored = 0, e_nodes = 0, operators_measured = 0;
  std::vector<AppliedRule> rules_applied;
  std::string objective;                             // "latency", "memory", "energy-proxy"
  Quantities quantities_before, quantities_after;    // predicted
  std::vector<FrontPoint> front;                     // of latency and peak memory, predicted, before constants are folded
  double predicted_before = 0, predicted_after = 0;  // seconds
  double measured_before = 0, measured_after = 0;    // seconds, medians; 0: not measured
  double speedup = 1;                                // measured: the median of the rounds' ratios
  bool changed = false;                              // false: no gain was found, it is the input's graph, tidied
  std::string outcome;                               // one line: why this graph came back
  std::size_t nodes_before = 0, nodes_after = 0;
  std::vector<OpaqueNode> opaque;
  CheckReport check;
  std::size_t peak_bytes = 0;  // of the process
};

struct OptimizeResult {
  Graph graph;
  Certificate certificate;
  OptimizeReport report;
};

// Folds constants, searches, measures the best graphs end to end in turn with the given one, and compares the results of the
// winner with the given graph's on random inputs. What is not significantly faster, or does not compute the same, is thrown
// away: then the given graph comes back, without nodes and constants that nothing needs or that are there twice. `database` may
// be null. Throws Error if the device is gone or the graph cannot be executed on it at all.
OptimizeResult optimize(const Graph& graph, const std::vector<Rule>& rules, Device& device, Evaluator& evaluator,
                        CostDatabase* database, const OptimizeOptions& options);

// Largest errors that the check accepts, for an element type: rounding differs between equivalent graphs.
double tolerated_relative_error(DataType type);

// Random inputs for a graph, seeded; symbolic sizes as given, else 1. Integers are 0 or 1: valid positions and truth values.
std::vector<Tensor> random_inputs(const Graph& graph, const std::map<std::string, std::int64_t>& sizes, std::uint64_t seed);

}  // namespace rewright
