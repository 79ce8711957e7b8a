#include "runtime/cuda/running/plan_memory.h"

#include <cstring>
#include <utility>

namespace rewright::cuda {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

// Sets consecutive offsets for tensors without a place of their own; returns their total bytes.
std::size_t place(const std::vector<TensorType>& types, const std::vector<int>& places, std::vector<std::size_t>& offsets) {
  std::size_t bytes = 0;
  for (std::size_t n = 0; n < types.size(); ++n) {
    offsets.push_back(bytes);
    if (places[n] < 0)
      bytes += aligned(static_cast<std::size_t>(element_count(values(types[n].shape))) * byte_size(types[n].type));
  }
  return bytes;
}

}  // namespace

PlanMemory::PlanMemory(std::shared_ptr<Driver> driver, const Plan& plan, ConstantStore& constants,
                       std::vector<std::byte*> residents)
    : driver_(std::move(driver)), plan_(plan), residents_(std::move(residents)), workspaces_(1) {
  using Kind = DeviceMemory::Kind;
  const auto memory = [&](Kind kind, std::size_t bytes) { return std::make_unique<DeviceMemory>(driver_, kind, bytes); };
  input_bytes_ = place(plan.input_types, plan.input_places, input_offsets_);
  output_bytes_ = place(plan.output_types, plan.output_places, output_offsets_);
  arena_ = memory(Kind::kDevice, plan.arena_bytes);
  inputs_ = memory(Kind::kDevice, input_bytes_);
  pinned_inputs_ = memory(Kind::kPinned, input_bytes_);
  pinned_outputs_ = memory(Kind::kPinned, output_bytes_);
  if (plan.checks_positions) {
    flag_ = memory(Kind::kDevice, sizeof(int));
    pinned_flag_ = memory(Kind::kPinned, 2 * sizeof(int));  // one value to write, one to read back
    std::memset(pinned_flag_->data(), 0, 2 * sizeof(int));
  }
  for (const Buffer& buffer : plan.buffers) addresses_.push_back(fixed_address(buffer, constants));
}

std::byte* PlanMemory::fixed_address(const Buffer& buffer, ConstantStore& constants) {
  switch (buffer.kind) {
    case Buffer::Kind::kArena:
      return arena_->data() + buffer.offset;
    case Buffer::Kind::kInput:
      return input(static_cast<std::size_t>(buffer.number));
    case Buffer::Kind::kConstant:
      constants_.push_back(constants.place(buffer.constant, buffer.channels_last));
      return constants_.back()->data();
    case Buffer::Kind::kResident:
      return residents_.at(static_cast<std::size_t>(buffer.number));
    case Buffer::Kind::kWorkspace:
      break;  // depends on the stream
  }
  return nullptr;
}

std::byte* PlanMemory::address(int number, std::size_t stream) const {
  if (number < 0) return nullptr;
  const Buffer& buffer = plan_.buffers[static_cast<std::size_t>(number)];
  if (buffer.kind == Buffer::Kind::kWorkspace) return workspace(stream) + buffer.offset;
  return addresses_[static_cast<std::size_t>(number)];
}

void PlanMemory::reserve_workspace(std::size_t bytes, std::size_t stream) {
  Workspace& w = workspaces_[stream];
  if (w.memory && bytes <= w.bytes) return;
  w.memory.reset();
  w.memory = std::make_unique<DeviceMemory>(driver_, DeviceMemory::Kind::kDevice, bytes);
  w.bytes = bytes;
}

void PlanMemory::reset_workspaces(std::size_t streams) {
  workspaces_.clear();
  workspaces_.resize(streams);
}

void PlanMemory::take_inputs(std::span<const Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (plan_.input_places[i] < 0 && inputs[i].byte_count() > 0)
      std::memcpy(pinned_input(i), inputs[i].bytes().data(), inputs[i].byte_count());
}

std::vector<Tensor> PlanMemory::give_outputs() const {
  std::vector<Tensor> outputs;
  for (std::size_t o = 0; o < plan_.outputs.size(); ++o) {
    if (plan_.output_places[o] >= 0) {
      outputs.emplace_back();
      continue;
    }
    Tensor t(plan_.output_types[o].type, values(plan_.output_types[o].shape));
    if (t.byte_count() > 0) std::memcpy(t.mutable_bytes().data(), pinned_output(o), t.byte_count());
    outputs.push_back(std::move(t));
  }
  return outputs;
}

void PlanMemory::start_inputs() {
  if (input_bytes_ > 0) driver_->copy_in(inputs_->data(), pinned_inputs_->data(), input_bytes_);
}

void PlanMemory::start_outputs() {
  for (std::size_t o = 0; o < plan_.outputs.size(); ++o) {
    const auto bytes = plan_.buffers[static_cast<std::size_t>(plan_.outputs[o])].bytes;
    if (bytes > 0 && plan_.output_places[o] < 0) driver_->copy_out(pinned_output(o), address(plan_.outputs[o]), bytes);
  }
}

void PlanMemory::clear_flag() {
  if (flag_) driver_->copy_in(flag_->data(), pinned_flag_->data(), sizeof(int));
}

void PlanMemory::read_flag() {
  if (flag_) driver_->copy_out(pinned_flag_->data() + sizeof(int), flag_->data(), sizeof(int));
}

void PlanMemory::start_moves() {
  for (const Plan::Move& move : plan_.moves)
    if (const auto bytes = plan_.buffers[static_cast<std::size_t>(move.buffer)].bytes; bytes > 0)
      driver_->copy(residents_.at(static_cast<std::size_t>(move.place)), address(move.buffer), bytes);
}

void PlanMemory::check_positions() const {
  if (!flag_) return;
  int outside = 0;
  std::memcpy(&outside, pinned_flag_->data() + sizeof(int), sizeof(int));
  if (outside != 0) throw Error(ErrorCode::kBadInput, "an index that the model computes is outside of what it indexes");
}

}  // namespace rewright::cuda
