// Memory for tensors, used again once nobody has them any more: new pages from the system take longer than filling them.
#pragma once

#include <cstddef>
#include <memory>

#include "expressions/tensor.h"

namespace rewright {

// Used by several threads at once. Tensors may outlive the pool. It keeps no more memory than was in use at once, or up to the
// share more where that was too little, as some of it lies between tensors of other sizes.
class TensorPool {
 public:
  explicit TensorPool(double share_more = 0);

  // A tensor whose elements are not set yet, and where to write them.
  struct Output {
    Tensor tensor;
    std::byte* bytes;
  };
  Output take(DataType type, const Sizes& sizes);
  // From the pool, or from the system where there is none.
  static Output take_from(TensorPool* pool, DataType type, const Sizes& sizes);
  // Bytes asked from the system until now.
  std::size_t mapped_bytes() const;
  // Bytes of the system that it has now: of tensors, and free ones.
  std::size_t kept_bytes() const;

 private:
  struct Blocks;
  std::shared_ptr<Blocks> blocks_;
};

}  // namespace rewright
