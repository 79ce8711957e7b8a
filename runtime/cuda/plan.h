// A plan: the steps that execute a graph of known sizes on a device, and where every value lies. Made without a device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/generated_kernel.h"
#include "runtime/session.h"

namespace rewright::cuda {

// Bytes on the device.
struct Buffer {
  enum class Kind { kArena, kInput, kConstant };
  Kind kind = Kind::kArena;
  std::size_t bytes = 0;
  int number = -1;             // kInput: of the graph's
  Tensor constant;             // kConstant
  bool channels_last = false;  // kConstant: how it is to lie
  std::size_t offset = 0;      // kArena
};

// A node that the interpreter executes on the host: what it reads comes back from the device, and its results go there.
struct HostStep {
  std::shared_ptr<const Node> node;
  std::vector<TensorType> types;  // of the inputs, absent ones undefined
};

struct KernelStep {
  std::size_t kernel;  // in Plan::kernels
};

struct LibraryStep {
  std::variant<ProductShape, ConvolutionShape> shape;
  // A library that has no way to compute it leaves it to this kernel of the whole group.
  std::size_t kernel;
  std::vector<int> kernel_inputs;
  // What stands behind it, as a kernel on the output in place: its operands are the output and the inputs from the third on.
  std::optional<std::size_t> epilogue;
  // Where the inputs and the output begin, for each time the operation is started; none: once, at their beginnings.
  struct Start {
    std::vector<std::int64_t> inputs;
    std::int64_t output = 0;
  };
  std::vector<Start> starts;
};

struct Step {
  std::string node, operators;
  std::variant<KernelStep, LibraryStep, HostStep> work;
  std::vector<int> inputs;  // buffers; -1: absent
  std::vector<int> outputs;
  double flops = 0, bytes = 0;
  bool layout = false;     // only puts elements in another order
  int stream = 0;          // which of Plan::streams it may run in
  std::vector<int> waits;  // earlier steps of other streams that it has to wait for
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
};

struct PlanOptions {
  bool channels_last = false;  // convolutions and what stands between them
  int most_streams = 4;
};

// Plans a graph whose sizes are all known. Throws Error(kUnsupported) at a node that cannot be executed.
Plan make_plan(const Graph& graph, const PlanOptions& options = {});

}  // namespace rewright::cuda
