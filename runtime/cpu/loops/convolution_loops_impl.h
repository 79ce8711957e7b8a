// The loops of convolution_loops.h; see rewright_loops in CMakeLists.txt.
#include <algorithm>
#include <array>
#include <utility>

#include "runtime/cpu/base/vectors_impl.h"
#include "runtime/cpu/loops/convolution_loops.h"

namespace rewright::cpu {
namespace {

using Tile = ConvolutionLoops::Tile;
constexpr Count kMaxRows = REWRIGHT_VECTOR_BYTES == 64 ? 14 : 6, kMaxVectors = 2;

// In this order each operation is one instruction, and NaN passes through.
inline V bounded(V x, V low, V high) {
  const V above = low > x ? low : x;
  return high < above ? high : above;
}

// ---- Tiles of products
template <Count kRows, Count kVectors>
void tile(const Tile& t) {
  V sum[kRows][kVectors];
  for (Count r = 0; r < kRows; ++r)
    for (Count v = 0; v < kVectors; ++v) sum[r][v] = t.bias != nullptr ? load(t.bias + v * kLanes) : V{};
  const float* w = t.w;
  // A prefetch of `w` costs nothing: it is in the cache.
  const char* ahead = t.ahead != nullptr ? t.ahead : reinterpret_cast<const char*>(w);
  const Count stride = t.x_stride;
  for (Count i = 0; i < t.height; ++i)
    for (Count j = 0; j < t.width; ++j) {
      const float* x = t.x + i * t.row_stride + j * t.column_stride;
      for (const float* const end = x + t.length; x != end; ++x) {
        V b[kVectors];
        for (Count v = 0; v < kVectors; ++v) {
          b[v] = load(w + v * kLanes);
          keep_in_register(b[v]);
        }
        w += kVectors * kLanes;
        __builtin_prefetch(ahead, 0, 2);
        ahead += t.ahead_step;
#pragma GCC unroll 16
        for (Count r = 0; r < kRows; ++r) {
          const V a = x[r * stride] - V{};
          for (Count v = 0; v < kVectors; ++v) sum[r][v] += a * b[v];
        }
      }
    }
  // Loops over rows are fully unrolled, so that the sums stay in registers.
  const bool whole = t.columns == kVectors * kLanes;
  if (t.addend != nullptr) {
#pragma GCC unroll 16
    for (Count r = 0; r < kRows; ++r)
      for (Count v = 0; v < kVectors; ++v) {
        const float* const addend = t.addend + r * t.addend_stride + v * kLanes;
        if (whole)
          sum[r][v] += load(addend);
        else if (t.columns > v * kLanes)
          sum[r][v] += load_some(addend, std::min(kLanes, t.columns - v * kLanes));
      }
  }
  const V low = t.low - V{}, high = t.high - V{};
#pragma GCC unroll 16
  for (Count r = 0; r < kRows; ++r)
    for (Count v = 0; v < kVectors; ++v) sum[r][v] = bounded(sum[r][v], low, high);
  if (whole) {
#pragma GCC unroll 16
    for (Count r = 0; r < kRows; ++r)
      for (Count v = 0; v < kVectors; ++v) store(t.y + r * t.y_stride + v * kLanes, sum[r][v]);
    return;
  }
  for (Count r = 0; r < kRows; ++r)
    for (Count v = 0; v < kVectors && v * kLanes < t.columns; ++v)
      store_some(t.y + r * t.y_stride + v * kLanes, sum[r][v], std::min(kLanes, t.columns - v * kLanes));
}

template <Count kVectors, std::size_t... kRows>
constexpr std::array<void (*)(const Tile&), sizeof...(kRows)> tiles(std::index_sequence<kRows...>) {
  return {&tile<static_cast<Count>(kRows) + 1, kVectors>...};
}
constexpr auto kOne = tiles<1>(std::make_index_sequence<kMaxRows>()), kTwo = tiles<2>(std::make_index_sequence<kMaxRows>());

void run_tile(const Tile& t) { (t.vectors == 1 ? kOne : kTwo)[static_cast<std::size_t>(t.rows - 1)](t); }

// ---- Small groups
using GroupTile = ConvolutionLoops::GroupTile;

// Broadcasts element j of each lane's group.
template <Count kGroup, Count kElement, std::size_t... kLane>
inline V spread(V x, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(x, x, static_cast<Count>(kLane) / kGroup * kGroup + kElement...);
}

template <Count kGroup, Count kStride, std::size_t... kElements>
inline void group_sums(const GroupTile& t, std::index_sequence<kElements...>) {
  constexpr Count kPixels = 4, kWidth = 3, kColumns = (kPixels - 1) * kStride + kWidth;
  V sum[kPixels][2];  // two for each: one chain of additions would be too slow
  for (auto& s : sum) {
    s[0] = load(t.bias);
    s[1] = V{};
  }
  for (Count i = 0; i < t.height; ++i) {
    const float* const w = t.w + i * kWidth * kGroup * kLanes;
#pragma GCC unroll 16
    for (Count column = 0; column < kColumns; ++column) {
      const V x = load(t.pixels[i * kColumns + column] + t.channel);
      const V parts[] = {spread<kGroup, static_cast<Count>(kElements)>(x, std::make_index_sequence<kLanes>())...};
#pragma GCC unroll 4
      for (Count p = 0; p < kPixels; ++p) {
        const Count j = column - p * kStride;
        if (j < 0 || j >= kWidth) continue;
        for (Count e = 0; e < kGroup; ++e) sum[p][e % 2] += parts[e] * load(w + (j * kGroup + e) * kLanes);
      }
    }
  }
  const V low = t.low - V{}, high = t.high - V{};
#pragma GCC unroll 4
  for (Count p = 0; p < kPixels; ++p) {
    V result = sum[p][0] + sum[p][1];
    if (t.addend != nullptr) result += load(t.addend + p * t.y_stride);
    store(t.y + p * t.y_stride, bounded(result, low, high));
  }
}

template <Count kGroup>
inline void group_tile_of(const GroupTile& t) {
  constexpr auto kElements = std::make_index_sequence<kGroup>();
  if (t.stride == 1)
    group_sums<kGroup, 1>(t, kElements);
  else
    group_sums<kGroup, 2>(t, kElements);
}

void group_tile(const GroupTile& t) {
  if (t.group == 4) return group_tile_of<4>(t);
  if constexpr (kLanes >= 8) group_tile_of<8>(t);
}

// ---- Depthwise
using DepthwiseTile = ConvolutionLoops::DepthwiseTile;

// Stores the sums of pixels for a vector of channels from `c` on, or its first `count` channels: with the addend, within
// bounds.
template <Count kPixels, bool kWhole, class Tile>
inline void finish_pixels(const V* sum, const Tile& t, Count addend_pitch, Count y_pitch, Count c, Count count) {
  const V low = t.low - V{}, high = t.high - V{};
#pragma GCC unroll 8
  for (Count p = 0; p < kPixels; ++p) {
    V result = sum[p];
    if (t.addend != nullptr) {
      const float* const addend = t.addend + p * addend_pitch + c;
      result += kWhole ? load(addend) : load_some(addend, count);
    }
    result = bounded(result, low, high);
    float* const y = t.y + p * y_pitch + c;
    if constexpr (kWhole)
      store(y, result);
    else
      store_some(y, result, count);
  }
}

// A vector of channels from `c` on, or its first `count` channels.
template <Count kPixels, Count kWidth, Count kStride, bool kEdge, bool kWhole>
inline void depthwise_channels(const DepthwiseTile& t, Count c, Count count) {
  constexpr Count kColumns = (kPixels - 1) * kStride + kWidth;
  const auto get = [&](const float* s) { return kWhole ? load(s) : load_some(s, count); };
  const V floor = t.floor - V{}, bias = load(t.bias + c);
  V sum[kPixels];
  for (V& s : sum) s = bias;
  const float *w = t.w + c * t.window, *row = t.x + c;
  for (Count i = 0; i < t.height; ++i) {
    V b[kWidth];
#pragma GCC unroll 8
    for (Count j = 0; j < kWidth; ++j) b[j] = load(w + j * kLanes);
#pragma GCC unroll 32
    for (Count column = 0; column < kColumns; ++column) {
      if (kEdge && (column < t.begin || column >= t.end)) continue;
      V x = get(row + column * t.pitch);
      x = floor > x ? floor : x;
#pragma GCC unroll 8
      for (Count p = 0; p < kPixels; ++p) {
        const Count j = column - p * kStride;
        if (j >= 0 && j < kWidth) sum[p] += x * b[j];
      }
    }
    row += t.row_stride;
    w += kWidth * kLanes;
  }
  finish_pixels<kPixels, kWhole>(sum, t, t.pitch, t.pitch, c, count);
}

template <Count kPixels, Count kWidth, Count kStride, bool kEdge>
inline void depthwise_part(const DepthwiseTile& t) {
  Count c = 0;
  for (; c + kLanes <= t.channels; c += kLanes) depthwise_channels<kPixels, kWidth, kStride, kEdge, true>(t, c, kLanes);
  if (c < t.channels) depthwise_channels<kPixels, kWidth, kStride, kEdge, false>(t, c, t.channels - c);
}

template <Count kPixels, Count kWidth, Count kStride>
void depthwise_tile(const DepthwiseTile& t) {
  if (t.begin <= 0 && t.end >= (kPixels - 1) * kStride + kWidth)
    depthwise_part<kPixels, kWidth, kStride, false>(t);
  else
    depthwise_part<kPixels, kWidth, kStride, true>(t);
}

template <Count kPixels, Count kWidth>
ConvolutionLoops::Depthwise depthwise_of(Count stride) {
  return stride == 1 ? depthwise_tile<kPixels, kWidth, 1> : stride == 2 ? depthwise_tile<kPixels, kWidth, 2> : nullptr;
}

template <Count kPixels>
ConvolutionLoops::Depthwise depthwise_with(Count width, Count stride) {
  switch (width) {
    case 1:
      return depthwise_of<kPixels, 1>(stride);
    case 3:
      return depthwise_of<kPixels, 3>(stride);
    case 5:
      return depthwise_of<kPixels, 5>(stride);
    case 7:
      return depthwise_of<kPixels, 7>(stride);
    default:
      return nullptr;
  }
}

ConvolutionLoops::Depthwise depthwise(Count pixels, Count width, Count stride) {
  switch (pixels) {
    case 1:
      return depthwise_with<1>(width, stride);
    case 4:
      return depthwise_with<4>(width, stride);
    case 7:
      return depthwise_with<7>(width, stride);
    default:
      return nullptr;
  }
}

// ---- Depthwise, with any window
using TapTile = ConvolutionLoops::TapTile;
constexpr Count kMostTapPixels = 6;  // their sums and a vector of weights stay in registers

template <Count kPixels, bool kWhole>
inline void tap_channels(const TapTile& t, Count c, Count count) {
  const auto get = [&](const float* s) { return kWhole ? load(s) : load_some(s, count); };
  const V bias = load(t.bias + c);
  V sum[kPixels];
  for (V& s : sum) s = bias;
  const float *const w = t.w + c * t.window, *const x = t.x + c;
  for (Count k = 0; k < t.taps; ++k) {
    const V b = load(w + t.of[k] * kLanes);
    const float* const from = x + t.at[k];
#pragma GCC unroll 8
    for (Count p = 0; p < kPixels; ++p) sum[p] += get(from + p * t.x_stride) * b;
  }
  finish_pixels<kPixels, kWhole>(sum, t, t.channels, t.y_stride, c, count);
}

template <Count kPixels>
void tap_pixels(const TapTile& t) {
  Count c = 0;
  for (; c + kLanes <= t.channels; c += kLanes) tap_channels<kPixels, true>(t, c, kLanes);
  if (c < t.channels) tap_channels<kPixels, false>(t, c, t.channels - c);
}

template <std::size_t... kPixels>
constexpr std::array<void (*)(const TapTile&), sizeof...(kPixels)> tap_tiles(std::index_sequence<kPixels...>) {
  return {&tap_pixels<static_cast<Count>(kPixels) + 1>...};
}
constexpr auto kTapTiles = tap_tiles(std::make_index_sequence<kMostTapPixels>());

void tap_tile(const TapTile& t) { kTapTiles[static_cast<std::size_t>(t.pixels - 1)](t); }

// ---- Winograd's transformations (Lavin and Gray, 2016), with the points 0, 1, -1 and infinity, or 0, a, -a, b, -b and
// infinity
template <Count kTile>
struct Winograd;

template <>
struct Winograd<2> {
  static constexpr Count kPoints = 4;
  static void input(const V* d, V* t) {
    t[0] = d[0] - d[2];
    t[1] = d[1] + d[2];
    t[2] = d[2] - d[1];
    t[3] = d[1] - d[3];
  }
  static void output(const V* m, V* y) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
  }
};

// a = 5/8 and b = 3/2: results have less than half the error of those with 1 and 2, since powers of points near 1 have similar
// magnitudes (Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution", 2020). All factors of the
// two data transforms are exact floats.
template <>
struct Winograd<4> {
  static constexpr Count kPoints = 6;
  static constexpr float kA = 0.625f, kB = 1.5f, kA2 = kA * kA, kB2 = kB * kB;
  static void input(const V* d, V* t) {
    const V a = d[4] - kB2 * d[2], b = kA * (d[3] - kB2 * d[1]), c = d[4] - kA2 * d[2], e = kB * (d[3] - kA2 * d[1]);
    t[0] = a - kA2 * (d[2] - kB2 * d[0]);
    t[1] = a + b;
    t[2] = a - b;
    t[3] = c + e;
    t[4] = c - e;
    t[5] = (d[5] - kB2 * d[3]) - kA2 * (d[3] - kB2 * d[1]);
  }
  static void output(const V* m, V* y) {
    const V a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], e = m[3] - m[4];
    y[0] = m[0] + a + c;
    y[1] = kA * b + kB * e;
    y[2] = kA2 * a + kB2 * c;
    y[3] = kA2 * kA * b + kB2 * kB * e + m[5];
  }
};

template <Count kTile>
void transform_input(const float* const* pixels, Count channels, float* v, Count point_stride) {
  using W = Winograd<kTile>;
  constexpr Count n = W::kPoints;
  for (Count c = 0; c < channels; c += kLanes) {
    V columns[n][n];  // by column, then row
    const Count left = channels - c;
    for (Count q = 0; q < n; ++q) {
      V d[n];
      for (Count r = 0; r < n; ++r) {
        const float* const pixel = pixels[r * n + q] + c;
        d[r] = left >= kLanes ? load(pixel) : load_some(pixel, left);
      }
      W::input(d, columns[q]);
    }
    for (Count r = 0; r < n; ++r) {
      V d[n], t[n];
      for (Count q = 0; q < n; ++q) d[q] = columns[q][r];
      W::input(d, t);
      for (Count q = 0; q < n; ++q) store(v + (r * n + q) * point_stride + c, t[q]);
    }
  }
}

template <Count kTile>
void transform_output(const ConvolutionLoops::TransformedOutput& o) {
  using W = Winograd<kTile>;
  constexpr Count n = W::kPoints;
  const V low = o.low - V{}, high = o.high - V{};
  for (Count c = 0; c < o.channels; c += kLanes) {
    V columns[n][kTile];
    const Count left = o.channels - c;
    for (Count q = 0; q < n; ++q) {
      V m[n];
      for (Count r = 0; r < n; ++r) m[r] = load(o.m + (r * n + q) * o.point_stride + c);
      W::output(m, columns[q]);
    }
    const V bias = load(o.bias + c);
    for (Count r = 0; r < kTile; ++r) {
      V m[n], y[kTile];
      for (Count q = 0; q < n; ++q) m[q] = columns[q][r];
      W::output(m, y);
      for (Count q = 0; q < kTile; ++q) {
        float* const pixel = o.y[r * kTile + q];
        if (pixel == nullptr) continue;
        V result = y[q] + bias;
        if (left >= kLanes) {
          if (o.addend != nullptr) result += load(o.addend[r * kTile + q] + c);
          store(pixel + c, bounded(result, low, high));
        } else {
          if (o.addend != nullptr) result += load_some(o.addend[r * kTile + q] + c, left);
          store_some(pixel + c, bounded(result, low, high), left);
        }
      }
    }
  }
}

constexpr ConvolutionLoops kTable{
    kLanes,         kMaxRows, kMaxVectors,        run_tile,           group_tile,          depthwise,
    kMostTapPixels, tap_tile, transform_input<2>, transform_input<4>, transform_output<2>, transform_output<4>};

}  // namespace

const ConvolutionLoops& ConvolutionLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
