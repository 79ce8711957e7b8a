// Sums over processes of values in their GPUs' memory.
#pragma once

#include <cstddef>
#include <memory>

#include "distribution/communicator.h"

namespace rewright::distribution {

// All processes call the same functions in the same order.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;
  // Starts to replace the values at this address of the process's GPU (float, double, float16 or bfloat16) by their sums over
  // all processes, the same bits in all of them. The sum waits for the work that `stream` (a cudaStream_t) already holds and
  // runs beside work added later; sums run in the order of these calls.
  virtual void start(std::byte* values, std::size_t bytes, DataType type, void* stream) = 0;
  // Makes work that the stream is given from now on wait for all sums that were started.
  virtual void finish(void* stream) = 0;
};

// The number of this process's GPU: the processes of a machine take its GPUs in the order of their ranks.
int own_gpu(Communicator& processes);

// Sums by NCCL, on the GPU with this number in each process. The communicator only serves to connect the processes. NCCL is a
// plug-in: throws Error(kMissing) if it is missing, or if there is no such GPU.
std::unique_ptr<DeviceSums> make_nccl_sums(Communicator& processes, int device);

}  // namespace rewright::distribution
