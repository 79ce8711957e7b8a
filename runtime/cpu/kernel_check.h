// Compares what the steps of a plan compute with the reference, at some elements of each result: a wrong kernel is found on the
// sizes it runs on, however large they are.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "graph/element_sampler.h"
#include "runtime/checked_kernels.h"
#include "runtime/cpu/plan.h"

namespace rewright::cpu {

// A step whose result is wrong.
struct KernelFault {
  std::vector<int> nodes;  // of the planned graph; none: a change of layout
  bool generated = false;  // by generated code, not a kernel
  bool replaceable = false;
  std::string message;
};

// Made for one run of a plan to be checked; called after each of its steps.
class KernelCheck {
 public:
  // `runner` has the plan; `elements` of each result, as far as `seconds` are enough for all of them together.
  KernelCheck(const Plan& plan, const CheckExtent& extent, std::uint64_t seed = 0);

  void after(std::size_t step, std::span<std::byte* const> addresses);

  // Has the step a result to compare? What only packs operands has none.
  bool has_result(std::size_t step) const { return !to_check_[step].empty(); }
  const std::vector<KernelFault>& faults() const { return faults_; }
  const CheckedKernels& counts() const { return counts_; }

 private:
  struct Place {
    std::int64_t from_plain(std::int64_t at) const;
    Layout layout;
    std::int64_t pictures = 1, channels = 1, pixels = 1, pixel_stride = 0;
  };

  Place place_of(const PlannedValue& value) const;
  std::int64_t bytes_of(const PlannedValue& value, const Place& place) const;
  const StoredElements* find(ValueId value);
  std::unique_ptr<StoredElements> stored(const PlannedValue& value) const;
  bool is_there(int storage) const;
  std::vector<std::int64_t> positions(std::int64_t count);
  bool check(const PlannedValue& value, const Step& step, double deadline);
  std::string message(const PlannedValue& value, const Step& step, std::int64_t at, const std::string& found,
                      const std::string& expected) const;
  std::string sizes_of(ValueId value) const;

  const Plan& plan_;
  const Graph& graph_;
  CheckExtent extent_;
  std::mt19937_64 random_;
  std::vector<int> written_;                        // by storage: the last step that writes it, or into it; -1: none
  std::vector<std::vector<std::size_t>> to_check_;  // by step: numbers of plan_.values
  std::vector<int> first_place_;                    // by value, of plan_.values; -1: none
  ElementSampler sampler_;
  // Of the step that is being checked.
  std::size_t now_ = 0;
  std::span<std::byte* const> addresses_;
  std::vector<std::unique_ptr<StoredElements>> found_;  // by value
  std::vector<ValueId> looked_up_;
  double spent_ = 0;
  std::vector<KernelFault> faults_;
  CheckedKernels counts_;
};

}  // namespace rewright::cpu
