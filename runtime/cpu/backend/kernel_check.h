// Checks kernels on the CPU: finds the values of a plan while it runs.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cpu/planning/plan.h"
#include "runtime/kernel_check.h"

namespace rewright::cpu {

// For one checked run of a plan; called after each of its steps.
class KernelCheck {
 public:
  // The plan must outlive this object.
  KernelCheck(const Plan& plan, const CheckExtent& extent, std::uint64_t seed = 0);

  void after(std::size_t step, std::span<std::byte* const> addresses);

  // Does the step have a result to compare? Steps that only pack operands do not.
  bool has_result(std::size_t step) const { return !to_check_[step].empty(); }
  const std::vector<KernelFault>& faults() const { return comparison_.faults(); }
  const CheckedKernels& counts() const { return comparison_.counts(); }

 private:
  std::unique_ptr<StoredElements> stored(const PlannedValue& value) const;
  bool is_there(int storage) const;

  const Plan& plan_;
  const Graph& graph_;
  std::vector<int> written_;                        // by storage: the last step that writes it or a part of it; -1: none
  std::vector<std::vector<std::size_t>> to_check_;  // by step: numbers of plan_.values
  std::vector<int> first_place_;                    // by value, of plan_.values; -1: none
  // The step being checked.
  std::size_t now_ = 0;
  std::span<std::byte* const> addresses_;
  KernelComparison comparison_;
};

}  // namespace rewright::cpu
