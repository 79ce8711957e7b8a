#include "runtime/cpu/kernels/convolution/convolution_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/loops/fourier_loops.h"

namespace rewright::cpu {

namespace {

// Rates of a core, measured on a Zen 5 processor with AVX-512 (and AVX2 on the same one). Only their ratios matter.
struct Rates {
  double multiplications;  // multiply-adds per nanosecond
  double vector;           // floats in a vector
};
Rates rates(Isa isa) {
  if (isa == Isa::kAvx512) return {115, 16};
  return isa == Isa::kAvx2 ? Rates{56, 8} : Rates{14, 4};
}
constexpr double kWeightBytes = 27;         // per nanosecond, from the third-level cache
constexpr double kNearBytes = 512 << 10;    // fits into the second-level cache
constexpr double kWorthwhile = 0.9;         // of the library's time
constexpr double kWorthAnotherForm = 0.75;  // of the direct convolution's time
constexpr double kClose = 2;                // times the fastest: may still be faster in a measurement
constexpr double kShort = 2.5e6;            // multiplications of 1x1 convolutions that are not worth a step
constexpr double kManyWeights = 2 << 20;    // bytes that each thread would read
constexpr std::int64_t kFewPixels = 64, kEarlyWeights = 60000;
constexpr std::int64_t kMostProduct = 16 << 20;  // floats each thread keeps of the products of an image row with the window
constexpr double kRun = 1, kAddedVector = 0.5, kAddedFloat = 0.35;  // nanoseconds to add a run of floats to a result
constexpr double kByChannel = 0.5;                                  // of the rate, for depthwise convolutions
constexpr double kMostSpectra = 160 << 20;                          // bytes of transformed weights
constexpr double kFourierPass = 0.9;            // nanoseconds for a pixel of a channel vector, in each of log2(size) passes
constexpr double kTransformation[] = {15, 40};  // nanoseconds for a channel vector of a tile, in either direction: tiles 2, 4

bool by_channel(const ImageShape& s) { return s.group > 1 && s.group == s.channels && s.group == s.outputs; }

double direct_nanoseconds(const ImageShape& s, const Rates& r) {
  const auto window = static_cast<double>(s.kernel[0] * s.kernel[1] * (s.channels / s.group));
  return window * static_cast<double>(s.outputs) * static_cast<double>(s.images * s.out_height * s.out_width) /
         (by_channel(s) ? kByChannel * r.multiplications : r.multiplications);
}

double up(double n, double unit) { return static_cast<double>(static_cast<std::int64_t>((n + unit - 1) / unit)); }

double winograd_nanoseconds(const ImageShape& s, int tile, const Rates& r) {
  const double points = (tile + 2) * (tile + 2), channels = static_cast<double>(s.channels);
  const double tiles =
      static_cast<double>(s.images) * up(static_cast<double>(s.out_height), tile) * up(static_cast<double>(s.out_width), tile);
  const double outputs = up(static_cast<double>(s.outputs), r.vector) * r.vector;
  const double bytes = points * channels * outputs * sizeof(float);
  return points * tiles * channels * outputs / r.multiplications + (bytes > kNearBytes ? bytes / kWeightBytes : 0) +
         tiles * (up(channels, r.vector) + outputs / r.vector) * kTransformation[tile / 2 - 1];
}

double spectra_bytes(const ImageShape& s, std::int64_t size, const Rates& r) {
  return 2 * sizeof(float) * static_cast<double>(FourierLoops::points(size) * (s.channels / s.group)) *
         up(static_cast<double>(s.outputs), r.vector) * r.vector;
}

double fourier_nanoseconds(const ImageShape& s, std::int64_t size, Isa isa) {
  const Rates r = rates(isa);
  const FourierTiles t = fourier_tiles(s, size, isa);
  const double tiles = static_cast<double>(t.count), blocks = up(tiles, static_cast<double>(t.together));
  const double points = static_cast<double>(FourierLoops::points(size)), passes = std::log2(static_cast<double>(size));
  const double outputs = up(static_cast<double>(s.outputs), r.vector);
  const double vectors = up(static_cast<double>(s.channels), r.vector) + outputs;
  const double transformed = tiles * vectors * static_cast<double>(size * size) * passes * kFourierPass;
  if (by_channel(s)) return transformed;
  // Data beyond the second-level cache: weights for each block; spectra of tiles, written and read.
  const double weights = spectra_bytes(s, size, r), spectra = 2 * sizeof(float) * points * vectors * r.vector;
  double bytes = weights > kNearBytes ? weights * blocks : 0;
  if (spectra * static_cast<double>(t.together) > kNearBytes) bytes += 2 * spectra * tiles;
  return transformed + bytes / kWeightBytes +
         4 * points * tiles * static_cast<double>(s.channels) * outputs * r.vector / r.multiplications;
}

struct Fourier {
  std::int64_t size = 0;
  double nanoseconds = std::numeric_limits<double>::infinity();
};
Fourier fastest_fourier(const ImageShape& s, Isa isa) {
  Fourier best;
  for (const std::int64_t size : FourierLoops::kSizes) {
    if (!is_fourier(s, size) || spectra_bytes(s, size, rates(isa)) > kMostSpectra) continue;
    const double nanoseconds = fourier_nanoseconds(s, size, isa);
    if (nanoseconds < best.nanoseconds) best = {size, nanoseconds};
  }
  return best;
}

// The applicable transforms, with their times.
std::vector<std::pair<ConvolutionMethod, double>> transforms_of(const ImageShape& s, Isa isa) {
  const Rates r = rates(isa);
  std::vector<std::pair<ConvolutionMethod, double>> result;
  if (is_winograd(s)) {
    result.emplace_back(ConvolutionMethod::kWinograd2, winograd_nanoseconds(s, 2, r));
    result.emplace_back(ConvolutionMethod::kWinograd4, winograd_nanoseconds(s, 4, r));
  }
  if (const Fourier fourier = fastest_fourier(s, isa); fourier.size > 0)
    result.emplace_back(ConvolutionMethod::kFourier, fourier.nanoseconds);
  return result;
}

// So many weights for few pixels come from memory, and the direct convolution asks for them early: a tenth of resnet18's time,
// 2 to 4% of resnet50's, mobilenet_v2's and repvit_m0_9's on an Intel Xeon with AVX-512.
bool pays_to_ask_early(const ImageShape& s, Isa isa) {
  return isa == Isa::kAvx512 && s.group == 1 && s.images * s.out_height * s.out_width <= kFewPixels &&
         s.channels * s.outputs * s.kernel[0] * s.kernel[1] >= kEarlyWeights;
}

}  // namespace

std::int64_t fourier_size(const ImageShape& s, Isa isa) { return fastest_fourier(s, isa).size; }

ConvolutionMethod fastest_convolution(const ImageShape& s, Isa isa, bool transforms) {
  if (is_in_small_groups(s, isa)) return ConvolutionMethod::kGrouped;
  // Here the library's kernels lose a fifth.
  const bool strided = s.strides[0] > 1 || s.strides[1] > 1;
  if (strided && s.group > 1 && s.group < s.channels) return ConvolutionMethod::kDirect;
  // Several outputs for each channel, which it has plain loops for.
  if (s.group > 1 && s.group == s.channels && s.outputs > s.channels) return ConvolutionMethod::kDirect;
  const ConvolutionMethod plain = pays_to_ask_early(s, isa) ? ConvolutionMethod::kDirect : ConvolutionMethod::kLibrary;
  if (!transforms) return plain;
  const Rates r = rates(isa);
  std::pair<ConvolutionMethod, double> best{plain, kWorthwhile * direct_nanoseconds(s, r)};
  for (const auto& method : transforms_of(s, isa))
    if (method.second < best.second) best = method;
  return best.first;
}

ConvolutionMethod open_convolution(const ImageShape& s, Isa isa, bool transforms) {
  const ConvolutionMethod fastest = fastest_convolution(s, isa, transforms);
  if (fastest == ConvolutionMethod::kLibrary) return by_channel(s) ? ConvolutionMethod::kByChannel : ConvolutionMethod::kDirect;
  if (fastest != ConvolutionMethod::kWinograd2 && fastest != ConvolutionMethod::kWinograd4) return fastest;
  const Rates r = rates(isa);
  return winograd_nanoseconds(s, 4, r) < kWorthAnotherForm * direct_nanoseconds(s, r) ? ConvolutionMethod::kWinograd4
                                                                                      : ConvolutionMethod::kDirect;
}

std::vector<ConvolutionMethod> close_convolutions(const ImageShape& s, Isa isa, bool transforms) {
  std::vector<std::pair<ConvolutionMethod, double>> methods;
  const Rates r = rates(isa);
  const double direct = direct_nanoseconds(s, r);
  methods.emplace_back(ConvolutionMethod::kLibrary, direct);
  methods.emplace_back(ConvolutionMethod::kDirect, direct);
  if (is_in_small_groups(s, isa)) methods.emplace_back(ConvolutionMethod::kGrouped, direct);
  if (transforms)
    for (const auto& method : transforms_of(s, isa)) methods.push_back(method);
  double least = direct;
  for (const auto& [method, nanoseconds] : methods) least = std::min(least, nanoseconds);
  std::vector<ConvolutionMethod> result;
  for (const auto& [method, nanoseconds] : methods)
    if (method == ConvolutionMethod::kLibrary || nanoseconds <= kClose * least) result.push_back(method);
  return result;
}

std::string_view name(ConvolutionMethod method) {
  switch (method) {
    case ConvolutionMethod::kLibrary:
      return "oneDNN";
    case ConvolutionMethod::kDirect:
      return "direct";
    case ConvolutionMethod::kGrouped:
      return "grouped";
    case ConvolutionMethod::kWinograd2:
      return "F(2x2)";
    case ConvolutionMethod::kWinograd4:
      return "F(4x4)";
    case ConvolutionMethod::kFourier:
      return "Fourier";
    case ConvolutionMethod::kByChannel:
      return "by channel";
  }
  return "?";
}

bool pays_to_join(const ImageShape& s) {
  return static_cast<double>(s.channels) * static_cast<double>(s.outputs) *
             static_cast<double>(s.images * s.out_height * s.out_width) <=
         kShort;
}

bool pays_as_product(const ImageShape& s, Isa isa, bool slow) {
  if (s.width * s.kernel[0] * s.kernel[1] * s.outputs > kMostProduct) return false;
  if (slow) return true;
  const Rates r = rates(isa);
  const auto pixels = static_cast<double>(s.images * s.height * s.width), channels = static_cast<double>(s.channels);
  const auto window = static_cast<double>(s.kernel[0] * s.kernel[1]), outputs = static_cast<double>(s.outputs);
  const std::int64_t run = s.outputs * (s.dilations[1] == 1 ? s.kernel[1] : 1), lanes = static_cast<std::int64_t>(r.vector);
  const double runs = pixels * window * outputs / static_cast<double>(run);
  const double added =
      runs * (kRun + kAddedVector * static_cast<double>(run / lanes) + kAddedFloat * static_cast<double>(run % lanes));
  const double product = pixels * channels * up(window * outputs, r.vector) * r.vector / r.multiplications + added;
  return product < kWorthwhile * pixels * channels * window * up(outputs, r.vector) * r.vector / r.multiplications;
}

bool pays_to_share_weights(const ImageShape& s, int threads) {
  const double weights = static_cast<double>(s.outputs * s.kernel[0] * s.kernel[1]) * static_cast<double>(s.channels / s.group);
  return threads > 1 && sizeof(float) * weights >= kManyWeights && s.images * s.out_height * s.out_width <= kFewPixels;
}

}  // namespace rewright::cpu
