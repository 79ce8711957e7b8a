// Graphs of cuDNN operations, executed by the fastest engine.
#pragma once

#include <cudnn.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/driver/driver.h"

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
  // A single enumeration value, such as a mode.
  template <class T>
  void set_one(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, 1, &value);
  }
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

cudnnDataType_t cudnn_type(DataType type);

// A graph of cuDNN operations, complete except for the device's handle.
class OperationGraph {
 public:
  using Sizes = std::vector<std::int64_t>;

  // Tensors in memory: inputs in the order of the operation's, then the output.
  const Descriptor& input(const Sizes& sizes, const Sizes& distances, DataType type);
  const Descriptor& output(const Sizes& sizes, const Sizes& distances, DataType type);
  // A constant number, and a tensor that is not stored.
  const Descriptor& number(float value, std::size_t rank);
  const Descriptor& between(const Sizes& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  const Descriptor& between(const Sizes& sizes, const Sizes& distances, cudnnDataType_t type);

  const Descriptor& keep(Descriptor part) { return parts_.emplace_back(std::move(part)); }
  void add(Descriptor operation) { operations_.push_back(std::move(operation)); }
  // y = mode(x), mode(x, b), or mode(x, b, t).
  struct Pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    std::int64_t axis = -1;  // the axis of an index operation
    double low = 0, high = 0;
    bool clips = false;
  };
  void pointwise(const Pointwise& what, const Descriptor& x, const Descriptor* b, const Descriptor* t, const Descriptor& y);

  const std::deque<Descriptor>& parts() const { return parts_; }
  const std::vector<Descriptor>& operations() const { return operations_; }

  struct Operand {
    std::int64_t number = 0;
    std::size_t bytes = 0;
  };
  const std::vector<Operand>& inputs() const { return inputs_; }
  const Operand& output() const { return output_; }
  const std::deque<std::pair<std::int64_t, float>>& numbers() const { return numbers_; }

 private:
  struct Tensor {
    std::int64_t number;
    bool is_virtual = false, by_value = false;
  };
  const Descriptor& tensor(Tensor t, const Sizes& sizes, const Sizes& distances, cudnnDataType_t type);

  std::deque<Descriptor> parts_;  // descriptors that the operations refer to
  std::vector<Descriptor> operations_;
  std::vector<Operand> inputs_;
  Operand output_;
  std::deque<std::pair<std::int64_t, float>> numbers_;
  std::int64_t next_ = 1;
};

// Strides of packed tensors, row-major or channels-last.
std::vector<std::int64_t> packed(const std::vector<std::int64_t>& sizes, bool channels_last = false);

// Engines may round factors of type float, and may be compiled when they are prepared.
struct EngineLimits {
  bool may_round = true, may_compile = true;
};

// The operation with the engine `choice`, or the fastest one within the limits; null if cuDNN has none. Throws
// Error(kUnsupported) if cuDNN does not support the graph.
std::unique_ptr<Operation> make_graph_operation(Device& device, std::shared_ptr<const OperationGraph> graph,
                                                EngineLimits limits, const std::string& choice);

// The graph for a shape that cuDNN supports.
OperationGraph operation_graph(const ConvolutionShape& shape);
OperationGraph operation_graph(const AttentionShape& shape);
OperationGraph operation_graph(const PoolingShape& shape);
OperationGraph operation_graph(const NormalizationShape& shape);

}  // namespace rewright::cuda
