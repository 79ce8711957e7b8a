// Executing graphs: a backend prepares a session for a graph, a session runs it on tensors.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "expressions/tensor.h"
#include "graph/graph.h"

namespace rewright::optimizer {
struct Roofline;  // optimizer/devices/device.h
}

namespace rewright::runtime {

// Instruction sets that kernels are compiled for; a session uses the best one the processor has, up to a limit.
enum class Isa { kBaseline, kAvx2, kAvx512 };

// The number of threads asked for, or if that is not positive, one for each processor that this process may run on.
int usable_threads(int asked);

// How a kernel is chosen among several for the same node (a convolution: directly, or by Winograd's or Fourier's transforms).
// They round differently.
enum class KernelChoice {
  kEstimated,  // by an estimate: the same on all machines, and so are the results' bits
  kCached,     // by times in the cost database, else by the estimate: the same bits as long as the database is the same
  kMeasured,   // the same, but missing times are measured while a plan is made, and kept there
};

// The output replaces the input, as weights after a training step replace those before it.
struct Replacement {
  std::size_t input, output;
};

// How much of the kernels' results is compared with the reference.
struct CheckExtent {
  std::size_t elements = 16;  // of each step's result ...
  double seconds = 1;         // ... of which fewer are compared where all of them would take longer
};

// What sessions of graphs with the same constants may share: packed weights, memory for intermediate values.
class SharedResources {
 public:
  virtual ~SharedResources() = default;
};

struct SessionOptions {
  int threads = 1;                // see usable_threads
  Isa max_isa = Isa::kAvx512;     // libraries that choose by themselves take the limit of the process's first session
  bool profile = false;           // measure every step
  bool precision_double = false;  // compute float tensors in double inside (folding of constants)
  // Convolutions may be computed by transforms (Winograd's method, Fourier's), with their larger rounding errors.
  bool transformed_convolutions = true;
  KernelChoice kernels = KernelChoice::kEstimated;
  std::string cost_database = {};  // the file of measured times; empty: CostDatabase::default_file()
  // A file to keep the prepared plan in, so that the next process starts faster: packed weights and folded constants. It serves
  // the same model on the same kind of machine, and is made anew where it does not fit. Empty: none.
  std::string plan_cache = {};
  // In the first run with each set of sizes, compute some elements of each step's result by the reference as well. Where a
  // kernel differs by more than rounding, code generated from the operators' definitions takes its place, in that run already,
  // and Session::warnings says so: library, version, sizes. The CPU's and the CUDA backend do it, and runtime/checked_kernels.h
  // says how much was compared; others ignore it.
  std::optional<CheckExtent> check_kernels = {};
  // Outputs that Session::advance may compute in the memory of inputs of the same types and sizes.
  std::vector<Replacement> replacements = {};
  // Of the same backend's share_resources(); null: the session has its own. Whoever shares them keeps the constants alive.
  std::shared_ptr<SharedResources> resources = {};
  // Called between the nodes that are not compiled, and in their loops; throws to end a run.
  Checkpoint checkpoint = {};
};

// The work of one step of a session, summed over the runs so far.
struct StepProfile {
  std::string node;       // name of the node, or of the value it computes; of the last one where several were fused
  std::string operators;  // "Conv+Relu"
  double seconds = 0;
  int runs = 0;
  double flops = 0;  // of one run, by the operators' denotations
  double bytes = 0;  // of one run: inputs, outputs and packed constants of the step, once each
};

class Session {
 public:
  virtual ~Session() = default;
  // Inputs in the order of the graph's inputs. Symbolic sizes are bound by the tensors' sizes, which must agree; what was
  // prepared for one set of sizes is kept. May be called by several threads at once; results depend on the number of threads
  // that the session was made for, and on nothing else. Throws Error(kBadInput) if inputs do not fit, Error(kUnsupported) at a
  // node that cannot be executed.
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs) = 0;
  // The same with inputs that the caller no longer needs. Those that outputs replace must own their memory, and nothing else
  // may hold them: the output may be computed there.
  virtual std::vector<Tensor> advance(std::vector<Tensor> inputs) { return run(inputs); }
  // The same for values of all kinds. Sessions that only know tensors throw Error(kBadInput) for others.
  virtual std::vector<Datum> execute(std::span<const Datum> inputs);
  virtual std::vector<StepProfile> profile() const { return {}; }
  // Messages for the user, such as why a plan cache could not be used.
  virtual std::vector<std::string> warnings() const { return {}; }
  virtual std::size_t peak_bytes() const { return 0; }  // of intermediate values, of the last run
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // Does it execute opaque nodes, too? Others only get graphs without them: see runtime/mixed.h.
  virtual bool executes_opaque_nodes() const { return false; }
  // For the sessions of `graphs` graphs that are parts of one model; null: this backend's sessions share nothing.
  virtual std::shared_ptr<SharedResources> share_resources(int /*graphs*/) const { return nullptr; }
  // Where all sizes are known, all work that does not depend on inputs is done here: constants, packing, planning.
  virtual std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options = {}) const = 0;
};

// The part of a step's time that its operations at their highest rate, or its bytes at the memory's, would take: the larger of
// the two. Above 1 where the bytes come from caches. 0 if it was not measured.
double roofline_share(const StepProfile& step, const optimizer::Roofline& roofline);

// A table of steps by time: operator, node, time, GFLOP/s, GB/s, and the share of the roofline's time.
std::string profile_table(std::span<const StepProfile> steps, const optimizer::Roofline& roofline);

}  // namespace rewright::runtime
