// A device as seen by the optimizer: it times operators and graphs, and runs them. Implemented by the backends in runtime/.
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

// The minimum work of one execution of an operator.
struct OperatorSize {
  double operations = 0;  // of arithmetic
  double bytes = 0;       // read and written
  double elements = 0;    // of its outputs
  friend bool operator==(const OperatorSize&, const OperatorSize&) = default;
};

// A small graph to be timed: one operator, or an operator with others that a backend usually fuses into it. The graph's inputs
// are its varying operands; weights are constants, so that a backend may prepack them as in a model. All sizes are known.
// Samples with equal signatures take equal time.
struct NodeSample {
  Graph graph;
  std::string signature = {};
  OperatorSize size = {};
};

struct TimingOptions {
  double min_seconds = 1;   // run until this much time has passed and min_rounds are done ...
  double max_seconds = 10;  // ... but begin no round that would end after this, except the first
  int min_rounds = 7;
  int warmup = 2;              // rounds that are not counted
  std::uint64_t seed = 0;      // of the random inputs
  std::vector<Tensor> inputs;  // for every graph; empty: random
  std::stop_token cancel;
  std::function<std::chrono::steady_clock::time_point()> now;  // empty: the real clock
  bool check_kernels = false;  // replace wrong kernels, if the device can: see Device::run_checked
};

// Graphs that are timed alternately.
struct GraphsInTurn {
  std::vector<Graph> graphs;
  TimingOptions options;
};

// A graph's results, and the device's kernels that computed wrong elements.
struct CheckedRun {
  std::vector<Tensor> outputs;
  std::vector<std::string> faults;                   // a line each: library, version, sizes
  std::size_t steps = 0, checked = 0, elements = 0;  // steps executed; steps compared with the reference; elements compared
};

// Rates for a lower bound of times that were not measured.
struct Roofline {
  double operations_per_second = 20e9;
  double bytes_per_second = 8e9;
  double call_seconds = 1e-6;  // the cost of an operator with almost no work
};

// If an operator only moves elements (split, slice, transpose), which readers read its operand directly, at other strides, so
// that moving takes no time? None; products, and elementwise operators that are its only reader; or those, convolutions and
// pools.
enum class StridedReads { kNone, kProducts, kWindows };

class Device {
 public:
  virtual ~Device() = default;

  // As on the command line: "cpu", "onnxruntime".
  virtual std::string name() const = 0;
  // Device, library versions and number of threads on one line. Devices with equal identities share costs in the database, so
  // it must change whenever kernels do.
  virtual std::string identity() const = 0;

  // The deadline for all calls below: they end then, with Error(kCancelled) if they have no result. Single kernels and the
  // preparation of a graph are not interrupted. Default: none.
  virtual void end_at(std::chrono::steady_clock::time_point) {}

  // Seconds for one execution of each sample, without the cost of calling the backend; nullopt if it cannot be timed here.
  // After the deadline (end_at), only the first samples have times. Throws Error(kMissing) only if the device itself is gone.
  virtual std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) = 0;

  // Times graphs alternately, every other round in reverse order, on the same random inputs. Returns a vector of seconds for
  // each graph; times of one round have the same index. Throws Error if a graph cannot run.
  virtual std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) = 0;

  // As time_graphs for each of the sets, with different memory addresses: in a new process if possible, else with weights
  // allocated anew. Memory placement changes a graph's speed by some percent for the lifetime of a process, so rounds of one
  // process agree with each other, but not with those of another process.
  virtual std::vector<std::vector<std::vector<double>>> time_afresh(std::span<const GraphsInTurn> sets) {
    std::vector<std::vector<std::vector<double>>> times;
    for (const GraphsInTurn& set : sets) times.push_back(time_graphs(set.graphs, set.options));
    return times;
  }

  // Writes these graphs for the processes of time_afresh, so that what takes time for large weights is done.
  virtual void write_ahead(std::span<const Graph>) {}

  // See KeptWeights.
  virtual void keep_weights(bool) {}

  // Executes a graph: inputs in the order of graph.inputs(), outputs in that of graph.outputs(). Throws Error.
  virtual std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) = 0;

  // Executes a graph, and compares some elements of each step's result with the reference within this many seconds. Wrong steps
  // are computed by other kernels, already for these outputs. A device that cannot check its steps compares none.
  virtual CheckedRun run_checked(const Graph& graph, std::span<const Tensor> inputs, double /*seconds*/) {
    return {run(graph, inputs), {}};
  }

  // Can this node be executed here, however slowly?
  virtual bool supports(const Graph& graph, const Node& node) const = 0;

  virtual Roofline roofline() const { return {}; }

  // In a graph with more weights than this, operators find their weights outside of the caches, which timing them alone does
  // not show.
  virtual double cache_bytes() const { return std::numeric_limits<double>::infinity(); }

  virtual StridedReads strided_reads() const { return StridedReads::kNone; }

  // False if times are looked up in earlier measurements: requests take no time, and whole graphs cannot be timed.
  virtual bool measures() const { return true; }
};

// While it exists, a device may prepare weights once for all graphs of its calls: a model at several sizes, and what it was
// rewritten to. Constants of all of them must live as long.
class KeptWeights {
 public:
  explicit KeptWeights(Device& device) : device_(device) { device_.keep_weights(true); }
  ~KeptWeights() { device_.keep_weights(false); }
  KeptWeights(const KeptWeights&) = delete;
  KeptWeights& operator=(const KeptWeights&) = delete;

 private:
  Device& device_;
};

// Evaluates constant subgraphs. `graph` has no inputs; returns one tensor for each output. With `in_double`, real intermediate
// results are double and rounded once, at the outputs. Otherwise every operator is computed as by the reference interpreter: in
// double, with results rounded to their types; elements that are only moved keep their bits. Deterministic: the same graph
// gives the same bytes.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual std::vector<Tensor> evaluate(const Graph& graph, bool in_double) = 0;
};

}  // namespace rewright::optimizer
