// DeformConv of floats: the elements at each window's points become a row, and some rows at a time are multiplied by the
// weights while they are in the caches. Images have their channels last for that, so that a point reads four runs of memory.
#include <cblas.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/cpu/loops/sampling_loops.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/planning/whole_operators.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

struct DeformedShape {
  Count images = 1, channels = 1, outputs = 1, groups = 1, offset_groups = 1;
  std::array<Count, 2> size{}, kernel{}, places{}, strides{}, dilations{}, pads{};
  int bias = -1, mask = -1;  // numbers of inputs; -1: none

  Count area() const { return size[0] * size[1]; }
  Count taps() const { return kernel[0] * kernel[1]; }
  Count positions() const { return places[0] * places[1]; }
  Count depth() const { return channels / groups; }
  Count row() const { return taps() * depth(); }                               // elements that a window has in a group
  Count alike() const { return std::min(depth(), channels / offset_groups); }  // channels with the same points
};

class DeformedConvolutionKernel final : public Kernel {
 public:
  DeformedConvolutionKernel(const DeformedShape& shape, Isa isa)
      : s_(shape),
        together_(std::clamp<Count>(kInCache / s_.row(), 8, 256)),
        loops_(loops_for<SamplingLoops>(isa)),
        reals_(real_loops<float>(isa)) {}

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(s_.images * s_.area() * s_.channels + s_.outputs * s_.row()) * sizeof(float);
  }

  void run(const Call& call) const override {
    auto* const images = reinterpret_cast<float*>(call.scratch);
    float* const weights = images + s_.images * s_.area() * s_.channels;
    const auto input = [&](std::size_t n) { return reinterpret_cast<const float*>(call.inputs[n]); };
    const Count image = s_.area() * s_.channels;
    call.workers.for_each(s_.images, static_cast<double>(s_.images * image) / kMoved, [&](Count n, int) {
      reals_.transpose(images + n * image, input(0) + n * image, s_.area(), s_.area(), s_.channels);
    });
    call.workers.for_each(s_.outputs, static_cast<double>(s_.outputs * s_.row()) / kMoved, [&](Count o, int) {
      reals_.transpose(weights + o * s_.row(), input(1) + o * s_.row(), s_.taps(), s_.taps(), s_.depth());
    });
    const Count blocks = (s_.positions() + together_ - 1) / together_, rows = s_.images * s_.positions();
    const double nanoseconds = static_cast<double>(rows * s_.taps() * s_.channels) / kSampled +
                               static_cast<double>(rows * s_.row() * s_.outputs) / kMultiplied;
    call.workers.for_each(s_.images * blocks, nanoseconds, [&](Count unit, int) {
      const Count first = unit % blocks * together_;
      run_block(call, images, weights, unit / blocks, first, std::min(together_, s_.positions() - first));
    });
  }

 private:
  static constexpr Count kInCache = 1 << 16;                           // floats of rows
  static constexpr double kMoved = 2, kSampled = 2, kMultiplied = 25;  // a nanosecond

  // The four elements beside a point, and their weights.
  struct Point {
    std::array<Count, 4> at;
    std::array<float, 4> weight;
  };
  // The elements beside a place on an axis, as the operator's definition has them: those outside have the weight 0.
  struct Beside {
    std::array<Count, 2> at;
    std::array<float, 2> weight;
  };

  static Beside beside(float place, Count size) {
    constexpr float kFar = 1e9f;
    const float x = place < -kFar ? -kFar : place > kFar ? kFar : place, below = std::floor(x), rest = x - below;
    const std::array<float, 2> places{below, below + 1}, weights{1 - rest, rest};
    Beside result{};
    for (std::size_t t = 0; t < 2; ++t) {
      const bool is_inside = places[t] >= 0 && places[t] <= static_cast<float>(size - 1);
      result.weight[t] = is_inside ? weights[t] : 0;
      result.at[t] = is_inside ? static_cast<Count>(places[t]) : places[t] > 0 ? size - 1 : 0;
    }
    return result;
  }

  // The point of a tap at a position of the result. `offsets`, `mask`: those of the image and the group of offsets.
  Point point(const float* offsets, const float* mask, Count position, Count tap) const {
    const std::array<Count, 2> place{position / s_.places[1], position % s_.places[1]},
        of_window{tap / s_.kernel[1], tap % s_.kernel[1]};
    std::array<Beside, 2> axes;
    for (std::size_t a = 0; a < 2; ++a) {
      const auto base = static_cast<float>(place[a] * s_.strides[a] + of_window[a] * s_.dilations[a] - s_.pads[a]);
      axes[a] = beside(offsets[(2 * tap + static_cast<Count>(a)) * s_.positions() + position] + base, s_.size[a]);
    }
    if (mask != nullptr)
      for (float& weight : axes[0].weight) weight *= mask[tap * s_.positions() + position];
    Point result{};
    for (std::size_t t = 0; t < 4; ++t) {
      result.at[t] = (axes[0].at[t / 2] * s_.size[1] + axes[1].at[t % 2]) * s_.channels;
      result.weight[t] = axes[0].weight[t / 2] * axes[1].weight[t % 2];
    }
    return result;
  }

  void run_block(const Call& call, const float* images, const float* weights, Count image, Count first, Count count) const {
    static thread_local std::vector<float> memory;
    memory.resize(static_cast<std::size_t>(s_.groups * together_ * s_.row()));
    sample_rows(call, images + image * s_.area() * s_.channels, image, first, count, memory.data());
    const Count outputs = s_.outputs / s_.groups;
    auto* const y = reinterpret_cast<float*>(call.outputs[0]) + image * s_.outputs * s_.positions() + first;
    for (Count g = 0; g < s_.groups; ++g)
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(outputs), static_cast<int>(count),
                  static_cast<int>(s_.row()), 1.0f, weights + g * outputs * s_.row(), static_cast<int>(s_.row()),
                  memory.data() + g * together_ * s_.row(), static_cast<int>(s_.row()), 0.0f, y + g * outputs * s_.positions(),
                  static_cast<int>(s_.positions()));
    if (s_.bias < 0) return;
    const auto* const bias = reinterpret_cast<const float*>(call.inputs[static_cast<std::size_t>(s_.bias)]);
    for (Count o = 0; o < s_.outputs; ++o)
      for (Count p = 0; p < count; ++p) y[o * s_.positions() + p] += bias[o];
  }

  // rows: for each group, position and tap the elements of the group's channels.
  void sample_rows(const Call& call, const float* x, Count image, Count first, Count count, float* rows) const {
    const Count of_offsets = s_.taps() * s_.positions(), alike = s_.alike();
    const auto* const offsets = reinterpret_cast<const float*>(call.inputs[2]) + image * s_.offset_groups * 2 * of_offsets;
    const float* const mask = s_.mask < 0 ? nullptr
                                          : reinterpret_cast<const float*>(call.inputs[static_cast<std::size_t>(s_.mask)]) +
                                                image * s_.offset_groups * of_offsets;
    for (Count o = 0; o < s_.offset_groups; ++o)
      for (Count p = 0; p < count; ++p)
        for (Count t = 0; t < s_.taps(); ++t) {
          const Point at = point(offsets + o * 2 * of_offsets, mask == nullptr ? nullptr : mask + o * of_offsets, first + p, t);
          const Count end = (o + 1) * (s_.channels / s_.offset_groups);
          for (Count c = o * (s_.channels / s_.offset_groups); c < end; c += alike) {
            const Count group = c / s_.depth(), row = (group * together_ + p) * s_.row() + t * s_.depth();
            loops_.blend(rows + row + c % s_.depth(), x + c, at.at.data(), at.weight.data(), alike);
          }
        }
  }

  DeformedShape s_;
  Count together_;  // positions whose rows are multiplied together
  const SamplingLoops& loops_;
  const RealLoops<float>& reals_;
};

class DeformedConvolutionPlan final : public NodePlan {
 public:
  DeformedConvolutionPlan(const Node& node, const DeformedShape& shape) : node_(node), shape_(shape) {}

  void emit(Planner& planner, ValueId result) override {
    std::vector<int> inputs = planner.plain_inputs(node_);
    if (planner.has(node_, 3)) shape_.bias = 3;
    if (planner.has(node_, 4)) shape_.mask = static_cast<int>(inputs.size()) - 1;
    const int target = planner.add_value(result, kPlain);
    planner.add_step(std::make_unique<DeformedConvolutionKernel>(shape_, planner.options().isa), std::move(inputs), {target});
  }

 private:
  const Node& node_;
  DeformedShape shape_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_deformed_convolution(Planner& planner, const Node& node) {
  if (planner.info(node.inputs[0]).type != DataType::kFloat) return nullptr;  // 16 bits become floats before
  const AttributeReader attributes(node);
  const Sizes x = planner.info(node.inputs[0]).sizes, w = planner.info(node.inputs[1]).sizes,
              y = planner.info(node.outputs[0]).sizes;
  DeformedShape shape;
  shape.images = x[0], shape.channels = x[1], shape.outputs = w[0];
  shape.groups = attributes.number("groups"), shape.offset_groups = attributes.number("offset_groups");
  const auto strides = attributes.list("strides"), dilations = attributes.list("dilations"), pads = attributes.list("pads");
  for (std::size_t a = 0; a < 2; ++a) {
    shape.size[a] = x[a + 2], shape.kernel[a] = w[a + 2], shape.places[a] = y[a + 2];
    shape.strides[a] = strides[a], shape.dilations[a] = dilations[a], shape.pads[a] = pads[a];
  }
  return std::make_unique<DeformedConvolutionPlan>(node, shape);
}

}  // namespace rewright::cpu
