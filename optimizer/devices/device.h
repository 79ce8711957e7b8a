// A device as the optimizer sees it: it times single operators and whole graphs, and runs
// them. Implemented by the backends in runtime/.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::optimizer {

// The least work of one execution of an operator.
struct OperatorSize {
  double operations = 0;  // of arithmetic
  double bytes = 0;       // read and written
  double elements = 0;    // of its outputs
  friend bool operator==(const OperatorSize&, const OperatorSize&) = default;
};

// A small graph to be timed alone: one operator, or an operator with what a backend usually fuses into it. Inputs of the
// graph are its varying operands; weights are constant leaves, so that a backend may prepack them as it would in a model.
// All sizes are known. Samples of equal signatures take equally long.
struct NodeSample {
  Graph graph;
  std::string signature = {};
  OperatorSize size = {};
};

struct TimingOptions {
  double min_seconds = 1;   // keep on until this much time has passed and min_rounds are done ...
  double max_seconds = 10;  // ... but no round is begun that would end after this, except for the first
  int min_rounds = 7;
  int warmup = 2;              // rounds that are not counted
  std::uint64_t seed = 0;      // of the random inputs
  std::vector<Tensor> inputs;  // of every graph; none: random ones are drawn
  std::stop_token cancel;
  std::function<std::chrono::steady_clock::time_point()> now;  // none: the clock
  bool check_kernels = false;  // where the device can: wrong kernels are replaced, see Device::run_checked
};

// The results of a graph, and the device's kernels that computed wrong elements.
struct CheckedRun {
  std::vector<Tensor> outputs;
  std::vector<std::string> faults;                   // a line each: library, version, sizes
  std::size_t steps = 0, checked = 0, elements = 0;  // that were executed; compared with the reference; elements compared
};

// Rates for a lower bound of an operator's time where nothing was measured.
struct Roofline {
  double operations_per_second = 20e9;
  double bytes_per_second = 8e9;
  double call_seconds = 1e-6;  // what an operator costs that does next to nothing
};

// The readers that take the result of an operator that only moves elements (a split, a slice, a transpose) from its operand, at
// other strides, so that moving takes no time: none; products, and elementwise operators that alone read it; or those,
// convolutions and pools.
enum class StridedReads { kNone, kProducts, kWindows };

class Device {
 public:
  virtual ~Device() = default;

  // As on the command line: "cpu", "onnxruntime".
  virtual std::string name() const = 0;
  // Device, library versions and number of threads on one line: costs measured under equal identities may be shared. It is a
  // key of the cost database, so it must change whenever kernels do.
  virtual std::string identity() const = 0;

  // Until when it may work: what is called below ends then, with Error(kCancelled) where it has nothing to give. Single kernels
  // and the preparation of a graph are not interrupted. For ever, unless it is said.
  virtual void end_at(std::chrono::steady_clock::time_point) {}

  // Seconds for one execution of each sample, without the cost of the call into the backend; nullopt for one that cannot be
  // timed here. Of the first ones alone, where the time ends before (end_at). Throws Error(kMissing) only if the device itself
  // is gone.
  virtual std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) = 0;

  // Whole graphs in turn, every other round in reverse order, on the same random inputs: a vector of seconds for each graph,
  // all equally long; the times of one round stand at the same position. Throws Error if a graph cannot run.
  virtual std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) = 0;

  // Times graphs as time_graphs does, with nothing in the same place in memory: in a new process where there can be one, else
  // with weights allocated anew. Where memory lies makes a graph faster or slower by some percent for as long
  // as its process lives, so that rounds of one process agree with one another, and not with those of the next.
  virtual std::vector<std::vector<double>> time_afresh(std::span<const Graph> graphs, const TimingOptions& options) {
    return time_graphs(graphs, options);
  }

  // Executes a graph: inputs in the order of graph.inputs(), outputs in that of graph.outputs(). Throws Error.
  virtual std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) = 0;

  // Executes a graph, and compares some elements of each step's results with the reference, within so many seconds. Steps that
  // differ are computed in another way, for these outputs already. A device that cannot look at its steps compares none.
  virtual CheckedRun run_checked(const Graph& graph, std::span<const Tensor> inputs, double /*seconds*/) {
    return {run(graph, inputs), {}};
  }

  // Can this node of the graph be executed here at all (be it slowly)?
  virtual bool supports(const Graph& graph, const Node& node) const = 0;

  virtual Roofline roofline() const { return {}; }

  // Where a graph has more weights than this, each of its operators finds its own outside of the caches, which timing it alone
  // does not show.
  virtual double cache_bytes() const { return std::numeric_limits<double>::infinity(); }

  virtual StridedReads strided_reads() const { return StridedReads::kNone; }

  // False: times are looked up in what was measured before, so that asking for many takes no time, and whole graphs cannot be
  // timed.
  virtual bool measures() const { return true; }
};

// Computes constant subgraphs. `graph` has no inputs; one tensor for each of its outputs. With `in_double`, real intermediate
// results are kept in double and rounded once, at the outputs. Without it every operator is computed by itself, as by the
// reference interpreter: in double, its results rounded to their types; elements that are only moved keep their bits. The same
// graph gives the same bytes on every call.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual std::vector<Tensor> evaluate(const Graph& graph, bool in_double) = 0;
};

}  // namespace rewright::optimizer
