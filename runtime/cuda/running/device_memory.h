// GPU memory for callers whose tensors are there.
#pragma once

#include <memory>

#include "runtime/cuda/driver/driver.h"
#include "runtime/device_tensor.h"

namespace rewright::cuda {

class MemoryOfDriver : public MemoryOfDevice {
 public:
  MemoryOfDriver(std::shared_ptr<Driver> driver, int number) : driver_(std::move(driver)), number_(number) {}
  DeviceTensor allocate(DataType type, const Sizes& sizes) const override;
  void copy_in(const DeviceTensor& to, const Tensor& from) const override;
  Tensor copy_out(const DeviceTensor& from) const override;

 private:
  std::shared_ptr<Driver> driver_;
  int number_;
};

// A tensor in new memory, freed by its last owner. Freeing locks the driver, so the last owner must not be using it.
DeviceTensor new_tensor(const std::shared_ptr<Driver>& driver, int number, DataType type, const Sizes& sizes);

}  // namespace rewright::cuda
