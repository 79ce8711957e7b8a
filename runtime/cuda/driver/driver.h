// The interface between the CUDA runtime and a device with its libraries. librewright_cuda.so implements it; tests implement it
// on the host. Sizes and offsets are in elements unless they are named bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/driver/library_shapes.h"

namespace rewright::cuda {

// The precision of products and convolutions of floats. TF32 rounds the factors to 10 bits of fraction for tensor cores.
enum class Precision { kFloat, kTf32 };

// A library operation with its algorithm chosen and prepared, ready to start.
class Operation {
 public:
  virtual ~Operation() = default;
  // The chosen algorithm as text. Driver::operation() accepts it to prepare the same one again.
  virtual std::string choice() const = 0;
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

// Work that is recorded once and started as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void start() = 0;
};

// One device. Work is started in order on a stream; nothing but synchronize() and copies to pageable memory waits for it.
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
  // Later work waits for everything that this process has started in the device's default stream so far.
  virtual void wait_for_default_stream() = 0;
  // The stream that work is started in, as a cudaStream_t.
  virtual void* stream_handle() const = 0;

  // Compiles source into what load() takes. Throws Error(kUnsupported) with the compiler's first message.
  virtual std::string compile(const std::string& source) = 0;
  virtual std::unique_ptr<Module> load(const std::string& binary) = 0;

  // The operation with the algorithm `choice` (an earlier Operation::choice()); if that is empty, with the fastest algorithm
  // that the library proposes, found by measurement. Null if there is none.
  virtual std::unique_ptr<Operation> operation(const LibraryShape& shape, Precision precision, const std::string& choice) = 0;

  // Between these two calls, work is recorded instead of executed.
  virtual void begin_recording() = 0;
  virtual std::unique_ptr<Recording> end_recording() = 0;
  virtual void abandon_recording() noexcept = 0;  // after a failure: drops the recording
  // Recorded work may use several streams. It is ordered within each stream, and between streams only by mark() and wait_for().
  // A recording begins and ends in stream 0.
  virtual void use_stream(int stream) = 0;
  virtual void mark(int number) = 0;      // names the work in the stream so far
  virtual void wait_for(int number) = 0;  // later work in the stream waits for the work with this mark

  // The time of a recording on the device, in seconds: the median of some runs, by the device's events.
  virtual double measure(Recording& recording, int runs) = 0;

 private:
  friend class InUse;
  // Makes this the calling thread's current device; returns the number of the previous one. A failure shows in later calls.
  virtual int enter() noexcept = 0;
  virtual void leave(int before) noexcept = 0;
  std::mutex in_use_;
};

// Held while work is started, or memory allocated or freed: locks the device, which threads share, and makes it the thread's
// current device.
class InUse {
 public:
  explicit InUse(Driver& driver) : driver_(driver), lock_(driver.in_use_), before_(driver.enter()) {}
  ~InUse() { driver_.leave(before_); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  Driver& driver_;
  std::lock_guard<std::mutex> lock_;
  int before_;
};

}  // namespace rewright::cuda
