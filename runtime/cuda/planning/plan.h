// A plan: the steps that execute a graph of known sizes on a device, and the buffers of its values. Planning needs no device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/source/generated_kernel.h"
#include "runtime/kernel_check.h"
#include "runtime/session.h"

namespace rewright::cpu {
class PreparedConstants;  // runtime/cpu/planning/prepared_constants.h
}

namespace rewright::cuda {

// Buffers have the alignment that libraries require and device allocations have.
inline constexpr std::size_t kBufferAlignment = 256;  // bytes

// Memory on the device.
struct Buffer {
  // kWorkspace: used within one step, in the workspace of its stream. kResident: a tensor that stays between runs.
  enum class Kind { kArena, kInput, kConstant, kWorkspace, kResident };
  Kind kind = Kind::kArena;
  std::size_t bytes = 0;
  int number = -1;             // kInput: of the graph's input; kResident: of the place
  Tensor constant;             // kConstant
  bool channels_last = false;  // kConstant: its layout
  std::size_t offset = 0;      // kArena, kWorkspace
};

// A node that the interpreter executes on the host. Its inputs are copied from the device, its results to it.
struct HostStep {
  std::shared_ptr<const Node> node;
  std::vector<TensorType> types;  // of the inputs, absent ones undefined
};

struct KernelStep {
  std::size_t kernel;              // in Plan::kernels
  std::vector<int> in_place = {};  // inputs whose memory the result may replace
};

struct LibraryStep {
  LibraryShape shape;
  // The offsets of inputs and output for each start of the operation; empty: one start with offsets 0.
  struct Start {
    std::vector<std::int64_t> inputs;
    std::int64_t output = 0;
  };
  std::vector<Start> starts;
  std::size_t workspace = 0;  // offset of the operation's workspace in the stream's, in bytes
};

struct Step;

// Several lists of steps for the same result. Of those that the libraries support, the fastest one runs, chosen by measurement.
struct EitherStep {
  struct Alternative {
    std::vector<Step> steps;
    bool last_resort = false;         // slow; tried only if no other works
    std::size_t workspace_bytes = 0;  // size of the workspace that holds its buffers
  };
  std::vector<Alternative> alternatives;
  std::string key;  // identifies the work: equal for equal alternatives
};

struct Step {
  std::string node, operators;
  std::variant<KernelStep, LibraryStep, EitherStep, HostStep> work;
  std::vector<int> inputs;  // buffers; -1: absent
  std::vector<int> outputs;
  double flops = 0, bytes = 0;
  bool layout = false;     // only converts the layout of a value
  int stream = 0;          // below Plan::streams
  std::vector<int> waits;  // earlier steps of other streams to wait for
  std::vector<int> nodes;  // of the planned graph, computed here; empty: a layout conversion
};

// A value of the graph and its buffer, which holds it from the step that writes it to the last one that reads it.
struct PlannedValue {
  ValueId value = kNoValue;
  int buffer = -1;
  bool channels_last = false;
};

// The places of inputs and outputs that stay on the device between runs, by number; -1 for those copied from and to the host.
// An output in the place of an input replaces it.
struct Places {
  std::vector<int> inputs, outputs;                   // by number; empty: all are copied
  std::vector<std::vector<std::size_t>> groups = {};  // resident outputs; each group is announced as a whole, in this order
};

struct Plan {
  std::vector<GeneratedKernel> kernels;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<int> outputs;  // buffer of each output of the graph
  std::vector<TensorType> output_types;
  std::vector<TensorType> input_types;
  std::size_t arena_bytes = 0;
  bool checks_positions = false;
  int streams = 1;
  std::vector<int> input_places, output_places;  // -1: none
  // Resident outputs that could not be computed in their places, and are copied there at the end.
  struct Move {
    int buffer, place;
  };
  std::vector<Move> moves;
  std::vector<std::size_t> announced_after;  // number of steps, by group
  std::vector<PlannedValue> values;
};

// All library steps, including those in alternatives, in plan order.
std::vector<const LibraryStep*> library_steps(const Plan& plan);

struct PlanOptions {
  bool channels_last = false;  // for convolutions, and expressions between them
  int most_streams = 4;
  Places places = {};
  InsteadOf instead = {};
  std::shared_ptr<cpu::PreparedConstants> folded = {};  // what depends on constants alone, shared by plans; may be null
};

// Lets steps compute outputs in their places, if no other step still needs the tensors there.
void compute_in_places(Plan& plan, const Places& places);

// Assigns streams to a plan's steps and offsets to its buffers. Independent steps run concurrently, in at most `most_streams`
// streams; in one stream if the host executes a node.
void order_steps(Plan& plan, int most_streams);

// Plans a graph of known sizes. Throws Error(kUnsupported) at a node that cannot be executed.
Plan make_plan(const Graph& graph, const PlanOptions& options = {});

}  // namespace rewright::cuda
