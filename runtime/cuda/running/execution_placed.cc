// Runs with inputs and outputs in the caller's memory. Recordings hold addresses, so other tensors are copied on the device
// before and after them.
#include <cstring>

#include "runtime/cuda/running/device_memory.h"
#include "runtime/cuda/running/execution.h"
#include "runtime/endable_run.h"

namespace rewright::cuda {

void Execution::run_placed(std::span<const PlacedTensor> inputs, std::span<const Destination> outputs,
                           std::span<PlacedTensor> results) {
  run_checkpoint();
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const TensorType& type = plan_.output_types[o];
    if (const auto* const memory = std::get_if<DeviceTensor>(&outputs[o])) results[o] = *memory;
    if (const auto* const on = std::get_if<OnDevice>(&outputs[o]))
      results[o] = new_tensor(driver_, on->device, type.type, values(type.shape));
    if (std::holds_alternative<OnHost>(outputs[o])) results[o] = Tensor(type.type, values(type.shape));
  }
  if (placed_parts_.empty()) placed_parts_ = recorder_.record(false);
  driver_->wait_for_default_stream();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::byte* const to = memory_.input(i);
    if (const auto* const placed = std::get_if<DeviceTensor>(&inputs[i])) {
      if (placed->byte_count() > 0) driver_->copy(to, placed->data, placed->byte_count());
    } else if (const Tensor& tensor = std::get<Tensor>(inputs[i]); tensor.byte_count() > 0) {
      std::byte* const pinned = memory_.pinned_input(i);
      std::memcpy(pinned, tensor.bytes().data(), tensor.byte_count());
      driver_->copy_in(to, pinned, tensor.byte_count());
    }
  }
  run(placed_parts_);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const std::byte* const from = memory_.address(plan_.outputs[o]);
    if (const auto* const placed = std::get_if<DeviceTensor>(&results[o])) {
      if (placed->byte_count() > 0) driver_->copy(placed->data, from, placed->byte_count());
    } else if (const std::size_t bytes = std::get<Tensor>(results[o]).byte_count(); bytes > 0) {
      driver_->copy_out(memory_.pinned_output(o), from, bytes);
    }
  }
  driver_->synchronize();
  memory_.check_positions();
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    auto* const tensor = std::get_if<Tensor>(&results[o]);
    if (tensor != nullptr && tensor->byte_count() > 0)
      std::memcpy(tensor->mutable_bytes().data(), memory_.pinned_output(o), tensor->byte_count());
  }
}

}  // namespace rewright::cuda
