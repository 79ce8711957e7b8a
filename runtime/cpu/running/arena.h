// Memory for intermediate values, shared by all plans of a session: an execution borrows a piece, which later serves other
// sizes.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "expressions/tensor.h"

namespace rewright::cpu {

// Thread-safe; each execution has its own piece.
class ArenaPool {
 public:
  // At least `bytes` bytes, aligned to 64: the smallest free piece that is large enough, or a new one that replaces the
  // largest.
  Tensor take(std::size_t bytes);
  void give_back(Tensor arena);

 private:
  std::mutex mutex_;
  std::vector<Tensor> free_;  // ascending
};

}  // namespace rewright::cpu
