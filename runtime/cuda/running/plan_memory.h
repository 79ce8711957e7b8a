// The memory of a plan on a device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/cuda/planning/plan.h"
#include "runtime/cuda/running/allocation.h"

namespace rewright::cuda {

// Where a plan's buffers lie, with pinned memory through which its inputs and outputs are copied. Inputs and outputs that stay
// on the device have no part in the copies.
class PlanMemory {
 public:
  // `residents`: the memory of what stays on the device, by place. The plan has to stay.
  PlanMemory(std::shared_ptr<Driver> driver, const Plan& plan, ConstantStore& constants, std::vector<std::byte*> residents);

  // Of a buffer, when it is used in this stream; null for -1.
  std::byte* address(int buffer, std::size_t stream = 0) const;
  std::byte* input(std::size_t number) const { return inputs_->data() + input_offsets_[number]; }
  std::byte* pinned_input(std::size_t number) const { return pinned_inputs_->data() + input_offsets_[number]; }
  std::byte* pinned_output(std::size_t number) const { return pinned_outputs_->data() + output_offsets_[number]; }
  std::byte* flag() const { return flag_->data(); }  // that kernels set which read a position outside of its axis

  // The memory that steps of a stream share.
  std::byte* workspace(std::size_t stream) const { return workspaces_[stream].memory->data(); }
  // Makes the workspace of a stream that large, which may move it.
  void reserve_workspace(std::size_t bytes, std::size_t stream);
  // Begins again with no workspaces, of so many streams.
  void reset_workspaces(std::size_t streams);

  // From the host to pinned memory, and back.
  void take_inputs(std::span<const Tensor> inputs);
  std::vector<Tensor> give_outputs() const;

  // These start copies between the device and pinned memory.
  void start_inputs();
  void start_outputs();
  void clear_flag();
  void read_flag();
  // Starts copies of outputs to the places where they stay, of those that were not computed there.
  void start_moves();
  // When the device is done, after read_flag(): throws Error(kBadInput) if a kernel read a position outside of its axis.
  void check_positions() const;

 private:
  struct Workspace {
    std::unique_ptr<DeviceMemory> memory;
    std::size_t bytes = 0;
  };
  std::byte* fixed_address(const Buffer& buffer, ConstantStore& constants);

  const std::shared_ptr<Driver> driver_;
  const Plan& plan_;
  const std::vector<std::byte*> residents_;  // by place
  std::vector<std::size_t> input_offsets_, output_offsets_;
  std::size_t input_bytes_ = 0, output_bytes_ = 0;
  std::unique_ptr<DeviceMemory> arena_, inputs_, flag_;  // no flag: no kernel sets it
  std::unique_ptr<DeviceMemory> pinned_inputs_, pinned_outputs_, pinned_flag_;
  std::vector<std::shared_ptr<DeviceMemory>> constants_;
  std::vector<std::byte*> addresses_;  // by buffer; null in workspaces
  std::vector<Workspace> workspaces_;  // by stream
};

}  // namespace rewright::cuda
