// Convolutions with small groups, on vectors of neighbouring channels.
#include <algorithm>

#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/loops/convolution_loops.h"

namespace rewright::cpu {

namespace {

constexpr std::int64_t kTilePixels = 4;
constexpr double kMultiplications = 50;  // per nanosecond

class GroupedConvolution final : public Kernel {
 public:
  GroupedConvolution(const ImageShape& shape, const Weights& weights, Finish finish, Isa isa, int threads)
      : s_(shape),
        finish_(std::move(finish)),
        loops_(loops_for<ConvolutionLoops>(isa)),
        threads_(threads),
        zeros_(static_cast<std::size_t>(s_.channels)) {
    const std::int64_t channels = s_.channels, window = s_.kernel[0] * s_.kernel[1], group = channels / s_.group;
    // [vectors of channels][window][group][lanes]
    const std::string how = "grouped " + std::to_string(loops_.lanes);
    weights_ =
        weights.prepared(how, sizeof(float) * static_cast<std::size_t>(channels * window * group), [&](std::byte* bytes) {
          const Tensor plain = weights.plain();
          const float* const w = plain.data<float>().data();
          float* to = reinterpret_cast<float*>(bytes);
          for (std::int64_t first = 0; first < channels; first += loops_.lanes)
            for (std::int64_t k = 0; k < window; ++k)
              for (std::int64_t e = 0; e < group; ++e)
                for (std::int64_t c = first; c < first + loops_.lanes; ++c) *to++ = w[(c * group + e) * window + k];
        });
    if (finish_.bias.empty()) finish_.bias.assign(static_cast<std::size_t>(channels), 0);
    columns_ = (kTilePixels - 1) * s_.strides[1] + s_.kernel[1];
  }

  // The pixels of a tile's windows, for each thread.
  std::size_t scratch_bytes() const override {
    return sizeof(float*) * static_cast<std::size_t>(threads_ * s_.kernel[0] * columns_);
  }

  void run(const Call& call) const override {
    const auto pixels = reinterpret_cast<const float**>(call.scratch);
    const std::int64_t row_elements = s_.out_width * s_.outputs;
    const double multiplications =
        static_cast<double>(rows() * row_elements * s_.kernel[0] * s_.kernel[1] * s_.channels / s_.group);
    call.workers.for_each(rows(), multiplications / kMultiplications, [&](std::int64_t row, int thread) {
      compute(call, row, pixels + thread * s_.kernel[0] * columns_);
      float* const y = reinterpret_cast<float*>(call.outputs[0]) + row * row_elements;
      if (finish_.function) finish_.function(y, row_elements);
    });
  }

 private:
  std::int64_t rows() const { return s_.images * s_.out_height; }

  void compute(const Call& call, std::int64_t row, const float** pixels) const {
    // The window's rows inside the image.
    const std::int64_t top = row % s_.out_height * s_.strides[0] - s_.pads_begin[0], d = s_.dilations[0];
    const std::int64_t from = top < 0 ? std::min(s_.kernel[0], (-top + d - 1) / d) : 0;
    const std::int64_t to = std::clamp<std::int64_t>((s_.height - top + d - 1) / d, from, s_.kernel[0]);
    const float* const x = reinterpret_cast<const float*>(call.inputs[0]);
    const std::int64_t image = row / s_.out_height, y = row * s_.out_width * s_.outputs;
    ConvolutionLoops::GroupTile t{};
    t.pixels = pixels;
    t.height = to - from;
    t.stride = s_.strides[1];
    t.group = s_.channels / s_.group;
    t.y_stride = s_.outputs;
    t.low = finish_.low;
    t.high = finish_.high;
    for (std::int64_t first = 0; first < s_.out_width; first += kTilePixels) {
      const std::int64_t q = std::min(first, s_.out_width - kTilePixels);  // the last tile may overlap the one before
      const float** pixel = pixels;
      for (std::int64_t i = from; i < to; ++i)
        for (std::int64_t j = 0; j < columns_; ++j) {
          const std::int64_t column = q * t.stride - s_.pads_begin[1] + j;
          const bool inside = column >= 0 && column < s_.width;
          const std::int64_t at = (image * s_.height + top + i * d) * s_.width + column;
          *pixel++ = inside ? x + at * s_.channels : zeros_.data();
        }
      for (std::int64_t c = 0; c < s_.channels; c += loops_.lanes) {
        const std::int64_t at = y + q * s_.outputs + c;
        t.channel = c;
        t.w = reinterpret_cast<const float*>(weights_.bytes().data()) +
              (c * s_.kernel[0] + from * loops_.lanes) * s_.kernel[1] * t.group;
        t.y = reinterpret_cast<float*>(call.outputs[0]) + at;
        t.bias = finish_.bias.data() + c;
        t.addend = finish_.addend ? reinterpret_cast<const float*>(call.inputs[1]) + at : nullptr;
        loops_.group_tile(t);
      }
    }
  }

  ImageShape s_;
  Finish finish_;
  const ConvolutionLoops& loops_;
  int threads_;
  std::vector<float> zeros_;
  Tensor weights_;
  std::int64_t columns_;  // of a tile's windows
};

}  // namespace

bool is_in_small_groups(const ImageShape& s, Isa isa) {
  const std::int64_t group = s.channels / s.group, lanes = loops_for<ConvolutionLoops>(isa).lanes;
  return s.outputs == s.channels && (group == 4 || group == 8) && lanes % group == 0 && s.channels % lanes == 0 &&
         s.kernel[1] == 3 && s.strides[1] <= 2 && s.dilations[1] == 1 && s.out_width >= kTilePixels;
}

std::unique_ptr<Kernel> make_grouped_convolution(const ImageShape& shape, const Weights& weights, Finish finish, Isa isa,
                                                 int threads) {
  return std::make_unique<GroupedConvolution>(shape, weights, std::move(finish), isa, threads);
}

}  // namespace rewright::cpu
