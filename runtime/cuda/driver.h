// What the CUDA runtime needs of a device and its libraries. The planner and the session use it; librewright_cuda.so implements
// it, and tests implement it on the host. All sizes and offsets are in elements unless bytes are said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "operators/data_type.h"

namespace rewright::cuda {

// What may change in floating point: nothing, the order of sums and TF32's rounding of factors, or half precision as well.
enum class Precision { kFloat, kTf32 };

enum class Activation { kNone, kRelu };

// y[i, m, n] = activation(alpha * sum(k) a[i, m, k] b[i, k, n] + bias[n]), all row-major: a's rows are `a_stride` apart, or if
// it is transposed, its columns. Batches are `*_batch` apart (0: repeated).
struct ProductShape {
  DataType type = DataType::kFloat;
  std::int64_t m = 1, n = 1, k = 1, batch = 1;
  bool a_transposed = false, b_transposed = false;
  std::int64_t a_stride = 0, b_stride = 0, y_stride = 0;
  std::int64_t a_batch = 0, b_batch = 0, y_batch = 0;
  double alpha = 1;
  bool bias = false;  // a third input
  Activation activation = Activation::kNone;
  friend bool operator==(const ProductShape&, const ProductShape&) = default;
};

// x[N, C, spatial...] * w[K, C / groups, kernel...] -> y[N, K, out...], then + bias[K] and + residual[y's sizes] as inputs 2
// and 3 where there are any, then the activation. All packed, channels first.
struct ConvolutionShape {
  DataType type = DataType::kFloat;
  std::vector<std::int64_t> x, w, y;
  std::vector<std::int64_t> strides, dilations, pads_begin, pads_end;
  std::int64_t groups = 1;
  bool bias = false, residual = false;
  Activation activation = Activation::kNone;
  friend bool operator==(const ConvolutionShape&, const ConvolutionShape&) = default;
};

// Something of a library's, chosen and prepared: it only has to be started.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual std::size_t workspace_bytes() const = 0;
  virtual void start(std::span<const std::byte* const> inputs, std::byte* output, std::byte* workspace) = 0;
};

// Compiled kernels on the device.
class Module {
 public:
  virtual ~Module() = default;
  // Arguments are addresses on the device.
  virtual void start(const std::string& kernel, unsigned blocks, unsigned threads, std::span<void* const> arguments) = 0;
};

// Work that was recorded once and is started as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void start() = 0;
};

// One device. Work is started in order on one stream; nothing but synchronize() and copies to pageable memory waits for it.
// Failures throw Error: kMissing when memory runs out or the device is lost.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual std::string device_name() const = 0;
  virtual std::string library_versions() const = 0;  // on one line
  virtual int architecture() const = 0;              // 90 for compute capability 9.0
  virtual int processors() const = 0;

  virtual std::byte* allocate(std::size_t bytes) = 0;  // aligned to 256
  virtual void release(std::byte* memory) noexcept = 0;
  virtual std::byte* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(std::byte* memory) noexcept = 0;
  virtual void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) = 0;
  virtual void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) = 0;
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;  // on the device
  virtual void synchronize() = 0;

  // Source to what load() takes. Throws Error(kUnsupported) with the compiler's first message.
  virtual std::string compile(const std::string& source) = 0;
  virtual std::unique_ptr<Module> load(const std::string& binary) = 0;

  // The fastest way found, by measurement among those that the library proposes; null if it has none.
  virtual std::unique_ptr<Operation> product(const ProductShape& shape, Precision precision) = 0;
  virtual std::unique_ptr<Operation> convolution(const ConvolutionShape& shape, Precision precision) = 0;

  // Between these two, work is recorded and not done.
  virtual void begin_recording() = 0;
  virtual std::unique_ptr<Recording> end_recording() = 0;

  // Seconds that a recording takes on the device: the median of some runs, measured by the device's events.
  virtual double measure(Recording& recording, int runs) = 0;
};

}  // namespace rewright::cuda
