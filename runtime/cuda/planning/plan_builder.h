// A plan while it is made: its buffers and kernels. Its steps are made in StepLists.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "runtime/cuda/planning/graph_facts.h"
#include "runtime/cuda/planning/layout.h"
#include "runtime/cuda/planning/plan.h"

namespace rewright::cuda {

// A value in a layout.
struct Placed {
  ValueId value;
  Layout layout;
  friend auto operator<=>(const Placed&, const Placed&) = default;
};

class PlanBuilder {
 public:
  explicit PlanBuilder(const GraphFacts& graph_facts) : facts(graph_facts) {}

  const GraphFacts& facts;
  Plan plan;
  std::size_t workspace = 0;  // bytes in the stream's workspace that buffers of the present step take

  // These return the number of the buffer.
  int add_buffer(Buffer buffer);
  int add_constant(const Tensor& tensor, Layout layout);
  int add_workspace(std::size_t bytes);

  const Buffer& buffer(int number) const { return plan.buffers[static_cast<std::size_t>(number)]; }
  // Throws Error(kUnsupported) for a type that a GPU has no tensors of.
  std::size_t byte_count(ValueId value) const;

  // The number of the kernel. Equal kernels are one.
  std::size_t add_kernel(GeneratedKernel kernel);
  // A kernel that computes an expression over operands as they are placed; nullopt if none can be generated.
  std::optional<GeneratedKernel> generate(const Element& element, const Indices& position, Placed result,
                                          const std::vector<Placed>& operands) const;
};

}  // namespace rewright::cuda
