// Elements read at positions between others: grids, regions, deformed convolutions; and columns and pools put back.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <tuple>

#include "operators/pieces.h"
#include "operators/procedures.h"

namespace rewright {

namespace {

// ---- Grids

// A position mirrored at the borders until it is inside.
double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double distance = x < low ? low - x : x > high ? x - high : 0;
  if (distance == 0) return x;
  const double turns = std::floor(distance / range), rest = distance - turns * range;
  const bool from_low = (x < low) == (std::fmod(turns, 2) == 0);
  return from_low ? low + rest : high - rest;
}

struct Tap {
  std::int64_t at;  // -1: outside, 0 there
  double weight;
};
using Taps = std::vector<Tap>;

class GridAxis {
 public:
  GridAxis(std::int64_t size, bool align, std::string mode, std::string padding)
      : size_(size), mode_(std::move(mode)), padding_(std::move(padding)), align_(align) {
    low_ = align ? 0 : -0.5;
    high_ = static_cast<double>(size) - (align ? 1 : 0.5);
  }
  Taps taps(double position) const {
    const auto last = static_cast<double>(size_ - 1);
    double x = align_ ? (position + 1) / 2 * last : ((position + 1) * static_cast<double>(size_) - 1) / 2;
    if (!std::isfinite(x)) x = -1e9;
    x = std::clamp(x, -1e9, 1e9);
    if (mode_ == "nearest") x = std::nearbyint(x);
    const bool cubic = mode_ == "cubic";
    if (!cubic && (x < low_ || x > high_)) {
      if (padding_ == "border") x = std::clamp(x, 0.0, last);
      if (padding_ == "reflection") x = reflected(x, low_, high_);
    }
    if (mode_ == "nearest") return {{place(x), 1}};
    const double below = std::floor(x), r = x - below;
    if (!cubic) return {{place(below), 1 - r}, {place(below + 1), r}};
    constexpr double a = -0.75;
    const auto outer = [&](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    const auto inner = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    return {{place(below - 1), outer(r + 1)},
            {place(below), inner(r)},
            {place(below + 1), inner(1 - r)},
            {place(below + 2), outer(2 - r)}};
  }

 private:
  std::int64_t place(double x) const {
    if (x >= 0 && x <= static_cast<double>(size_ - 1)) return static_cast<std::int64_t>(x);
    if (size_ == 0 || padding_ == "zeros") return -1;
    const double inside = padding_ == "border" ? x : reflected(x, low_, high_);
    return static_cast<std::int64_t>(std::clamp(inside, 0.0, static_cast<double>(size_ - 1)));
  }
  std::int64_t size_;
  std::string mode_, padding_;
  bool align_;
  double low_, high_;
};

// The sum over all combinations of taps, one an axis, of the product of their weights and the element there.
double combined(const double* data, const std::vector<Taps>& taps, const Sizes& sizes, std::size_t axis, std::int64_t at,
                double weight) {
  if (axis == taps.size()) return weight * data[at];
  double total = 0;
  for (const Tap& tap : taps[axis])
    if (tap.at >= 0 && tap.weight != 0)
      total += combined(data, taps, sizes, axis + 1, at * sizes[axis] + tap.at, weight * tap.weight);
  return total;
}

void run_grid_sample(Call& call) {
  const Tensor &x = call.tensor(0), &grid = call.tensor(1);
  const std::size_t rank = x.sizes().size();
  if (rank < 3 || grid.sizes().size() != rank || grid.sizes().back() != static_cast<std::int64_t>(rank - 2) ||
      grid.sizes()[0] != x.sizes()[0])
    throw Error(ErrorCode::kBadInput, "the grid does not fit the input");
  std::string mode = call.text("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const std::string padding = call.text("padding_mode", "zeros");
  const Sizes spatial(x.sizes().begin() + 2, x.sizes().end());
  std::vector<GridAxis> axes;
  for (const std::int64_t size : spatial) axes.emplace_back(size, call.integer("align_corners", 0) != 0, mode, padding);
  Sizes sizes{x.sizes()[0], x.sizes()[1]};
  sizes.insert(sizes.end(), grid.sizes().begin() + 1, grid.sizes().end() - 1);
  std::vector<double> result = zeros(sizes);
  const std::vector<double> values = x.reals(), positions = grid.reals();
  const std::int64_t channels = sizes[1], image = element_count(spatial);
  const std::int64_t points = element_count(Sizes(sizes.begin() + 2, sizes.end()));
  for (std::int64_t n = 0; n < sizes[0] && !result.empty(); ++n)
    for (std::int64_t p = 0; p < points; ++p) {
      call.checkpoint();
      std::vector<Taps> taps;
      for (std::size_t a = 0; a < axes.size(); ++a)  // the grid's last coordinate is that of the first axis
        taps.push_back(axes[a].taps(positions[static_cast<std::size_t>(n * points + p) * axes.size() + axes.size() - 1 - a]));
      for (std::int64_t c = 0; c < channels && image > 0; ++c)
        result[static_cast<std::size_t>((n * channels + c) * points + p)] =
            combined(values.data() + (n * channels + c) * image, taps, spatial, 0, 0, 1);
    }
  call.give(Tensor::from_reals(x.type(), std::move(sizes), result));
}

// ---- Regions

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

// ---- Windows

struct Windows {
  Sizes kernel, strides, dilations, pads;  // pads: all begins, then all ends
  Windows(const Call& call, Sizes kernel_sizes) : kernel(std::move(kernel_sizes)) {
    const std::size_t rank = kernel.size();
    const auto list = [&](const char* attribute, std::size_t count, std::int64_t otherwise) {
      Sizes given = call.integers(attribute);
      if (given.empty()) given.assign(count, otherwise);
      if (given.size() != count) throw Error(ErrorCode::kBadInput, std::string(attribute) + " has a wrong number of entries");
      return given;
    };
    strides = list("strides", rank, 1), dilations = list("dilations", rank, 1), pads = list("pads", 2 * rank, 0);
    for (const Sizes* s : {&kernel, &strides, &dilations})
      for (const std::int64_t v : *s)
        if (v < 1 || v > kMostElements) throw Error(ErrorCode::kBadInput, "kernel, strides or dilations are not positive");
  }
  std::int64_t count(std::size_t axis, std::int64_t size) const {
    const std::int64_t room = size + pads[axis] + pads[axis + kernel.size()] - dilations[axis] * (kernel[axis] - 1) - 1;
    return room < 0 ? 0 : room / strides[axis] + 1;
  }
};

// Visits all positions of a box.
void for_each_position(const Sizes& sizes, const std::function<void(const Sizes&)>& visit) {
  if (element_count(sizes) == 0) return;
  Sizes at(sizes.size());
  while (true) {
    visit(at);
    std::size_t axis = sizes.size();
    while (axis > 0 && ++at[axis - 1] == sizes[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

std::int64_t offset_of(const Sizes& at, const Sizes& sizes) {
  std::int64_t place = 0;
  for (std::size_t a = 0; a < sizes.size(); ++a) place = place * sizes[a] + at[a];
  return place;
}

// Columns, each the elements of a window, added back where they were taken from.
void run_col2im(Call& call) {
  const Tensor& x = call.tensor(0);
  const Sizes image = call.integers(1), block = call.integers(2);
  const Windows windows(call, block);
  if (x.sizes().size() != 3 || image.size() != block.size())
    throw Error(ErrorCode::kBadInput, "its inputs do not fit together");
  const std::int64_t taps = element_count(block);
  Sizes counts, sizes{x.sizes()[0], taps == 0 ? 0 : x.sizes()[1] / taps};
  for (std::size_t a = 0; a < image.size(); ++a) counts.push_back(windows.count(a, image[a]));
  if (x.sizes()[1] % taps != 0 || element_count(counts) != x.sizes()[2])
    throw Error(ErrorCode::kBadInput, "the columns are not those of the windows");
  sizes.insert(sizes.end(), image.begin(), image.end());
  std::vector<double> result = zeros(sizes);
  const std::vector<double> values = x.reals();
  const std::int64_t area = element_count(image);
  for (std::int64_t plane = 0; plane < sizes[0] * sizes[1] && !result.empty(); ++plane)
    for_each_position(block, [&](const Sizes& tap) {
      call.checkpoint();
      const double* column = values.data() + (plane * taps + offset_of(tap, block)) * x.sizes()[2];
      for_each_position(counts, [&](const Sizes& window) {
        const double value = *column++;
        Sizes at(image.size());
        for (std::size_t a = 0; a < image.size(); ++a) {
          at[a] = window[a] * windows.strides[a] + tap[a] * windows.dilations[a] - windows.pads[a];
          if (at[a] < 0 || at[a] >= image[a]) return;
        }
        result[static_cast<std::size_t>(plane * area + offset_of(at, image))] += value;
      });
    });
  call.give(Tensor::from_reals(x.type(), std::move(sizes), result));
}

// Elements put where a MaxPool found them, 0 elsewhere; a given shape has the pooled one at its beginning.
void run_max_unpool(Call& call) {
  const Tensor& x = call.tensor(0);
  const std::vector<std::int64_t> indices = call.integers(1);
  const Windows windows(call, call.integers("kernel_shape"));
  if (x.sizes().size() != windows.kernel.size() + 2 || static_cast<std::int64_t>(indices.size()) != x.size())
    throw Error(ErrorCode::kBadInput, "its inputs do not fit together");
  Sizes sizes{x.sizes()[0], x.sizes()[1]};
  for (std::size_t a = 0; a < windows.kernel.size(); ++a)
    sizes.push_back((x.sizes()[a + 2] - 1) * windows.strides[a] + windows.kernel[a] - windows.pads[a] -
                    windows.pads[a + windows.kernel.size()]);
  std::vector<double> result = zeros(sizes);
  const std::vector<double> values = x.reals();
  for (std::size_t i = 0; i < values.size(); ++i)
    result[static_cast<std::size_t>(checked_index(indices[i], static_cast<std::int64_t>(result.size())))] = values[i];
  if (!call.has_input(2)) return call.give(Tensor::from_reals(x.type(), std::move(sizes), result));
  const Sizes wanted = call.integers(2);
  if (wanted.size() != sizes.size()) throw Error(ErrorCode::kBadInput, "output_shape has a wrong number of entries");
  std::vector<double> placed = zeros(wanted);
  std::size_t next = 0;
  for_each_position(sizes, [&](const Sizes& at) {
    const double value = result[next++];
    for (std::size_t a = 0; a < at.size(); ++a)
      if (at[a] >= wanted[a]) return;
    placed[static_cast<std::size_t>(offset_of(at, wanted))] = value;
  });
  call.give(Tensor::from_reals(x.type(), wanted, placed));
}

// The element between its four neighbours; those outside count 0.
double between(const double* image, std::int64_t height, std::int64_t width, double y, double x) {
  if (!(y > -1 && y < static_cast<double>(height) && x > -1 && x < static_cast<double>(width))) return 0;
  const double top = std::floor(y), left = std::floor(x);
  double total = 0;
  for (const double r : {top, top + 1})
    for (const double c : {left, left + 1}) {
      if (r < 0 || c < 0 || r >= static_cast<double>(height) || c >= static_cast<double>(width)) continue;
      total += (1 - std::fabs(y - r)) * (1 - std::fabs(x - c)) *
               image[static_cast<std::int64_t>(r) * width + static_cast<std::int64_t>(c)];
    }
  return total;
}

// A convolution whose taps are moved by offsets, and weighed by a mask. Inputs: x, weight, offsets, bias, mask.
void run_deform_conv(Call& call) {
  const Tensor &x = call.tensor(0), &w = call.tensor(1), &offset = call.tensor(2);
  if (x.sizes().size() != 4 || w.sizes().size() != 4)
    throw Error(ErrorCode::kUnsupported, "only two spatial axes are known here");
  const Windows windows(call, {w.sizes()[2], w.sizes()[3]});
  const std::int64_t groups = call.integer("group", 1), offset_groups = call.integer("offset_group", 1);
  const std::int64_t channels = x.sizes()[1], height = x.sizes()[2], width = x.sizes()[3], depth = w.sizes()[1];
  const std::int64_t taps = windows.kernel[0] * windows.kernel[1];
  const Sizes sizes{x.sizes()[0], w.sizes()[0], windows.count(0, height), windows.count(1, width)};
  if (groups < 1 || offset_groups < 1 || depth * groups != channels || sizes[1] % groups != 0 ||
      channels % offset_groups != 0 || offset.sizes() != Sizes{sizes[0], offset_groups * 2 * taps, sizes[2], sizes[3]})
    throw Error(ErrorCode::kBadInput, "the sizes of its inputs do not fit together");
  std::vector<double> result = zeros(sizes);
  const std::vector<double> values = x.reals(), weights = w.reals(), offsets = offset.reals();
  const std::vector<double> bias = call.has_input(3) ? call.reals(3) : std::vector<double>(static_cast<std::size_t>(sizes[1]));
  const std::vector<double> mask = call.has_input(4) ? call.reals(4) : std::vector<double>(offsets.size() / 2, 1);
  if (static_cast<std::int64_t>(bias.size()) != sizes[1] || mask.size() != offsets.size() / 2)
    throw Error(ErrorCode::kBadInput, "the sizes of its inputs do not fit together");
  const std::int64_t area = sizes[2] * sizes[3];
  for_each_position(sizes, [&](const Sizes& at) {
    call.checkpoint();
    const std::int64_t n = at[0], k = at[1], place = at[2] * sizes[3] + at[3];
    double total = bias[static_cast<std::size_t>(k)];
    for (std::int64_t d = 0; d < depth; ++d) {
      const std::int64_t c = k / (sizes[1] / groups) * depth + d, group = c / (channels / offset_groups);
      const double* image = values.data() + (n * channels + c) * height * width;
      for (std::int64_t t = 0; t < taps; ++t) {
        const std::int64_t row = t / windows.kernel[1], column = t % windows.kernel[1];
        const double* moved = offsets.data() + ((n * offset_groups + group) * 2 * taps + 2 * t) * area + place;
        const double y =
            static_cast<double>(at[2] * windows.strides[0] + row * windows.dilations[0] - windows.pads[0]) + moved[0];
        const double z =
            static_cast<double>(at[3] * windows.strides[1] + column * windows.dilations[1] - windows.pads[1]) + moved[area];
        const double weight = weights[static_cast<std::size_t>((k * depth + d) * taps + t)] *
                              mask[static_cast<std::size_t>(((n * offset_groups + group) * taps + t) * area + place)];
        total += weight * between(image, height, width, y, z);
      }
    }
    result[static_cast<std::size_t>(offset_of(at, sizes))] = total;
  });
  call.give(Tensor::from_reals(x.type(), sizes, result));
}

}  // namespace

void register_sampling(Procedures& p) {
  p.add("GridSample", run_grid_sample);
  p.add("RoiAlign", run_roi_align);
  p.add("Col2Im", run_col2im);
  p.add("MaxUnpool", run_max_unpool);
  p.add("DeformConv", run_deform_conv);
}

}  // namespace rewright
