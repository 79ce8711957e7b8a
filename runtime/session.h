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

// The requested number of threads; if that is not positive, one for each processor this process may run on.
int usable_threads(int asked);

// How to choose among several kernels for a node (for a convolution: direct, Winograd's or Fourier's transforms). They round
// differently.
enum class KernelChoice {
  kEstimated,  // by an estimate: the same on all machines, and so are the results' bits
  kCached,     // by times in the cost database, else by the estimate: the same bits for the same database
  kMeasured,   // as kCached, but missing times are measured during planning and stored
  kSearched,   // as kMeasured, and loops of generated code are searched and stored
};

// The output replaces the input, as training steps replace weights.
struct Replacement {
  std::size_t input, output;
};

// How many of the kernels' results are compared with the reference.
struct CheckExtent {
  std::size_t elements = 16;  // of each step's result ...
  double seconds = 1;         // ... fewer if they would take longer in total
};

// Resources that sessions with the same constants may share: packed weights, memory for intermediate values.
class SharedResources {
 public:
  virtual ~SharedResources() = default;
};

struct SessionOptions {
  int threads = 1;                // see usable_threads
  Isa max_isa = Isa::kAvx512;     // libraries with a choice of their own use the limit of the process's first session
  bool profile = false;           // time every step
  bool precision_double = false;  // compute float tensors in double internally (for constant folding)
  // Allow convolutions by transforms (Winograd, Fourier), which have larger rounding errors.
  bool transformed_convolutions = true;
  KernelChoice kernels = KernelChoice::kEstimated;
  std::string cost_database = {};  // the file of measured times; empty: CostDatabase::default_file()
  // A file that keeps the prepared plan (packed weights, folded constants), so that the next process starts faster. Valid for
  // the same model on the same kind of machine; replaced if it does not fit. Empty: none.
  std::string plan_cache = {};
  // In the first run with each set of sizes, some elements of each step's result are also computed by the reference. If a
  // kernel differs by more than rounding, code generated from the operators' definitions replaces it, already in that run, and
  // Session::warnings reports library, version and sizes. Supported by the CPU's and the CUDA backend;
  // runtime/checked_kernels.h tells how much was compared. Other backends ignore it.
  std::optional<CheckExtent> check_kernels = {};
  // Outputs that Session::advance may compute in the memory of inputs of the same types and sizes.
  std::vector<Replacement> replacements = {};
  // From share_resources() of the same backend; null: the session has its own. The user must keep the constants alive.
  std::shared_ptr<SharedResources> resources = {};
  // Called between interpreted nodes, and in their loops; throws to end a run.
  Checkpoint checkpoint = {};
};

// The work of one step of a session, summed over all runs.
struct StepProfile {
  std::string node;       // name of the node or of its value; for fused nodes, of the last
  std::string operators;  // "Conv+Relu"
  double seconds = 0;
  int runs = 0;
  double flops = 0;        // of one run, by denotations
  double bytes = 0;        // of one run: inputs, outputs and packed constants, each once
  std::string loops = {};  // of generated code, as text (runtime/cpu/tile/loop_program.h); empty: it is a kernel, or not known
};

class Session {
 public:
  virtual ~Session() = default;
  // `inputs` are in the order of the graph's. Their sizes bind symbolic sizes and must agree; what is prepared for a set of
  // sizes is kept. May be called by several threads at once. Results depend on the session's number of threads, and on nothing
  // else. Throws Error(kBadInput) if inputs do not fit, Error(kUnsupported) at a node that cannot be executed.
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs) = 0;
  // Runs with inputs that the caller no longer needs. Inputs that outputs replace must own their memory and share it with
  // nothing else, since the output may be computed there.
  virtual std::vector<Tensor> advance(std::vector<Tensor> inputs) { return run(inputs); }
  // Runs on values of all kinds. Sessions for tensors only throw Error(kBadInput) for others.
  virtual std::vector<Datum> execute(std::span<const Datum> inputs);
  virtual std::vector<StepProfile> profile() const { return {}; }
  // Messages for the user, for example why a plan cache was not used.
  virtual std::vector<std::string> warnings() const { return {}; }
  virtual std::size_t peak_bytes() const { return 0; }  // of intermediate values in the last run
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // Does it execute opaque nodes? Other backends only get graphs without them: see runtime/mixed.h.
  virtual bool executes_opaque_nodes() const { return false; }
  // Shared by sessions of `graphs` graphs that are parts of one model; null: sessions of this backend share nothing.
  virtual std::shared_ptr<SharedResources> share_resources(int /*graphs*/) const { return nullptr; }
  // If all sizes are known, everything that does not depend on inputs is done here: constants, packing, planning.
  virtual std::unique_ptr<Session> prepare(const Graph& graph, const SessionOptions& options = {}) const = 0;
};

// The share of a step's time that its operations at the peak rate or its bytes at the memory's bandwidth would take, whichever
// is larger. Above 1 if bytes come from caches; 0 if not measured.
double roofline_share(const StepProfile& step, const optimizer::Roofline& roofline);
double roofline_share(std::span<const StepProfile> steps, const optimizer::Roofline& roofline);  // of all steps together

// A table of steps sorted by time: operator, node, time, GFLOP/s, GB/s, and the share of the roofline's time, with all in the
// last line.
std::string profile_table(std::span<const StepProfile> steps, const optimizer::Roofline& roofline);

}  // namespace rewright::runtime
