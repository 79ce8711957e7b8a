// GridSample of floats: the elements beside each point, and their weights, are found once for all channels.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/cpu/loops/sampling_loops.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/planning/whole_operators.h"

namespace rewright::cpu {

namespace {

using SamplePoints = SamplingLoops::Taps;
struct SampledImages {
  std::int64_t images = 1, channels = 1, area = 1, points = 1;  // points: of an image
  std::vector<SampledAxis> axes;

  std::int64_t taps() const {
    std::int64_t count = 1;
    for (const SampledAxis& axis : axes) count *= axis.taps();
    return count;
  }
};

// Memory for taps.
class TapMemory {
 public:
  SamplePoints of(std::int64_t taps) {
    at_.resize(static_cast<std::size_t>(taps * SamplingLoops::kPoints));
    weight_.resize(at_.size());
    return {at_.data(), weight_.data()};
  }

 private:
  std::vector<std::int32_t> at_;
  std::vector<float> weight_;
};

class GridSampleKernel final : public Kernel {
 public:
  GridSampleKernel(SampledImages shape, const SamplingLoops& loops) : s_(std::move(shape)), loops_(loops) {}

  void run(const Call& call) const override {
    const std::int64_t blocks = (s_.points + kPoints - 1) / kPoints;
    const double of_point = kPointNanoseconds * static_cast<double>(s_.axes.size()) +
                            kTapNanoseconds * static_cast<double>(s_.taps() * s_.channels);
    call.workers.for_each(s_.images * blocks, of_point * static_cast<double>(s_.images * s_.points),
                          [&](std::int64_t unit, int) {
                            const std::int64_t first = unit % blocks * kPoints;
                            run_points(call, unit / blocks, first, std::min(kPoints, s_.points - first));
                          });
  }

 private:
  static constexpr std::int64_t kPoints = SamplingLoops::kPoints;
  static constexpr double kPointNanoseconds = 3, kTapNanoseconds = 0.5;

  void run_points(const Call& call, std::int64_t image, std::int64_t first, std::int64_t count) const {
    static thread_local std::array<TapMemory, 3> memory;  // of an axis, and of those so far, in turn
    const auto rank = static_cast<std::int64_t>(s_.axes.size());
    const auto* const grid = reinterpret_cast<const float*>(call.inputs[1]) + (image * s_.points + first) * rank;
    SamplePoints taps{};
    std::int64_t taps_count = 1;
    for (std::int64_t a = 0; a < rank; ++a) {  // the grid's last coordinate is that of the first axis
      const SampledAxis& axis = s_.axes[static_cast<std::size_t>(a)];
      const SamplePoints own = memory[a == 0 ? 2 : 0].of(axis.taps());
      loops_.axis_taps(axis, grid + (rank - 1 - a), rank, count, own);
      if (a == 0) {
        taps = own;
      } else {
        const SamplePoints all = memory[a % 2 == 0 ? 2 : 1].of(taps_count * axis.taps());
        loops_.combine(taps, taps_count, own, axis.taps(), axis.size, count, all);
        taps = all;
      }
      taps_count *= axis.taps();
    }
    constexpr std::int64_t kLanes = SamplingLoops::kLanes;
    const std::int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
    for (std::int64_t t = 0; t < taps_count; ++t) {
      std::fill(taps.at + t * kPoints + count, taps.at + t * kPoints + padded, 0);
      std::fill(taps.weight + t * kPoints + count, taps.weight + t * kPoints + padded, 0.0f);
    }
    const auto* x = reinterpret_cast<const float*>(call.inputs[0]) + image * s_.channels * s_.area;
    auto* y = reinterpret_cast<float*>(call.outputs[0]) + image * s_.channels * s_.points + first;
    for (std::int64_t c = 0; c < s_.channels; ++c, x += s_.area, y += s_.points) loops_.sample(y, x, taps, taps_count, count);
  }

  SampledImages s_;
  const SamplingLoops& loops_;
};

class GridSamplePlan final : public NodePlan {
 public:
  GridSamplePlan(const Node& node, SampledImages shape) : node_(node), shape_(std::move(shape)) {}

  void emit(Planner& planner, ValueId result) override {
    std::vector<int> inputs = planner.plain_inputs(node_);
    const int target = planner.add_value(result, kPlain);
    planner.add_step(std::make_unique<GridSampleKernel>(std::move(shape_), loops_for<SamplingLoops>(planner.options().isa)),
                     std::move(inputs), {target});
  }

 private:
  const Node& node_;
  SampledImages shape_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_grid_sample(Planner& planner, const Node& node) {
  if (planner.info(node.inputs[0]).type != DataType::kFloat) return nullptr;  // 16 bits become floats before
  const AttributeReader attributes(node);
  const Sizes x = planner.info(node.inputs[0]).sizes, grid = planner.info(node.inputs[1]).sizes;
  const std::string &mode = attributes.text("mode"), &padding = attributes.text("padding");
  SampledImages shape;
  shape.images = x[0], shape.channels = x[1];
  for (std::size_t a = 2; a < x.size(); ++a) {
    shape.axes.push_back({x[a],
                          mode == "nearest"  ? Sampling::kNearest
                          : mode == "linear" ? Sampling::kLinear
                                             : Sampling::kCubic,
                          padding == "zeros"    ? SamplingPadding::kZeros
                          : padding == "border" ? SamplingPadding::kBorder
                                                : SamplingPadding::kReflection,
                          attributes.flag("aligned")});
    shape.area *= x[a];
    shape.points *= grid[a - 1];
  }
  return std::make_unique<GridSamplePlan>(node, std::move(shape));
}

}  // namespace rewright::cpu
