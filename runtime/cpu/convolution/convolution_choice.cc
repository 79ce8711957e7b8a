#include "runtime/cpu/convolution/convolution_choice.h"

#include <algorithm>

namespace rewright::cpu {

namespace {

// Of a core, measured on a Zen 5 processor with AVX-512; of AVX2 on the same one. What matters is their proportion.
struct Rates {
  double multiplications;  // and additions, a nanosecond
  double vector;           // floats of a vector
};
Rates rates(Isa isa) {
  if (isa == Isa::kAvx512) return {115, 16};
  return isa == Isa::kAvx2 ? Rates{56, 8} : Rates{14, 4};
}
constexpr double kWeightBytes = 27;       // a nanosecond, from the third-level cache
constexpr double kNearBytes = 512 << 10;  // that stay in the second-level cache
constexpr double kWorthwhile = 0.9;       // of the library's time
constexpr double kShort = 2.5e6;          // multiplications of a 1x1 convolution that are no step of their own
constexpr double kManyWeights = 2 << 20;  // bytes that each thread would read
constexpr std::int64_t kFewPixels = 64;
constexpr double kTransformation[] = {15, 40};  // nanoseconds for a vector of channels of a tile, to or fro: tiles 2, 4

double winograd_nanoseconds(const PictureShape& s, int tile, const Rates& r) {
  const auto up = [](double n, double unit) { return static_cast<double>(static_cast<std::int64_t>((n + unit - 1) / unit)); };
  const double points = (tile + 2) * (tile + 2), channels = static_cast<double>(s.channels);
  const double tiles = static_cast<double>(s.pictures) * up(static_cast<double>(s.out_height), tile) *
                       up(static_cast<double>(s.out_width), tile);
  const double outputs = up(static_cast<double>(s.outputs), r.vector) * r.vector;
  const double bytes = points * channels * outputs * sizeof(float);
  return points * tiles * channels * outputs / r.multiplications + (bytes > kNearBytes ? bytes / kWeightBytes : 0) +
         tiles * (up(channels, r.vector) + outputs / r.vector) * kTransformation[tile / 2 - 1];
}

}  // namespace

ConvolutionMethod fastest_convolution(const PictureShape& s, Isa isa, bool winograd) {
  if (is_in_small_groups(s, isa)) return ConvolutionMethod::kGrouped;
  // Where the library's kernels lose a fifth.
  const bool strided = s.strides[0] > 1 || s.strides[1] > 1;
  if (strided && s.group > 1 && s.group < s.channels) return ConvolutionMethod::kDirect;
  if (!winograd || !is_winograd(s)) return ConvolutionMethod::kLibrary;
  const Rates r = rates(isa);
  const double direct = 9.0 * static_cast<double>(s.channels) * static_cast<double>(s.outputs) *
                        static_cast<double>(s.pictures * s.out_height * s.out_width) / r.multiplications;
  const double two = winograd_nanoseconds(s, 2, r), four = winograd_nanoseconds(s, 4, r);
  if (std::min(two, four) > kWorthwhile * direct) return ConvolutionMethod::kLibrary;
  return two < four ? ConvolutionMethod::kWinograd2 : ConvolutionMethod::kWinograd4;
}

bool pays_to_join(const PictureShape& s) {
  return static_cast<double>(s.channels) * static_cast<double>(s.outputs) *
             static_cast<double>(s.pictures * s.out_height * s.out_width) <=
         kShort;
}

bool pays_to_share_weights(const PictureShape& s, int threads) {
  const double weights = static_cast<double>(s.outputs * s.kernel[0] * s.kernel[1]) * static_cast<double>(s.channels / s.group);
  return threads > 1 && sizeof(float) * weights >= kManyWeights && s.pictures * s.out_height * s.out_width <= kFewPixels;
}

}  // namespace rewright::cpu
