// Checks kernels on a device: copies the compared values to the host.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cuda/running/execution.h"
#include "runtime/kernel_check.h"

namespace rewright::cuda {

// For one observed run of an execution; called after each step.
class KernelCheck {
 public:
  // `graph` is the planned one. Both must outlive this object.
  KernelCheck(Execution& execution, const Graph& graph, const CheckExtent& extent, std::uint64_t seed);

  void after(std::size_t step);

  const std::vector<KernelFault>& faults() const { return comparison_.faults(); }
  const CheckedKernels& counts() const { return comparison_.counts(); }

 private:
  std::unique_ptr<StoredElements> load(ValueId value);
  std::unique_ptr<StoredElements> stored(const PlannedValue& value);
  bool is_there(int buffer) const;

  Execution& execution_;
  const Graph& graph_;
  std::vector<int> writer_;                                // by buffer: the last step that writes it; -1: none
  std::vector<std::vector<const PlannedValue*>> results_;  // by step
  std::vector<std::vector<const PlannedValue*>> places_;   // by value
  std::size_t now_ = 0;                                    // the step being checked
  KernelComparison comparison_;
};

}  // namespace rewright::cuda
