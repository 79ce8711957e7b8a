// Counted, shared memory for the gradients and parameters that a step exchanges.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "expressions/tensor.h"

namespace rewright::training {

// Counts the bytes of one kind of memory: those allocated now, and the most at any time. Two threads allocate and free.
struct Gauge {
  std::atomic<std::size_t> now = 0, most = 0;
  void change(std::size_t more, std::size_t less);
};

// Zeroed memory, counted by the gauge until its last owner frees it. The gauge must outlive it.
using Memory = std::shared_ptr<Tensor>;
Memory allocated(std::size_t bytes, Gauge& gauge);

// The bytes from this offset on as a tensor that shares the memory, including later changes.
Tensor view(const Memory& memory, std::size_t offset, DataType type, const Sizes& sizes);

// A copy in unshared memory.
Tensor copy_of(const Tensor& tensor);

}  // namespace rewright::training
