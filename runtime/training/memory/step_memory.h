// Memory that the exchange of a step's gradients and parameters works in: shared by who looks at it, and counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "expressions/tensor.h"

namespace rewright::training {

// How many bytes there are of a kind, and were at most. Two threads allocate and free.
struct Gauge {
  std::atomic<std::size_t> now = 0, most = 0;
  void change(std::size_t more, std::size_t less);
};

// Zeros that a gauge counts for as long as someone holds them: the gauge lives longer.
using Memory = std::shared_ptr<Tensor>;
Memory allocated(std::size_t bytes, Gauge& gauge);

// Some of these bytes, from this offset on, as a tensor that sees what becomes of them.
Tensor view(const Memory& memory, std::size_t offset, DataType type, const Sizes& sizes);

}  // namespace rewright::training
