// Kernels composed of other kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cpu/kernels/result_function.h"
#include "runtime/cpu/planning/kernel.h"

namespace rewright::cpu {

// Several kernels that compute parts of one result, in any order and concurrently.
class PiecesKernel final : public Kernel {
 public:
  struct Piece {
    std::unique_ptr<Kernel> kernel;
    std::vector<std::int64_t> inputs;  // offsets of the piece's inputs in the step's inputs, in floats
    std::int64_t output = 0, elements = 0;
    struct {
      std::int64_t first = 0, count = 0, elements = 0;
    } rows{};  // of each channel of a row-major input 0
  };
  // `function` (may be null) is applied to each piece's results. With `channels` above 0, input 0 is a row-major image of
  // `channels` channels with `height` rows, and the rows that a piece reads are first copied together.
  PiecesKernel(std::vector<Piece> pieces, int threads, ResultFunction function, std::int64_t channels = 0,
               std::int64_t height = 0);
  void run(const Call& call) const override;
  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(threads_) * thread_bytes_; }
  std::string source() const override { return pieces_.front().kernel->source(); }

 private:
  std::vector<Piece> pieces_;
  int threads_;
  ResultFunction function_;
  std::int64_t channels_, height_;
  std::size_t thread_bytes_ = 0, copied_bytes_ = 0;
};

// The kernel, followed by a function with f(0) = 0 on every element of its first output.
std::unique_ptr<Kernel> followed_by(std::unique_ptr<Kernel> kernel, ResultFunction function, std::int64_t elements);

// Two kernels in sequence on the same inputs, outputs and scratch memory.
std::unique_ptr<Kernel> one_after_the_other(std::unique_ptr<Kernel> first, std::unique_ptr<Kernel> second);

}  // namespace rewright::cpu
