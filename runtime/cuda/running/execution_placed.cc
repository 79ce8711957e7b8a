// Runs with inputs and outputs in the caller's memory. Recordings hold addresses: tensors are copied on the device before and
// after them, until the same memory comes again; then a recording is made that uses it directly.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime/cuda/running/device_memory.h"
#include "runtime/cuda/running/execution.h"
#include "runtime/endable_run.h"

namespace rewright::cuda {

namespace {

constexpr std::size_t kMostDirect = 4;  // recordings for memory of the caller, such as two caches that take turns

bool is_aligned(const std::byte* address) { return reinterpret_cast<std::uintptr_t>(address) % kBufferAlignment == 0; }

bool overlap(const DeviceTensor& a, const DeviceTensor& b) {
  const auto begin = [](const DeviceTensor& t) { return reinterpret_cast<std::uintptr_t>(t.data); };
  return begin(a) < begin(b) + b.byte_count() && begin(b) < begin(a) + a.byte_count();
}

// Each of these tensors that shares no memory with another one, by its place in the list; null elsewhere.
std::vector<std::byte*> apart(const std::vector<const DeviceTensor*>& tensors) {
  std::vector<std::byte*> result(tensors.size(), nullptr);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr || tensors[i]->byte_count() == 0 || !is_aligned(tensors[i]->data)) continue;
    bool shared = false;
    for (std::size_t k = 0; k < tensors.size(); ++k)
      shared = shared || (k != i && tensors[k] != nullptr && overlap(*tensors[i], *tensors[k]));
    if (!shared) result[i] = tensors[i]->data;
  }
  return result;
}

}  // namespace

// Buffers with other addresses for as long as this object lives.
class Execution::Redirected {
 public:
  Redirected(PlanMemory& memory, const DirectMemory& direct) : memory_(memory) {
    for (const auto& [buffer, address] : direct) before_.emplace_back(buffer, memory_.redirect(buffer, address));
  }
  ~Redirected() {
    for (const auto& [buffer, address] : before_) memory_.redirect(buffer, address);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  PlanMemory& memory_;
  DirectMemory before_;
};

// Inputs and outputs that kernels can use where the caller has them. Memory that two of them share is not: an output could
// change an input that is read later.
Execution::DirectMemory Execution::direct_memory(std::span<const PlacedTensor> inputs,
                                                 std::span<const Destination> outputs) const {
  std::vector<const DeviceTensor*> tensors;
  for (const PlacedTensor& input : inputs) tensors.push_back(std::get_if<DeviceTensor>(&input));
  for (const Destination& output : outputs) tensors.push_back(std::get_if<DeviceTensor>(&output));
  const std::vector<std::byte*> usable = apart(tensors);
  DirectMemory direct;
  for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& buffer = plan_.buffers[b];
    const int number = static_cast<int>(b);
    if (buffer.kind == Buffer::Kind::kInput) {
      if (std::byte* const at = usable[static_cast<std::size_t>(buffer.number)]) direct.emplace_back(number, at);
    } else if (buffer.kind == Buffer::Kind::kArena && std::count(plan_.outputs.begin(), plan_.outputs.end(), number) == 1) {
      const auto o = std::find(plan_.outputs.begin(), plan_.outputs.end(), number) - plan_.outputs.begin();
      if (std::byte* const at = usable[inputs.size() + static_cast<std::size_t>(o)]) direct.emplace_back(number, at);
    }
  }
  return direct;
}

// Recording takes longer than copying, so it waits for the memory to come again.
const std::vector<RunPart>* Execution::direct_parts(const DirectMemory& direct) {
  if (direct.empty()) return nullptr;
  const auto known = std::find_if(direct_.begin(), direct_.end(), [&](const Direct& d) { return d.memory == direct; });
  if (known == direct_.end()) {
    if (direct_.size() == kMostDirect) direct_.erase(direct_.begin());
    direct_.push_back({direct, {}});
    return nullptr;
  }
  std::rotate(known, known + 1, direct_.end());  // the one used last is dropped last
  Direct& used = direct_.back();
  if (used.parts.empty()) {
    const Redirected redirected(memory_, direct);
    used.parts = recorder_.record(false);
  }
  return &used.parts;
}

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
  DirectMemory direct = direct_memory(inputs, outputs);
  const std::vector<RunPart>* parts = direct_parts(direct);
  if (parts == nullptr) {
    if (placed_parts_.empty()) placed_parts_ = recorder_.record(false);
    parts = &placed_parts_;
    direct.clear();
  }
  const Redirected redirected(memory_, direct);  // for nodes that the host executes
  const auto is_direct = [&](const std::byte* memory) {
    return std::any_of(direct.begin(), direct.end(), [&](const auto& d) { return d.second == memory; });
  };
  driver_->wait_for_default_stream();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::byte* const to = memory_.input(i);
    if (const auto* const placed = std::get_if<DeviceTensor>(&inputs[i])) {
      if (placed->byte_count() > 0 && !is_direct(placed->data)) driver_->copy(to, placed->data, placed->byte_count());
    } else if (const Tensor& tensor = std::get<Tensor>(inputs[i]); tensor.byte_count() > 0) {
      std::byte* const pinned = memory_.pinned_input(i);
      std::memcpy(pinned, tensor.bytes().data(), tensor.byte_count());
      driver_->copy_in(to, pinned, tensor.byte_count());
    }
  }
  run(*parts);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const std::byte* const from = memory_.address(plan_.outputs[o]);
    if (const auto* const placed = std::get_if<DeviceTensor>(&results[o])) {
      if (placed->byte_count() > 0 && placed->data != from) driver_->copy(placed->data, from, placed->byte_count());
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
