// Adding up what lies in the memory of processes' GPUs.
#pragma once

#include <cstddef>
#include <memory>

#include "distribution/communicator.h"

namespace rewright::distribution {

// Called by all processes in the same order.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;
  // In place of the values at this address of the process's GPU (float, double, float16 or bfloat16), their sums over all
  // processes, the same bits in all of them. It begins when what `stream` (a cudaStream_t) has got so far is done, beside what
  // it gets from then on, and in the order of these calls.
  virtual void start(std::byte* values, std::size_t bytes, DataType type, void* stream) = 0;
  // What the stream gets from here on waits for all of them.
  virtual void finish(void* stream) = 0;
};

// Processes of a machine take its GPUs in turn, in the order of their ranks: the number of this one's.
int own_gpu(Communicator& processes);

// By NCCL, on the GPU with this number in each process. The communicator brings the processes together, and nothing else. A
// plug-in: throws Error(kMissing) where there is none, or no such GPU.
std::unique_ptr<DeviceSums> make_nccl_sums(Communicator& processes, int device);

}  // namespace rewright::distribution
