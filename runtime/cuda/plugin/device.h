// One GPU and the libraries on it.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

// The largest workspace that libraries may use.
inline constexpr std::size_t kWorkspaceLimit = std::size_t{64} << 20;

class Device final : public Driver {
 public:
  // Throws Error(kMissing) with the missing part.
  explicit Device(int number);
  ~Device() override;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  std::string device_name() const override { return name_; }
  std::string library_versions() const override;
  int architecture() const override { return architecture_; }
  int processors() const override { return processors_; }

  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  std::byte* allocate_pinned(std::size_t bytes) override;
  void release_pinned(std::byte* memory) noexcept override;
  void copy_in(std::byte* device, const std::byte* host, std::size_t bytes) override;
  void copy_out(std::byte* host, const std::byte* device, std::size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void synchronize() override;
  void wait_for_default_stream() override;
  void* stream_handle() const override { return stream_; }

  std::string compile(const std::string& source) override;
  std::unique_ptr<Module> load(const std::string& binary) override;
  std::unique_ptr<Operation> operation(const LibraryShape& shape, Precision precision, const std::string& choice) override;

  void begin_recording() override;
  std::unique_ptr<Recording> end_recording() override;
  void abandon_recording() noexcept override;
  void use_stream(int stream) override;
  void mark(int number) override;
  void wait_for(int number) override;
  double measure(Recording& recording, int runs) override;

  cudaStream_t stream() const { return stream_; }  // the one in use
  cublasLtHandle_t blas() const { return blas_; }
  cudnnHandle_t dnn() const { return dnn_; }

  // The time of some work in seconds: the minimum of `runs`, by events. Infinity if it fails.
  double time(const std::function<bool()>& work, int runs);

 private:
  int enter() noexcept override;
  void leave(int before) noexcept override;

  const int number_;
  std::string name_;
  int architecture_ = 0, processors_ = 0;
  cudaStream_t stream_ = nullptr;
  std::vector<cudaStream_t> streams_;
  std::map<int, cudaEvent_t> marks_;
  cudaEvent_t start_ = nullptr, end_ = nullptr;
  cublasLtHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;
};

// Device memory for measurements.
class Scratch {
 public:
  Scratch(Device& device, std::size_t bytes) : device_(device), data_(bytes == 0 ? nullptr : device.allocate(bytes)) {
    if (data_ != nullptr) cudaMemsetAsync(data_, 0, bytes, device.stream());
  }
  ~Scratch() {
    if (data_ != nullptr) device_.release(data_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::byte* data() const { return data_; }

 private:
  Device& device_;
  std::byte* data_;
};

}  // namespace rewright::cuda
