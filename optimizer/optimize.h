// The optimizer: from a graph to the fastest equivalent one for a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/dialect.h"
#include "optimizer/certificates/certificate.h"
#include "optimizer/checking/check.h"
#include "optimizer/checking/fault.h"
#include "optimizer/checking/written_check.h"
#include "optimizer/costs/database.h"
#include "optimizer/devices/device.h"
#include "optimizer/folding/fold.h"
#include "optimizer/inputs/inputs.h"
#include "optimizer/inputs/sizes.h"
#include "optimizer/limits/budget.h"
#include "optimizer/search/search.h"

namespace rewright::optimizer {

struct OptimizeProgress {
  std::string stage;             // "folding", "searching", "measuring", "checking"
  double fraction = 0;           // share of the stage that is done
  double predicted_gain = 1;     // predicted time before / of the best graph so far
  double predicted_seconds = 0;  // of the best graph so far; 0: not known yet
};

struct OptimizeOptions {
  MathClass math = MathClass::kReassociates;
  Dialect dialect = Dialect::kAsGiven;  // of the result
  bool for_training = false;            // weights are variables and not folded
  Strategy strategy = Strategy::kAuto;
  Objective objective = Objective::kLatency;  // others are only predicted: graphs are timed just for the report
  double alpha = 1.05;
  double budget_seconds = 18;  // wall-clock, for everything: search, measuring, checking, and writing the result
  std::optional<Budget::Clock::time_point> started;  // when the seconds began; none: with the call of optimize()
  Budget::Now now;                                   // the clock for planning phases; empty: the real one
  std::size_t memory = std::size_t{8} << 30;         // bytes of the process
  SearchOptions search;  // its other limits; what is said above and `cancel` and `progress` go before
  // Of the model's symbolic sizes; 1 where none is given. Where there are several sets, a graph is kept if it is faster in the
  // weighted mean over them, at none of them slower than kLeastAtAnySizes, and right at all of them.
  std::vector<WeightedSizes> sizes = {WeightedSizes()};
  int check_runs = 1;               // 0: the results are not compared
  Device* second_device = nullptr;  // executes for the check what the device cannot; then the interpreter does
  ReferenceCheck reference_check;   // of what the check executed; none: both sides are compared alone
  // A graph as it comes back from the file that it will be written to: that is what is compared. None: the graph itself.
  std::function<Graph(const Graph&)> written;
  std::uint64_t seed = 0;
  FoldOptions fold;
  TimingOptions timing;     // for the whole graphs at the end
  bool measure = true;      // false: predicted costs decide, by a roofline with the same rates everywhere
  bool time_graphs = true;  // false: predicted costs decide
  std::function<void(const OptimizeProgress&)> progress;
  std::stop_token cancel;  // ends the search; its result is still measured and checked
};

struct AppliedRule {
  std::string rule;
  std::vector<std::string> where;  // names of nodes or values
};

struct OpaqueNode {
  std::string node, reason;
};

// Predictions and measurements at one of the sets of sizes.
struct SizesReport {
  WeightedSizes at;
  double predicted_before = 0, predicted_after = 0;  // seconds
  double measured_before = 0, measured_after = 0;    // seconds, medians; 0: not measured
  double speedup = 1;                                // measured: the lesser of two
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
  double speedup = 1;                                // measured: the lesser of two measurements in processes of their own
  std::vector<SizesReport> at;                       // each set of sizes; what is said above are weighted means over them
  bool changed = false;                              // false: no gain was found, it is the input's graph, tidied
  std::string outcome;                               // one line: why this graph came back
  std::size_t nodes_before = 0, nodes_after = 0;
  std::vector<OpaqueNode> opaque;
  int opset = 0;                  // of ONNX's own domain, of the result
  std::vector<NotStandard> left;  // with Dialect::kStandard: nodes that could not be written so
  CheckReport check;
  std::size_t peak_bytes = 0;  // of the process
};

struct OptimizeResult {
  Graph graph;
  Certificate certificate;
  OptimizeReport report;
};

// Folds constants, searches, measures the best graphs alternately with the original, and compares the winner's results on
// random inputs. A graph is dropped if it is not significantly faster in two measurements in processes of their own
// (Device::time_afresh), if nothing here can execute it, or if the budget leaves no time to measure or check it: then the
// original graph is returned, without unneeded or duplicate nodes and constants if that can be compared. If results differ, the
// step that caused it is left out and reported (CheckReport::differs), and the search repeated without it. `database` may be
// null. Throws Error if the device is gone.
//
// With Dialect::kStandard the graph to be improved, measured and returned without a gain is the given one in ONNX's own
// operators (in_standard_dialect). What is returned is compared with the given graph in any case: if it computes something
// else Error(kUnsupported) is thrown; where nothing can execute it CheckReport::reason says so.
OptimizeResult optimize(const Graph& graph, const std::vector<Rule>& rules, Device& device, Evaluator& evaluator,
                        CostDatabase* database, const OptimizeOptions& options);

}  // namespace rewright::optimizer
