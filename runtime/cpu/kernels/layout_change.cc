// Copies from one layout to another.
#include <algorithm>
#include <utility>

#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/planning/kernels.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

namespace {

// Floats between row-major and channels-last: transposes [channels][pixels] for each image.
class ChannelsKernel final : public Kernel {
 public:
  ChannelsKernel(const Sizes& sizes, bool to_last, Isa isa)
      : images_(sizes[0]),
        rows_(element_count(std::span(sizes).subspan(2))),
        columns_(sizes[1]),
        loops_(real_loops<float>(isa)) {
    if (!to_last) std::swap(rows_, columns_);
  }

  // The source has `columns_` runs of `rows_` elements; the result is its transpose.
  void run(const Call& call) const override {
    constexpr double kElements = 4;  // a nanosecond
    constexpr std::int64_t kTogether = 64;
    const std::int64_t blocks = (rows_ + kTogether - 1) / kTogether;
    call.workers.for_each(images_ * blocks, static_cast<double>(images_ * rows_ * columns_) / kElements,
                          [&](std::int64_t unit, int) {
                            const std::int64_t image = unit / blocks * rows_ * columns_, first = unit % blocks * kTogether;
                            loops_.transpose(reinterpret_cast<float*>(call.outputs[0]) + image + first * columns_,
                                             reinterpret_cast<const float*>(call.inputs[0]) + image + first, rows_,
                                             std::min(kTogether, rows_ - first), columns_);
                          });
  }

 private:
  std::int64_t images_, rows_, columns_;
  const RealLoops<float>& loops_;
};

}  // namespace

std::unique_ptr<Kernel> make_layout_change(DataType type, const Sizes& sizes, Layout from, Layout to, Isa isa) {
  if (type == DataType::kFloat && !from.blocked() && !to.blocked())
    return std::make_unique<ChannelsKernel>(sizes, to.channels_last(), isa);
  const auto moved = byte_size(type) == 1 ? dnnl::memory::data_type::u8 : dnnl_type(type).value();
  return make_reorder(dnnl_desc(sizes, from, moved), dnnl_desc(sizes, to, moved));
}

}  // namespace rewright::cpu
