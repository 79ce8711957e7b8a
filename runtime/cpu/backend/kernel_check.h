// The check of kernels on the CPU: where the values of a plan lie while it runs.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cpu/planning/plan.h"
#include "runtime/kernel_check.h"

namespace rewright::cpu {

// Made for one run of a plan to be checked; called after each of its steps.
class KernelCheck {
 public:
  // The plan has to stay.
  KernelCheck(const Plan& plan, const CheckExtent& extent, std::uint64_t seed = 0);

  void after(std::size_t step, std::span<std::byte* const> addresses);

  // Has the step a result to compare? What only packs operands has none.
  bool has_result(std::size_t step) const { return !to_check_[step].empty(); }
  const std::vector<KernelFault>& faults() const { return comparison_.faults(); }
  const CheckedKernels& counts() const { return comparison_.counts(); }

 private:
  std::unique_ptr<StoredElements> stored(const PlannedValue& value) const;
  bool is_there(int storage) const;

  const Plan& plan_;
  const Graph& graph_;
  std::vector<int> written_;                        // by storage: the last step that writes it, or into it; -1: none
  std::vector<std::vector<std::size_t>> to_check_;  // by step: numbers of plan_.values
  std::vector<int> first_place_;                    // by value, of plan_.values; -1: none
  // Of the step that is being checked.
  std::size_t now_ = 0;
  std::span<std::byte* const> addresses_;
  KernelComparison comparison_;
};

}  // namespace rewright::cpu
