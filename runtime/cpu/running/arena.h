// Memory for the intermediate values of plans, shared by all plans of a session: an execution borrows a piece, and what one set
// of sizes has needed serves the next.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "expressions/tensor.h"

namespace rewright::cpu {

// Used by several threads at once, each with a piece of its own.
class ArenaPool {
 public:
  // At least so many bytes, aligned to 64: the smallest free piece that is large enough; else a new one in place of the
  // largest.
  Tensor take(std::size_t bytes);
  void give_back(Tensor arena);

 private:
  std::mutex mutex_;
  std::vector<Tensor> free_;  // ascending
};

}  // namespace rewright::cpu
