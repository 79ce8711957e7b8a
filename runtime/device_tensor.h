// Tensors in the memory of a GPU, and sessions that read and write them there.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "expressions/tensor.h"
#include "runtime/session.h"

namespace rewright::runtime {

// Elements in row-major order, of as many bytes as a Tensor's.
//
// Before a session reads or writes the memory, it waits for work in the default stream of the GPU; work in other streams must
// have ended. Results are there when the run returns.
struct DeviceTensor {
  DataType type = DataType::kUndefined;
  Sizes sizes;
  int device = 0;                    // which of the machine's GPUs
  std::byte* data = nullptr;         // an address of the GPU's; it may be null where there are no elements
  std::shared_ptr<void> owner = {};  // of the memory; null: the caller keeps it as long as this is used
  std::size_t byte_count() const { return static_cast<std::size_t>(element_count(sizes)) * byte_size(type); }
};

// On the host, or on a GPU.
using PlacedTensor = std::variant<Tensor, DeviceTensor>;

// Where an output goes: nowhere, to memory that is allocated for it, or to memory of the caller's.
struct Nowhere {};
struct OnHost {};
struct OnDevice {
  int device = 0;
};
using Destination = std::variant<Nowhere, OnHost, OnDevice, DeviceTensor>;

// Throws Error(kBadInput) if `room` is not for a tensor of this type, which is to hold the output of this name.
void require_room(const DeviceTensor& room, const TensorType& type, const std::string& output);

// The memory of one GPU. Everything throws Error(kMissing) where it runs out or the GPU is lost.
class MemoryOfDevice {
 public:
  virtual ~MemoryOfDevice() = default;
  virtual DeviceTensor allocate(DataType type, const Sizes& sizes) const = 0;  // not initialized
  // Between tensors of the same number of bytes; done when they return.
  virtual void copy_in(const DeviceTensor& to, const Tensor& from) const = 0;
  virtual Tensor copy_out(const DeviceTensor& from) const = 0;
};

// A session that runs on one GPU.
class DeviceSession {
 public:
  virtual ~DeviceSession() = default;
  virtual int device() const = 0;
  // As Session::run, with tensors on the host and on this GPU, and a destination for each output of the graph; none is on
  // another GPU. Tensors on this one may be copied within it, and never through the host. An output that goes nowhere is an
  // empty tensor. Also throws Error(kBadInput) where an output does not fit the memory that it is to go to.
  virtual std::vector<PlacedTensor> run_placed(std::span<const PlacedTensor> inputs, std::span<const Destination> outputs) = 0;
};

}  // namespace rewright::runtime
