// Regions of interest: interpolated samples of images, in regions that another input gives.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "operators/formulas.h"
#include "operators/procedures/pixels.h"
#include "operators/procedures/procedures.h"
#include "operators/source_builder.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

// Elements of an axis with weights: two for each sample, and none for one far outside.
struct Taps {
  std::vector<std::int64_t> at;
  std::vector<double> weight;
};

void add_sample(Taps& taps, double position, std::int64_t size) {
  if (size == 0 || !(position >= -1 && position <= static_cast<double>(size))) return;
  position = std::max(position, 0.0);
  const auto low = static_cast<std::int64_t>(position);
  const bool is_last = low >= size - 1;
  const double beyond = is_last ? 0 : position - static_cast<double>(low);
  taps.at.insert(taps.at.end(), {is_last ? size - 1 : low, is_last ? size - 1 : low + 1});
  taps.weight.insert(taps.weight.end(), {1 - beyond, beyond});
}

// Each element once, with the sum of its weights.
void merge(Taps& taps) {
  std::size_t kept = 0;
  for (std::size_t t = 0; t < taps.at.size(); ++t) {
    const auto end = taps.at.begin() + static_cast<std::ptrdiff_t>(kept), known = std::find(taps.at.begin(), end, taps.at[t]);
    if (known != end) {
      taps.weight[static_cast<std::size_t>(known - taps.at.begin())] += taps.weight[t];
      continue;
    }
    taps.at[kept] = taps.at[t];
    taps.weight[kept++] = taps.weight[t];
  }
  taps.at.resize(kept), taps.weight.resize(kept);
}

typedef Together<double>::Type Lanes;
constexpr std::int64_t kLanes = Together<double>::kCount;

// to[c] += factor * from[c]
void add_scaled(double* to, const double* from, double factor, std::int64_t count) {
  std::int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes)
    *reinterpret_cast<Lanes*>(to + c) += factor * *reinterpret_cast<const Lanes*>(from + c);
  for (; c < count; ++c) to[c] += factor * from[c];
}

// to[c] = max(to[c], factor * from[c])
void take_largest(double* to, const double* from, double factor, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) to[c] = std::max(to[c], factor * from[c]);
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
  const Sizes sizes{count, channels, rows, columns}, one{channels, rows, columns};
  Tensor result(x.type(), sizes);
  if (result.size() == 0) return call.give(std::move(result));
  const std::vector<double> boxes = rois.reals();
  std::vector<double> sums(static_cast<std::size_t>(element_count(one))), region(sums.size());
  std::vector<Taps> down_taps(static_cast<std::size_t>(rows)), across_taps(static_cast<std::size_t>(columns));
  // Finds the taps of region n; returns its image and the samples of a bin.
  const auto find_region = [&](std::int64_t n, bool merges) {
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
    // A sample's weights are products of those along both axes.
    const auto find_taps = [&](std::vector<Taps>& bins, double begin, double bin, std::int64_t in_bin, std::int64_t size) {
      for (std::size_t b = 0; b < bins.size(); ++b) {
        bins[b].at.clear(), bins[b].weight.clear();
        for (std::int64_t i = 0; i < in_bin; ++i)
          add_sample(bins[b],
                     begin + static_cast<double>(b) * bin + (static_cast<double>(i) + 0.5) * bin / static_cast<double>(in_bin),
                     size);
        if (merges) merge(bins[b]);
      }
    };
    find_taps(down_taps, top, bin_height, down, height);
    find_taps(across_taps, left, bin_width, across, width);
    return std::pair(batch, down * across);
  };
  Pixels<double> pixels(x.sizes());
  for (std::int64_t n = 0; n < count; ++n) {
    call.checkpoint();
    const std::int64_t image = find_region(n, false).first;
    std::int64_t first = width, behind = 0;
    for (const Taps& taps : across_taps)
      for (const std::int64_t at : taps.at) first = std::min(first, at), behind = std::max(behind, at + 1);
    for (const Taps& taps : down_taps)
      for (const std::int64_t at : taps.at) pixels.need(image, at, first, behind);
  }
  // Elements that are not finite count with each of their weights: 0 times infinity is NaN.
  const bool finite = x.type() == DataType::kFloat ? pixels.fill(x.data<float>().data()) : pixels.fill(x.reals().data());
  const bool merges = finite && !takes_max;
  for (std::int64_t n = 0; n < count; ++n) {
    const auto [batch, samples] = find_region(n, merges);
    const double divisor = takes_max ? 1 : static_cast<double>(std::max<std::int64_t>(samples, 1));
    double* to = sums.data();
    for (const Taps& rows_of : down_taps)
      for (const Taps& columns_of : across_taps) {
        call.checkpoint();
        const bool any = !rows_of.at.empty() && !columns_of.at.empty();
        std::fill_n(to, channels, takes_max && any ? -HUGE_VAL : 0);
        for (std::size_t r = 0; r < rows_of.at.size(); ++r)
          for (std::size_t c = 0; c < columns_of.at.size(); ++c)
            (takes_max ? take_largest : add_scaled)(to, pixels.at(batch, rows_of.at[r], columns_of.at[c]),
                                                    rows_of.weight[r] * columns_of.weight[c] / divisor, channels);
        to += channels;
      }
    transpose(region.data(), rows * columns, sums.data(), channels, rows * columns, channels);
    const Tensor made = Tensor::from_reals(x.type(), one, region);
    std::memcpy(result.mutable_bytes().data() + static_cast<std::size_t>(n) * made.byte_count(), made.bytes().data(),
                made.byte_count());
  }
  call.give(std::move(result));
}

// ---- MaxRoiPool

// Elements of an axis of the image, from the first one up to behind the last.
using Bin = std::pair<std::int64_t, std::int64_t>;

// Bins of a region along an axis, as elements from first up to last. Regions have whole sizes and include both ends;
// neighbouring bins share an element if the size is no multiple of their number. Bins whose limits are not numbers are empty,
// as those of an infinite region. The graph (members_of) has the same roundings.
template <class T>
std::vector<Bin> bins_of(T begin, T end, std::int64_t bins, std::int64_t size) {
  const T length = std::max(end - begin + 1, T(1)), bin = length / static_cast<T>(bins);
  const auto inside = [&](T at) {
    return std::min(static_cast<std::int64_t>(std::clamp(at, T(0), static_cast<T>(size))), size);
  };
  std::vector<Bin> result;
  for (std::int64_t b = 0; b < bins; ++b) {
    const T first = std::floor(static_cast<T>(b) * bin) + begin, behind = std::ceil(static_cast<T>(b + 1) * bin) + begin;
    if (std::isnan(first) || std::isnan(behind))
      result.emplace_back(0, 0);
    else
      result.emplace_back(inside(first), inside(behind));
  }
  return result;
}

// The number of the image of a region. Throws Error(kBadInput) if there is no such image.
std::int64_t image_of_region(double number, std::int64_t images) {
  constexpr double kMost = 0x1p62;
  if (!(std::abs(number) < kMost)) throw Error(ErrorCode::kBadInput, "a region's image is number " + std::to_string(number));
  return checked_index(static_cast<std::int64_t>(number), images);
}

// to[c] = the largest element of channel c in the bin; NaN is the largest, if there may be any. Some channels at a time go
// through all pixels, so that their maxima stay in registers.
template <bool kFinite, class T>
void maximum_of_bin(T* to, const Pixels<T>& pixels, std::int64_t image, Bin rows, Bin columns, std::int64_t channels) {
  using V = typename Together<T>::Type;
  constexpr std::int64_t kVectors = 8, kCount = kVectors * Together<T>::kCount;
  const auto pixel = [&](std::int64_t c) { return pixels.at(image, rows.first, columns.first) + c; };
  const std::int64_t across = pixels.across(), down = pixels.down();
  std::int64_t c = 0;
  for (; c + kCount <= channels; c += kCount) {
    const T* row = pixel(c);
    V found[kVectors];
    for (std::int64_t v = 0; v < kVectors; ++v) found[v] = reinterpret_cast<const V*>(row)[v];
    for (std::int64_t r = rows.first; r < rows.second; ++r, row += down) {
      const T* x = row;
      for (std::int64_t q = columns.first; q < columns.second; ++q, x += across)
        for (std::int64_t v = 0; v < kVectors; ++v) {
          const V next = reinterpret_cast<const V*>(x)[v];
          if constexpr (kFinite)
            found[v] = next > found[v] ? next : found[v];
          else
            found[v] = ((next > found[v]) | (next != next)) ? next : found[v];
        }
    }
    for (std::int64_t v = 0; v < kVectors; ++v) reinterpret_cast<V*>(to + c)[v] = found[v];
  }
  for (; c < channels; ++c) {
    const T* row = pixel(c);
    T found = *row;
    for (std::int64_t r = rows.first; r < rows.second; ++r, row += down)
      for (std::int64_t q = columns.first; q < columns.second; ++q) {
        const T next = row[(q - columns.first) * across];
        if (next > found || next != next) found = next;
      }
    to[c] = found;
  }
}

// Coordinates are of type C.
template <class C, class T>
void pool_regions(Call& call, const T* x, T* y) {
  const Sizes& sizes = call.tensor(0).sizes();
  const std::int64_t channels = sizes[1];
  const std::vector<std::int64_t> bins = call.integers("pooled_shape");
  const std::vector<double> rois = call.reals(1);
  const auto scale = static_cast<C>(call.real("spatial_scale", 1));
  struct Region {
    std::int64_t image;
    std::vector<Bin> down, across;
  };
  const auto region_at = [&](std::size_t n) {
    const auto corner = [&](std::size_t k) { return std::round(static_cast<C>(rois[n + k]) * scale); };
    return Region{image_of_region(rois[n], sizes[0]), bins_of(corner(2), corner(4), bins[0], sizes[2]),
                  bins_of(corner(1), corner(3), bins[1], sizes[3])};
  };
  Pixels<T> pixels(sizes);
  for (std::size_t n = 0; n + 5 <= rois.size(); n += 5) {
    call.checkpoint();
    const Region region = region_at(n);
    for (const auto& [top, bottom] : region.down)
      for (std::int64_t r = top; r < bottom; ++r)
        for (const auto& [left, right] : region.across)
          if (left < right) pixels.need(region.image, r, left, right);
  }
  const auto maximum = pixels.fill(x) ? maximum_of_bin<true, T> : maximum_of_bin<false, T>;
  std::vector<T> found(static_cast<std::size_t>(bins[0] * bins[1] * channels));
  for (std::size_t n = 0; n + 5 <= rois.size(); n += 5) {
    call.checkpoint();
    const Region region = region_at(n);
    T* to = found.data();
    for (const Bin& rows : region.down)
      for (const Bin& columns : region.across) {
        if (rows.first >= rows.second || columns.first >= columns.second)
          std::fill_n(to, channels, T(0));
        else
          maximum(to, pixels, region.image, rows, columns, channels);
        to += channels;
      }
    transpose(y, bins[0] * bins[1], found.data(), channels, bins[0] * bins[1], channels);
    y += bins[0] * bins[1] * channels;
  }
}

// The maximum of each bin, 0 for an empty one (Girshick, Fast R-CNN, ICCV 2015).
void run_max_roi_pool(Call& call) {
  const Tensor &x = call.tensor(0), &rois = call.tensor(1);
  const std::vector<std::int64_t> bins = call.integers("pooled_shape");
  if (x.sizes().size() != 4 || rois.sizes().size() != 2 || rois.sizes()[1] != 5 || bins.size() != 2)
    throw Error(ErrorCode::kBadInput, "the input must have rank 4, rois shape [n, 5], pooled_shape 2 entries");
  if (bins[0] < 0 || bins[1] < 0) throw Error(ErrorCode::kBadInput, "pooled_shape has a negative entry");
  require_few(element_count(bins));
  const Sizes sizes{rois.sizes()[0], x.sizes()[1], bins[0], bins[1]};
  if (x.type() == DataType::kFloat) {
    Tensor result(x.type(), sizes);
    if (result.size() > 0) pool_regions<float>(call, x.data<float>().data(), result.mutable_data<float>().data());
    return call.give(std::move(result));
  }
  std::vector<double> result(static_cast<std::size_t>(element_count(sizes)));
  const auto pool = x.type() == DataType::kDouble ? pool_regions<double, double> : pool_regions<float, double>;
  if (!result.empty()) pool(call, x.reals().data(), result.data());
  call.give(Tensor::from_reals(x.type(), sizes, result));
}

// ---- As graphs of operators

using Imported = std::optional<std::vector<OnnxValue>>;

// The samples of all regions on one axis of the images.
struct RegionAxis {
  std::int64_t size;         // of the images along the axis
  std::int64_t bins, ratio;  // samples in a bin; 0: as many as the bin is long
  ValueId begin, bin;        // [regions, 1, 1]: where a region begins, and how long one of its bins is
};

// Positions of samples, [regions, bins, samples]; which of them count; and the weight of one, [regions, 1, 1]. If a bin's
// length gives the number k of samples, they are more than (k - 1) / k apart. So at most size + 2 of them are within the image,
// and the list begins with the first one that is not before it.
struct Samples {
  ValueId at, used, share;
};

Samples samples_of(Formulas& f, const RegionAxis& axis) {
  GraphBuilder& b = f.b;
  const auto counted = [&](std::int64_t count, Sizes sizes) {
    std::vector<double> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    return f.numbers(std::move(sizes), numbers);
  };
  const ValueId start = f.sum(axis.begin, f.times(axis.bin, counted(axis.bins, {axis.bins, 1})));  // of each bin
  const auto length = static_cast<double>(axis.size);
  if (axis.ratio > 0) {
    const ValueId step = f.scaled(axis.bin, 1 / static_cast<double>(axis.ratio));
    const ValueId at = f.sum(start, f.times(f.plus(counted(axis.ratio, {axis.ratio}), 0.5), step));
    return {at, f.inside(at, -1, length), f.number(1 / static_cast<double>(axis.ratio))};
  }
  const ValueId count = f.at_least(b.add("Ceil", {axis.bin}), 0), divisor = f.at_least(count, 1);
  const ValueId step = f.where(f.less(f.number(0), count), f.quotient(axis.bin, divisor), f.number(1));
  const ValueId skipped = f.floor(f.plus(f.quotient(f.difference(f.number(-1), start), step), -0.5));
  const ValueId first = b.add("Min", {f.at_least(skipped, 0), count});
  constexpr std::int64_t kMore = 4;  // 2, and 2 more because of rounding
  const ValueId number = f.sum(first, counted(axis.size + kMore, {axis.size + kMore}));
  const ValueId at = f.sum(start, f.times(f.plus(number, 0.5), step));
  return {at, b.add("And", {f.less(number, count), f.inside(at, -1, length)}), f.quotient(f.number(1), divisor)};
}

// The weight of each of the image's elements along the axis in each bin, [regions, bins, size]: a sample between two elements
// gives weight to both, more to the nearer one.
ValueId shares_of(Formulas& f, const RegionAxis& axis) {
  const Samples samples = samples_of(f, axis);
  const Indices shape = f.b.shape_of(samples.at);
  const auto as_column = [&](ValueId v) { return f.b.reshaped(v, {shape[0], shape[1], shape[2], 1}); };
  std::vector<double> places(static_cast<std::size_t>(axis.size));
  std::iota(places.begin(), places.end(), 0);
  const ValueId distance = f.b.add("Abs", {f.difference(as_column(f.clamped(samples.at, 0, static_cast<double>(axis.size - 1))),
                                                        f.numbers({axis.size}, places))});
  const ValueId near = f.at_least(f.difference(f.number(1), distance), 0);
  const ValueId counted = f.where(as_column(samples.used), near, f.number(0));
  return f.times(f.b.summed(counted, {2}), samples.share);
}

// The means: products of matrices with the weights of the rows, of all images below each other, and with those of the columns.
ValueId mean_of_regions(Formulas& f, ValueId x, ValueId image, const RegionAxis& down, const RegionAxis& across) {
  GraphBuilder& b = f.b;
  const Indices shape = b.shape_of(x);
  const Index regions = b.shape_of(down.begin)[0];
  const ValueId identity = b.add("Eye", {}, {{"size", shape[0]}, {"type", b.type_of(x).type}});
  const ValueId own = b.reshaped(b.add("Gather", {identity, image}), {regions, 1, shape[0], 1});
  const ValueId rows = f.times(own, b.reshaped(shares_of(f, down), {regions, down.bins, 1, shape[2]}));
  const ValueId images = b.reshaped(b.transposed(x, {0, 2, 1, 3}), {shape[0] * shape[2], shape[1] * shape[3]});
  const ValueId half = b.add("MatMul", {b.reshaped(rows, {regions * down.bins, shape[0] * shape[2]}), images});
  const ValueId whole = b.add("MatMul", {b.reshaped(half, {regions, Index(down.bins) * shape[1], shape[3]}),
                                         b.transposed(shares_of(f, across), {0, 2, 1})});
  return b.transposed(b.reshaped(whole, {regions, down.bins, shape[1], across.bins}), {0, 2, 1, 3});
}

// The largest weighted element of all samples.
ValueId largest_of_regions(Formulas& f, ValueId x, ValueId image, const RegionAxis& down, const RegionAxis& across) {
  GraphBuilder& b = f.b;
  const Indices shape = b.shape_of(x);
  const Index regions = b.shape_of(down.begin)[0];
  struct Taps {
    ValueId place, weight, used;  // [regions, bins * samples * 2]
    Index all;
  };
  const auto taps_of = [&](const RegionAxis& axis) {
    const Samples samples = samples_of(f, axis);
    const auto last = static_cast<double>(axis.size - 1);
    const ValueId at = f.clamped(samples.at, 0, last), below = f.floor(at), rest = f.difference(at, below);
    const Index all = axis.bins * axis.ratio * 2;
    const auto both = [&](ValueId first, ValueId second) {
      Indices place = b.shape_of(first);
      place.emplace_back(1);
      return b.reshaped(b.add("Concat", {b.reshaped(first, place), b.reshaped(second, place)}, {{"axis", Index(3)}}),
                        {regions, all});
    };
    return Taps{b.cast(both(below, f.clamped(f.plus(below, 1), 0, last)), DataType::kInt64),
                both(f.difference(f.number(1), rest), rest), both(samples.used, samples.used), all};
  };
  const Taps rows = taps_of(down), columns = taps_of(across);
  const auto integer = [&](const Index& value) {
    return b.constant(Tensor::from_integers(DataType::kInt64, {}, std::vector{value.value()}));
  };
  const auto as_row = [&](ValueId v) { return b.reshaped(v, {regions, rows.all, 1}); };
  const auto as_column = [&](ValueId v) { return b.reshaped(v, {regions, 1, columns.all}); };
  const ValueId first = b.add("Mul", {b.reshaped(image, {regions, 1}), integer(shape[2])});
  const ValueId line = b.add("Mul", {b.add("Add", {first, rows.place}), integer(shape[3])});
  const ValueId places = b.add("Add", {as_row(line), as_column(columns.place)});
  const ValueId elements = b.reshaped(b.transposed(x, {0, 2, 3, 1}), {shape[0] * shape[2] * shape[3], shape[1]});
  const auto with_channels = [&](ValueId v) { return b.reshaped(v, {regions, rows.all, columns.all, 1}); };
  const ValueId weighted =
      f.times(b.add("Gather", {elements, places}), with_channels(f.times(as_row(rows.weight), as_column(columns.weight))));
  const ValueId used = with_channels(b.add("And", {as_row(rows.used), as_column(columns.used)}));
  const Indices in_bins{regions, down.bins, down.ratio * 2, across.bins, across.ratio * 2, shape[1]};
  const auto largest = [&](ValueId v, Indices sizes) {
    return b.add("ReduceMax", {b.reshaped(v, sizes)}, {{"axes", Indices{2, 4}}, {"keepdims", false}});
  };
  Indices one = in_bins;
  one.back() = 1;
  const ValueId any = largest(b.cast(used, b.type_of(x).type), one);
  const ValueId found = largest(f.where(used, weighted, f.number(-HUGE_VAL)), in_bins);
  return b.transposed(f.where(f.less(f.number(0), any), found, f.number(0)), {0, 3, 1, 2});
}

Imported graph_of_roi_align(OnnxSource& source, std::string& reason) {
  SourceBuilder b(source);
  const ValueId x = b.input(0), image = b.cast(b.input(2), DataType::kInt64);
  const TensorType type = b.type_of(x);
  const Indices rois = b.shape_of(b.input(1));
  if (type.rank() != 4 || rois.size() != 2 || !(rois[1] == Index(4)) || !(b.shape_of(image) == Indices{rois[0]}))
    throw Error(ErrorCode::kBadInput, "the input must have rank 4, rois shape [n, 4], batch_indices shape [n]");
  if (!all_constant({type.shape[0], type.shape[2], type.shape[3]})) {
    reason = "the number or the sizes of its images are not known";
    return std::nullopt;
  }
  const std::int64_t ratio = source.integer("sampling_ratio", 0);
  const bool takes_max = source.text("mode", "avg") == "max";
  if (takes_max && ratio <= 0) {
    reason = "how many elements its maximum is taken of is told by elements; a sampling_ratio tells it";
    return std::nullopt;
  }
  const std::string default_mode = source.opset() < 16 ? "output_half_pixel" : "half_pixel";
  const bool half = source.text("coordinate_transformation_mode", default_mode) == "half_pixel";
  const std::int64_t counts[]{source.integer("output_height", 1), source.integer("output_width", 1)};
  const std::int64_t samples = std::max<std::int64_t>(ratio, 1);
  require_few(element_count(Sizes{counts[0], samples, counts[1], samples}));
  if (product(type.shape) == Index(0))
    return SourceBuilder::results({b.filled({type.type, {rois[0], type.shape[1], counts[0], counts[1]}}, 0)});
  Formulas f(b, type.type);
  const ValueId corners = f.plus(f.scaled(b.cast(b.input(1), type.type), source.real("spatial_scale", 1)), half ? -0.5 : 0);
  const auto corner = [&](std::int64_t number) {
    return b.reshaped(b.add("Slice", {corners}, {{"begin", Indices{0, number}}, {"length", Indices{rois[0], 1}}}),
                      {rois[0], 1, 1});
  };
  const auto axis = [&](std::size_t a) {  // 0: down, 1: across; corners are left, top, right, bottom
    const auto first = static_cast<std::int64_t>(1 - a);
    const ValueId begin = corner(first), length = f.difference(corner(first + 2), begin);
    const double bins = static_cast<double>(counts[a]);
    return RegionAxis{type.shape[a + 2].value(), counts[a], ratio, begin,
                      f.scaled(half ? length : f.at_least(length, 1), 1 / bins)};
  };
  const RegionAxis down = axis(0), across = axis(1);
  return SourceBuilder::results(
      {takes_max ? largest_of_regions(f, x, image, down, across) : mean_of_regions(f, x, image, down, across)});
}

// ---- MaxRoiPool as a graph

// Membership of an axis' elements in bins (see bins_of), [regions, bins, size], and whether a bin has any, [regions, bins, 1].
struct BinMembers {
  ValueId inside, any;
};

BinMembers members_of(Formulas& f, ValueId begin, ValueId end, std::int64_t bins, std::int64_t size) {
  GraphBuilder& b = f.b;
  const auto counted = [&](std::int64_t first, std::int64_t count, Sizes sizes) {
    std::vector<double> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), static_cast<double>(first));
    return f.numbers(std::move(sizes), numbers);
  };
  const ValueId length = f.at_least(f.plus(f.difference(end, begin), 1), 1),
                bin = f.quotient(length, f.number(static_cast<double>(bins)));
  const ValueId first = f.sum(f.floor(f.times(bin, counted(0, bins, {bins, 1}))), begin);
  const ValueId behind = f.sum(b.add("Ceil", {f.times(bin, counted(1, bins, {bins, 1}))}), begin);
  const ValueId places = counted(0, size, {size});
  const ValueId inside = b.add("And", {b.add("LessOrEqual", {first, places}), f.less(places, behind)});
  const ValueId some = b.add("ReduceMax", {b.cast(inside, DataType::kInt32)}, {{"axes", Indices{2}}, {"keepdims", true}});
  return {inside, b.cast(some, DataType::kBool)};
}

// The maximum of each bin, 0 for an empty one (Girshick, Fast R-CNN, ICCV 2015).
Imported graph_of_max_roi_pool(OnnxSource& source, std::string& reason) {
  SourceBuilder b(source);
  const ValueId x = b.input(0);
  const TensorType type = b.type_of(x);
  const Indices rois = b.shape_of(b.input(1));
  const Sizes bins = source.integers("pooled_shape");
  if (type.rank() != 4 || rois.size() != 2 || !(rois[1] == Index(5)) || bins.size() != 2)
    throw Error(ErrorCode::kBadInput, "the input must have rank 4, rois shape [n, 5], pooled_shape 2 entries");
  if (!type.shape[2].is_constant() || !type.shape[3].is_constant()) {
    reason = "the sizes of its images are not known";
    return std::nullopt;
  }
  require_few(element_count(bins));
  const Index regions = rois[0], channels = type.shape[1], rows = type.shape[2], columns = type.shape[3];
  const TensorType result{type.type, {regions, channels, bins[0], bins[1]}};
  if (product(type.shape) == Index(0)) return SourceBuilder::results({b.filled(result, 0)});
  Formulas f(b, type.type);
  const auto entry = [&](std::int64_t number) {
    return b.add("Slice", {b.input(1)}, {{"begin", Indices{0, number}}, {"length", Indices{regions, 1}}});
  };
  Formulas places(b, type.type == DataType::kDouble ? type.type : DataType::kFloat);
  const auto corner = [&](std::int64_t number) {  // the nearest whole number, halves away from 0
    const ValueId given = b.cast(b.reshaped(entry(number), {regions, 1, 1}), places.type());
    const ValueId at = places.scaled(given, source.real("spatial_scale", 1)), distance = b.add("Abs", {at});
    const ValueId below = places.floor(distance), rest = places.difference(distance, below);
    const ValueId rounded = places.where(places.less(rest, places.number(0.5)), below, places.plus(below, 1));
    return places.times(b.add("Sign", {at}), rounded);
  };
  const BinMembers down = members_of(places, corner(2), corner(4), bins[0], rows.value());
  const BinMembers across = members_of(places, corner(1), corner(3), bins[1], columns.value());
  const ValueId image = b.reshaped(b.cast(entry(0), DataType::kInt64), {regions});
  const ValueId least = f.number(-HUGE_VAL);
  const auto largest = [&](ValueId v, std::int64_t axis) {
    return b.add("ReduceMax", {v}, {{"axes", Indices{axis}}, {"keepdims", false}});
  };
  const ValueId own = b.reshaped(b.add("Gather", {x, image}), {regions, channels, 1, rows, columns});
  const ValueId of_rows = largest(f.where(b.reshaped(down.inside, {regions, 1, bins[0], rows, 1}), own, least), 3);
  const ValueId in_columns = b.reshaped(across.inside, {regions, 1, 1, bins[1], columns});
  const ValueId found = largest(f.where(in_columns, b.reshaped(of_rows, {regions, channels, bins[0], 1, columns}), least), 4);
  const ValueId any =
      b.add("And", {b.reshaped(down.any, {regions, 1, bins[0], 1}), b.reshaped(across.any, {regions, 1, 1, bins[1]})});
  return SourceBuilder::results({f.where(any, found, f.number(0))});
}

}  // namespace

void register_sampling(Procedures& p) {
  p.add("RoiAlign", run_roi_align);
  p.add_graph("RoiAlign", graph_of_roi_align);
  p.add("MaxRoiPool", run_max_roi_pool);
  p.add_graph("MaxRoiPool", graph_of_max_roi_pool);
}

}  // namespace rewright::operators
