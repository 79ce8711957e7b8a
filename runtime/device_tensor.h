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

// Elements in row-major order, with as many bytes as in a Tensor.
//
// Before a session reads or writes the memory, it waits for work in the GPU's default stream; work in other streams must have
// ended. Results are complete when the run returns.
struct DeviceTensor {
  DataType type = DataType::kUndefined;
  Sizes sizes;
  int device = 0;                    // which of the machine's GPUs
  std::byte* data = nullptr;         // an address on the GPU; may be null for empty tensors
  std::shared_ptr<void> owner = {};  // owns the memory; null: the caller keeps it during use
  std::size_t byte_count() const { return static_cast<std::size_t>(element_count(sizes)) * byte_size(type); }
};

// A tensor on the host or on a GPU.
using PlacedTensor = std::variant<Tensor, DeviceTensor>;

// The destination of an output: nowhere, newly allocated memory, or memory of the caller.
struct Nowhere {};
struct OnHost {};
struct OnDevice {
  int device = 0;
};
using Destination = std::variant<Nowhere, OnHost, OnDevice, DeviceTensor>;

// Throws Error(kBadInput), with the output's name, if `buffer` does not have the type and sizes of the output.
void require_fits(const DeviceTensor& buffer, const TensorType& type, const std::string& output);

// The memory of one GPU. All functions throw Error(kMissing) if it runs out or the GPU is lost.
class MemoryOfDevice {
 public:
  virtual ~MemoryOfDevice() = default;
  virtual DeviceTensor allocate(DataType type, const Sizes& sizes) const = 0;  // not initialized
  // Between tensors of equal byte counts; complete on return.
  virtual void copy_in(const DeviceTensor& to, const Tensor& from) const = 0;
  virtual Tensor copy_out(const DeviceTensor& from) const = 0;
};

// A session that runs on one GPU.
class DeviceSession {
 public:
  virtual ~DeviceSession() = default;
  virtual int device() const = 0;
  // Session::run with tensors on the host and on this GPU (on no other), and a destination for each output of the graph.
  // Tensors on this GPU may be copied within it, but never through the host. Outputs without a destination are returned empty.
  // Also throws Error(kBadInput) if an output does not fit its destination.
  virtual std::vector<PlacedTensor> run_placed(std::span<const PlacedTensor> inputs, std::span<const Destination> outputs) = 0;
};

}  // namespace rewright::runtime
