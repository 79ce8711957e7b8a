#include "runtime/cuda/running/allocation.h"

#include <vector>

#include "runtime/cuda/planning/layout.h"

namespace rewright::cuda {

DeviceMemory::DeviceMemory(std::shared_ptr<Driver> driver, Kind kind, std::size_t bytes)
    : driver_(std::move(driver)), kind_(kind) {
  if (bytes == 0) return;
  data_ = kind == Kind::kDevice ? driver_->allocate(bytes) : driver_->allocate_pinned(bytes);
}

DeviceMemory::~DeviceMemory() {
  if (data_ == nullptr) return;
  kind_ == Kind::kDevice ? driver_->release(data_) : driver_->release_pinned(data_);
}

std::shared_ptr<DeviceMemory> ConstantStore::place(const Tensor& tensor, bool channels_last) {
  Place& place = places_[{tensor.bytes().data(), channels_last}];
  if (auto memory = place.memory.lock()) return memory;
  place.tensor = tensor;
  auto memory = std::make_shared<DeviceMemory>(driver_, DeviceMemory::Kind::kDevice, tensor.byte_count());
  if (tensor.byte_count() > 0 && channels_last) {
    const std::vector<std::byte> bytes = bytes_channels_last(tensor);
    driver_->copy_in(memory->data(), bytes.data(), bytes.size());
    driver_->synchronize();  // the copy reads the bytes until then
  } else if (tensor.byte_count() > 0) {
    driver_->copy_in(memory->data(), tensor.bytes().data(), tensor.byte_count());
  }
  place.memory = memory;
  return memory;
}

}  // namespace rewright::cuda
