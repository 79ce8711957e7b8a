// Convolutions by cuDNN's graphs of operations, with what stands behind them.
#pragma once

#include <cudnn.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/driver.h"

namespace rewright::cuda {

class Device;

// A descriptor of cuDNN's backend, destroyed at the end.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  cudnnBackendDescriptor_t get() const { return handle_; }
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  void set_number(cudnnBackendAttributeName_t name, std::int64_t value) { set(name, CUDNN_TYPE_INT64, 1, &value); }
  void set_numbers(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
    set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  void set_descriptor(cudnnBackendAttributeName_t name, const Descriptor& other) {
    const cudnnBackendDescriptor_t handle = other.get();
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
  }
  void finalize();

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

// The convolution and its epilogue as operations of cuDNN, complete but for the handle of a device. Tensors are numbered: x 1,
// w 2, y 3, bias 4, residual 5.
struct ConvolutionOperations {
  explicit ConvolutionOperations(const ConvolutionShape& shape);
  std::vector<Descriptor> parts;       // what the operations refer to
  std::vector<Descriptor> operations;  // in order
};

std::unique_ptr<Operation> make_convolution(Device& device, const ConvolutionShape& shape, Precision precision,
                                            const std::string& choice);

}  // namespace rewright::cuda
