// A plan's memory on a device.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/cuda/planning/plan.h"
#include "runtime/cuda/running/allocation.h"

namespace rewright::cuda {

// The addresses of a plan's buffers, and the pinned memory for copies of inputs and outputs. Resident inputs and outputs are
// not copied.
class PlanMemory {
 public:
  // `residents`: the memory of resident tensors, by place. The plan must outlive this object.
  PlanMemory(std::shared_ptr<Driver> driver, const Plan& plan, ConstantStore& constants, std::vector<std::byte*> residents);

  // The address of a buffer for use in this stream; null for -1.
  std::byte* address(int buffer, std::size_t stream = 0) const;
  // Gives a buffer another address, which recordings made from now on have; returns the one before.
  std::byte* redirect(int buffer, std::byte* address) {
    return std::exchange(addresses_[static_cast<std::size_t>(buffer)], address);
  }
  std::byte* input(std::size_t number) const { return inputs_->data() + input_offsets_[number]; }
  std::byte* pinned_input(std::size_t number) const { return pinned_inputs_->data() + input_offsets_[number]; }
  std::byte* pinned_output(std::size_t number) const { return pinned_outputs_->data() + output_offsets_[number]; }
  std::byte* flag() const { return flag_->data(); }  // set by kernels that read a position outside of its axis

  // The workspace that steps of a stream share.
  std::byte* workspace(std::size_t stream) const { return workspaces_[stream].memory->data(); }
  // Makes a stream's workspace at least this large; may move it.
  void reserve_workspace(std::size_t bytes, std::size_t stream);
  // Starts over without workspaces, for this many streams.
  void reset_workspaces(std::size_t streams);

  // Copies host tensors to pinned memory, and back.
  void take_inputs(std::span<const Tensor> inputs);
  std::vector<Tensor> give_outputs() const;

  // Start copies between the device and pinned memory.
  void start_inputs();
  void start_outputs();
  void clear_flag();
  void read_flag();
  // Starts copies of resident outputs that were not computed in their places.
  void start_moves();
  // Called when the device is done, after read_flag(). Throws Error(kBadInput) if a kernel read a position outside of its axis.
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
  std::unique_ptr<DeviceMemory> arena_, inputs_, flag_;  // flag_ is null if no kernel sets it
  std::unique_ptr<DeviceMemory> pinned_inputs_, pinned_outputs_, pinned_flag_;
  std::vector<std::shared_ptr<DeviceMemory>> constants_;
  std::vector<std::byte*> addresses_;  // by buffer; null in workspaces
  std::vector<Workspace> workspaces_;  // by stream
};

}  // namespace rewright::cuda
