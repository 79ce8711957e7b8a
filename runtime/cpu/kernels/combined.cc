#include "runtime/cpu/kernels/combined.h"

#include <algorithm>
#include <utility>

namespace rewright::cpu {

PiecesKernel::PiecesKernel(std::vector<Piece> pieces, int threads, ResultFunction function, std::int64_t channels,
                           std::int64_t height)
    : pieces_(std::move(pieces)), threads_(threads), function_(function), channels_(channels), height_(height) {
  const auto aligned = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  for (const Piece& p : pieces_) {
    thread_bytes_ = std::max(thread_bytes_, aligned(p.kernel->scratch_bytes()));
    copied_bytes_ =
        std::max(copied_bytes_, aligned(sizeof(float) * static_cast<std::size_t>(channels * p.rows.count * p.rows.elements)));
  }
  thread_bytes_ += copied_bytes_;
}

void PiecesKernel::run(const Call& call) const {
  call.workers.share(std::ssize(pieces_), [&](std::int64_t number, int thread) {
    constexpr std::size_t kMostInputs = 16;
    const Piece& piece = pieces_[static_cast<std::size_t>(number)];
    std::byte* const scratch = call.scratch + static_cast<std::size_t>(thread) * thread_bytes_;
    const std::byte* inputs[kMostInputs];
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      inputs[i] = call.inputs[i] + piece.inputs[i] * static_cast<std::int64_t>(sizeof(float));
    if (channels_ > 0) {
      const auto* const x = reinterpret_cast<const float*>(inputs[0]);
      const std::int64_t count = piece.rows.count * piece.rows.elements;
      for (std::int64_t c = 0; c < channels_; ++c)
        std::copy_n(x + (c * height_ + piece.rows.first) * piece.rows.elements, count,
                    reinterpret_cast<float*>(scratch) + c * count);
      inputs[0] = scratch;
    }
    float* const y = reinterpret_cast<float*>(call.outputs[0]) + piece.output;
    std::byte* const output = reinterpret_cast<std::byte*>(y);
    static const Workers alone(1);
    piece.kernel->run({{inputs, call.inputs.size()}, {&output, 1}, scratch + copied_bytes_, alone});
    if (function_) function_(y, piece.elements);
  });
}

namespace {

class FollowedKernel final : public Kernel {
 public:
  FollowedKernel(std::unique_ptr<Kernel> kernel, ResultFunction function, std::int64_t elements)
      : kernel_(std::move(kernel)), function_(function), elements_(elements) {}
  void run(const Call& call) const override {
    kernel_->run(call);
    constexpr std::int64_t kPart = 8192;
    constexpr double kElements = 2;  // a nanosecond
    float* const y = reinterpret_cast<float*>(call.outputs[0]);
    const std::int64_t parts = (elements_ + kPart - 1) / kPart;
    call.workers.for_each(parts, static_cast<double>(elements_) / kElements,
                          [&](std::int64_t p, int) { function_(y + p * kPart, std::min(kPart, elements_ - p * kPart)); });
  }
  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  std::string source() const override { return kernel_->source(); }

 private:
  std::unique_ptr<Kernel> kernel_;
  ResultFunction function_;
  std::int64_t elements_;
};

class TwoKernels final : public Kernel {
 public:
  TwoKernels(std::unique_ptr<Kernel> first, std::unique_ptr<Kernel> second)
      : first_(std::move(first)), second_(std::move(second)) {}
  void run(const Call& call) const override {
    first_->run(call);
    second_->run(call);
  }
  std::size_t scratch_bytes() const override { return std::max(first_->scratch_bytes(), second_->scratch_bytes()); }
  std::string source() const override { return first_->source(); }

 private:
  std::unique_ptr<Kernel> first_, second_;
};

}  // namespace

std::unique_ptr<Kernel> followed_by(std::unique_ptr<Kernel> kernel, ResultFunction function, std::int64_t elements) {
  return std::make_unique<FollowedKernel>(std::move(kernel), function, elements);
}

std::unique_ptr<Kernel> one_after_the_other(std::unique_ptr<Kernel> first, std::unique_ptr<Kernel> second) {
  return std::make_unique<TwoKernels>(std::move(first), std::move(second));
}

}  // namespace rewright::cpu
