// Elements read at positions between others, as many as the elements of another input say.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>

#include "operators/pieces.h"
#include "operators/procedures.h"

namespace rewright {

namespace {

// The four neighbours of a position and their weights; none far outside.
struct Neighbours {
  std::array<std::int64_t, 4> at{};
  std::array<double, 4> weight{};
};

std::optional<Neighbours> region_neighbours(double y, double x, std::int64_t height, std::int64_t width) {
  if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width))) return std::nullopt;
  const auto split = [](double v, std::int64_t size) {
    v = std::max(v, 0.0);
    auto low = static_cast<std::int64_t>(v);
    if (low >= size - 1) return std::tuple(size - 1, size - 1, 0.0);
    return std::tuple(low, low + 1, v - static_cast<double>(low));
  };
  const auto [top, bottom, dy] = split(y, height);
  const auto [left, right, dx] = split(x, width);
  return Neighbours{{top * width + left, top * width + right, bottom * width + left, bottom * width + right},
                    {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx}};
}

void run_roi_align(Call& call) {
  const Tensor &x = call.tensor(0), &rois = call.tensor(1);
  if (x.sizes().size() != 4 || rois.sizes().size() != 2 || rois.sizes()[1] != 4)
    throw Error(ErrorCode::kBadInput, "the input must have rank 4, rois shape [n, 4]");
  const std::vector<std::int64_t> batches = call.integers(2);
  const std::int64_t count = rois.sizes()[0], channels = x.sizes()[1], height = x.sizes()[2], width = x.sizes()[3];
  if (static_cast<std::int64_t>(batches.size()) != count) throw Error(ErrorCode::kBadInput, "batch_indices has a wrong size");
  const std::string default_mode = call.opset() < 16 ? "output_half_pixel" : "half_pixel";
  const bool half = call.text("coordinate_transformation_mode", default_mode) == "half_pixel";
  const bool takes_max = call.text("mode", "avg") == "max";
  const std::int64_t rows = call.integer("output_height", 1), columns = call.integer("output_width", 1);
  const std::int64_t ratio = call.integer("sampling_ratio", 0);
  const double scale = call.real("spatial_scale", 1);
  const Sizes sizes{count, channels, rows, columns};
  std::vector<double> result = zeros(sizes);
  const std::vector<double> values = x.reals(), boxes = rois.reals();
  for (std::int64_t n = 0; n < count && !result.empty(); ++n) {
    const double* box = boxes.data() + 4 * n;
    const double shift = half ? 0.5 : 0, left = box[0] * scale - shift, top = box[1] * scale - shift;
    double box_width = box[2] * scale - shift - left, box_height = box[3] * scale - shift - top;
    if (!half) box_width = std::max(box_width, 1.0), box_height = std::max(box_height, 1.0);
    const double bin_height = box_height / static_cast<double>(rows), bin_width = box_width / static_cast<double>(columns);
    const auto samples = [&](double bin) {
      constexpr double kMostSamples = 1 << 16;
      if (!(bin < kMostSamples)) throw Error(ErrorCode::kBadInput, "a region is too big to be sampled");
      return ratio > 0 ? ratio : std::max<std::int64_t>(static_cast<std::int64_t>(std::ceil(bin)), 0);
    };
    const std::int64_t down = samples(bin_height), across = samples(bin_width);
    const std::int64_t batch = checked_index(batches[static_cast<std::size_t>(n)], x.sizes()[0]);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t q = 0; q < columns; ++q) {
        call.checkpoint();
        std::vector<Neighbours> taps;
        for (std::int64_t i = 0; i < down; ++i)
          for (std::int64_t k = 0; k < across; ++k) {
            const double y = top + static_cast<double>(r) * bin_height +
                             (static_cast<double>(i) + 0.5) * bin_height / static_cast<double>(down);
            const double z = left + static_cast<double>(q) * bin_width +
                             (static_cast<double>(k) + 0.5) * bin_width / static_cast<double>(across);
            if (const auto found = region_neighbours(y, z, height, width)) taps.push_back(*found);
          }
        for (std::int64_t c = 0; c < channels && height * width > 0; ++c) {
          const double* image = values.data() + (batch * channels + c) * height * width;
          double total = 0, largest = taps.empty() ? 0 : -HUGE_VAL;
          for (const Neighbours& t : taps)
            for (std::size_t k = 0; k < 4; ++k) {
              const double v = t.weight[k] * image[t.at[k]];
              total += v;
              largest = std::max(largest, v);
            }
          const auto all = static_cast<double>(std::max<std::int64_t>(down * across, 1));
          result[static_cast<std::size_t>(((n * channels + c) * rows + r) * columns + q)] = takes_max ? largest : total / all;
        }
      }
  }
  call.give(Tensor::from_reals(x.type(), sizes, result));
}

}  // namespace

void register_sampling(Procedures& p) { p.add("RoiAlign", run_roi_align); }

}  // namespace rewright
