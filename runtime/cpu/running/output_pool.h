// Memory for outputs, used again once nobody has them any more: new pages from the system take longer than filling them.
#pragma once

#include <cstddef>
#include <memory>

#include "expressions/tensor.h"

namespace rewright::cpu {

// Used by several threads at once. Outputs may outlive the pool. It keeps no more memory than was in use at once.
class OutputPool {
 public:
  OutputPool();

  // A tensor whose elements are not set yet, and where to write them.
  struct Output {
    Tensor tensor;
    std::byte* bytes;
  };
  Output take(DataType type, const Sizes& sizes);

 private:
  struct Blocks;
  std::shared_ptr<Blocks> blocks_;
};

}  // namespace rewright::cpu
