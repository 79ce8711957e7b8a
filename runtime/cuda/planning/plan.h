// A plan: the steps that execute a graph of known sizes on a device, and where every value lies. Made without a device.
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

namespace rewright::cuda {

// Where a buffer begins: what the libraries ask for, and what memory of the device has by itself.
inline constexpr std::size_t kBufferAlignment = 256;  // bytes

// Bytes on the device.
struct Buffer {
  // kWorkspace: within one step, in the workspace of the stream that it runs in. kResident: where a tensor stays.
  enum class Kind { kArena, kInput, kConstant, kWorkspace, kResident };
  Kind kind = Kind::kArena;
  std::size_t bytes = 0;
  int number = -1;             // kInput: of the graph's; kResident: of the places
  Tensor constant;             // kConstant
  bool channels_last = false;  // kConstant: how it is to lie
  std::size_t offset = 0;      // kArena, kWorkspace
};

// A node that the interpreter executes on the host: what it reads comes back from the device, and its results go there.
struct HostStep {
  std::shared_ptr<const Node> node;
  std::vector<TensorType> types;  // of the inputs, absent ones undefined
};

struct KernelStep {
  std::size_t kernel;              // in Plan::kernels
  std::vector<int> in_place = {};  // inputs in whose memory the result may be computed
};

struct LibraryStep {
  LibraryShape shape;
  // Where the inputs and the output begin, for each time the operation is started; none: once, at their beginnings.
  struct Start {
    std::vector<std::int64_t> inputs;
    std::int64_t output = 0;
  };
  std::vector<Start> starts;
  std::size_t workspace = 0;  // where the operation's begins in the stream's
};

struct Step;

// Several lists of steps that compute the same result. The fastest one runs, by measurement, of those that the libraries can
// do.
struct EitherStep {
  struct Alternative {
    std::vector<Step> steps;
    bool last_resort = false;         // too slow to be tried where another one works
    std::size_t workspace_bytes = 0;  // the size of the workspace that its buffers lie in
  };
  std::vector<Alternative> alternatives;
  std::string key;  // what the alternatives do: equal for equal ones
};

struct Step {
  std::string node, operators;
  std::variant<KernelStep, LibraryStep, EitherStep, HostStep> work;
  std::vector<int> inputs;  // buffers; -1: absent
  std::vector<int> outputs;
  double flops = 0, bytes = 0;
  bool layout = false;     // only puts elements in another order
  int stream = 0;          // which of Plan::streams it may run in
  std::vector<int> waits;  // earlier steps of other streams that it has to wait for
  std::vector<int> nodes;  // what it computes, of the planned graph; none: a change of layout
};

// A value of the graph, and where it lies from the step that writes the buffer until the last one that reads it.
struct PlannedValue {
  ValueId value = kNoValue;
  int buffer = -1;
  bool channels_last = false;
};

// Inputs and outputs that stay on the device from run to run: the number of their place, or -1 for what comes from the host and
// goes there. An output in the place of an input takes it over.
struct Places {
  std::vector<int> inputs, outputs;                   // by number; none: all come and go
  std::vector<std::vector<std::size_t>> groups = {};  // outputs that stay, and are announced together, in this order
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
  // Outputs that could not be computed in their places, and are copied there at the end.
  struct Move {
    int buffer, place;
  };
  std::vector<Move> moves;
  std::vector<std::size_t> announced_after;  // by group: so many steps
  std::vector<PlannedValue> values;
};

// What libraries may be asked for, in the order of the steps.
std::vector<const LibraryStep*> library_steps(const Plan& plan);

struct PlanOptions {
  bool channels_last = false;  // convolutions and what stands between them
  int most_streams = 4;
  Places places = {};
  InsteadOf instead = {};
};

// Lets steps compute outputs where they are to stay, as far as no other step needs what is there by then.
void compute_in_places(Plan& plan, const Places& places);

// Gives the steps of a plan their streams, and its buffers their places. Steps that need nothing of each other run side by
// side, in `most_streams` at most, unless the host has a part in it.
void order_steps(Plan& plan, int most_streams);

// Plans a graph whose sizes are all known. Throws Error(kUnsupported) at a node that cannot be executed.
Plan make_plan(const Graph& graph, const PlanOptions& options = {});

}  // namespace rewright::cuda
