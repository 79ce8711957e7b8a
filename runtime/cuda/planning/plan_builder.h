// A plan under construction: its buffers and kernels. StepList adds the steps.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "runtime/cuda/planning/graph_facts.h"
#include "runtime/cuda/planning/layout.h"
#include "runtime/cuda/planning/plan.h"

namespace rewright::cuda {

// A value in one layout.
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
  std::size_t workspace = 0;  // bytes of the stream's workspace used by the current step

  // These return the number of the buffer.
  int add_buffer(Buffer buffer);
  int add_constant(const Tensor& tensor, Layout layout);
  int add_workspace(std::size_t bytes);

  const Buffer& buffer(int number) const { return plan.buffers[static_cast<std::size_t>(number)]; }
  // Throws Error(kUnsupported) for types without GPU tensors.
  std::size_t byte_count(ValueId value) const;

  // Returns the kernel's number. Equal kernels are merged.
  std::size_t add_kernel(GeneratedKernel kernel);
  // Generates a kernel that computes an expression over operands in their layouts; nullopt if that is impossible.
  std::optional<GeneratedKernel> generate(const Element& element, const Indices& position, Placed result,
                                          const std::vector<Placed>& operands) const;
};

}  // namespace rewright::cuda
