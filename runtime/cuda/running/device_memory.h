// The memory of a GPU, for those who hand over tensors that lie there.
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

// A tensor in new memory, which is given back when nobody holds it any more, by whoever does not use the driver just then.
DeviceTensor new_tensor(const std::shared_ptr<Driver>& driver, int number, DataType type, const Sizes& sizes);

}  // namespace rewright::cuda
