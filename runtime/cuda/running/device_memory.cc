#include "runtime/cuda/running/device_memory.h"

#include "runtime/cuda/running/allocation.h"

namespace rewright::cuda {

DeviceTensor new_tensor(const std::shared_ptr<Driver>& driver, int number, DataType type, const Sizes& sizes) {
  DeviceTensor tensor{type, sizes, number};
  auto memory = std::make_unique<DeviceMemory>(driver, DeviceMemory::Kind::kDevice, tensor.byte_count());
  tensor.data = memory->data();
  tensor.owner = std::shared_ptr<DeviceMemory>(memory.release(), [driver](DeviceMemory* held) {
    const InUse in_use(*driver);
    delete held;
  });
  return tensor;
}

DeviceTensor MemoryOfDriver::allocate(DataType type, const Sizes& sizes) const {
  const InUse in_use(*driver_);
  return new_tensor(driver_, number_, type, sizes);
}

void MemoryOfDriver::copy_in(const DeviceTensor& to, const Tensor& from) const {
  if (from.byte_count() == 0) return;
  const InUse in_use(*driver_);
  driver_->wait_for_default_stream();
  driver_->copy_in(to.data, from.bytes().data(), from.byte_count());
  driver_->synchronize();
}

Tensor MemoryOfDriver::copy_out(const DeviceTensor& from) const {
  Tensor tensor(from.type, from.sizes);
  if (tensor.byte_count() == 0) return tensor;
  const InUse in_use(*driver_);
  driver_->wait_for_default_stream();
  driver_->copy_out(tensor.mutable_bytes().data(), from.data, tensor.byte_count());
  driver_->synchronize();
  return tensor;
}

}  // namespace rewright::cuda
