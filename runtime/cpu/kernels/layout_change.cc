// Copies from one layout to another.
#include <algorithm>
#include <utility>

#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/planning/kernels.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

namespace {

// Elements between row-major and channels-last: transposes [channels][pixels] for each image.
template <class T, class Mask>
class ChannelsKernel final : public Kernel {
 public:
  ChannelsKernel(const Sizes& sizes, bool to_last, const Elements<T, Mask>& loops)
      : images_(sizes[0]), rows_(element_count(std::span(sizes).subspan(2))), columns_(sizes[1]), loops_(loops) {
    if (!to_last) std::swap(rows_, columns_);
  }

  // The source has `columns_` runs of `rows_` elements; the result is its transpose.
  void run(const Call& call) const override {
    constexpr double kElements = 16.0 / sizeof(T);  // a nanosecond
    constexpr std::int64_t kTogether = 64;
    const std::int64_t blocks = (rows_ + kTogether - 1) / kTogether;
    call.workers.for_each(images_ * blocks, static_cast<double>(images_ * rows_ * columns_) / kElements,
                          [&](std::int64_t unit, int) {
                            const std::int64_t image = unit / blocks * rows_ * columns_, first = unit % blocks * kTogether;
                            loops_.transpose(reinterpret_cast<T*>(call.outputs[0]) + image + first * columns_,
                                             reinterpret_cast<const T*>(call.inputs[0]) + image + first, rows_,
                                             std::min(kTogether, rows_ - first), columns_);
                          });
  }

 private:
  std::int64_t images_, rows_, columns_;
  const Elements<T, Mask>& loops_;
};

template <class T, class Mask>
std::unique_ptr<Kernel> make_channels_kernel(const Sizes& sizes, bool to_last, const Elements<T, Mask>& loops) {
  return std::make_unique<ChannelsKernel<T, Mask>>(sizes, to_last, loops);
}

}  // namespace

std::unique_ptr<Kernel> make_layout_change(DataType type, const Sizes& sizes, Layout from, Layout to, Isa isa) {
  if (!from.blocked() && !to.blocked()) {
    if (type == DataType::kFloat) return make_channels_kernel(sizes, to.channels_last(), real_loops<float>(isa));
    if (byte_size(type) == 1) return make_channels_kernel(sizes, to.channels_last(), loops_for<LoopTables>(isa).u8);
  }
  const auto moved = byte_size(type) == 1 ? dnnl::memory::data_type::u8 : dnnl_type(type).value();
  return make_reorder(dnnl_desc(sizes, from, moved), dnnl_desc(sizes, to, moved));
}

}  // namespace rewright::cpu
