// Device memory, and constants in it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "expressions/tensor.h"
#include "runtime/cpu/planning/prepared_constants.h"
#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

// Freed by the destructor. Constructed and destroyed only while the thread uses the driver (InUse).
class DeviceMemory {
 public:
  enum class Kind { kDevice, kPinned };
  DeviceMemory(std::shared_ptr<Driver> driver, Kind kind, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::byte* data() const { return data_; }  // null for 0 bytes

 private:
  std::shared_ptr<Driver> driver_;
  Kind kind_;
  std::byte* data_ = nullptr;
};

// Constants on the device, and what plans compute from constants alone. A constant that several plans of a session use is
// stored once, as long as one of them exists.
class ConstantStore {
 public:
  explicit ConstantStore(std::shared_ptr<Driver> driver)
      : driver_(std::move(driver)), folded_(std::make_shared<cpu::PreparedConstants>()) {}
  const std::shared_ptr<cpu::PreparedConstants>& folded() const { return folded_; }
  std::shared_ptr<DeviceMemory> place(const Tensor& tensor, bool channels_last);

 private:
  struct Place {
    Tensor tensor;  // owns the bytes whose address is part of the key
    std::weak_ptr<DeviceMemory> memory;
  };
  std::shared_ptr<Driver> driver_;
  std::shared_ptr<cpu::PreparedConstants> folded_;
  std::map<std::pair<const std::byte*, bool>, Place> places_;
};

}  // namespace rewright::cuda
