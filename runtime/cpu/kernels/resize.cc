// Resize of floats along one axis, by interpolation (passes.h makes such ones of others). The elements beside each position and
// their weights are computed when the plan is made: rows of elements are combined, or, along a row, sampled.
#include "operators/definitions/resample.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cpu/loops/sampling_loops.h"
#include "runtime/cpu/planning/layout_assignment.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/values_along.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

// Elements of an axis beside the positions of another: tap t of position p is weight[t][p] times element at[t][p].
struct AxisTaps {
  Count size = 0, target = 0;
  std::vector<std::vector<std::int64_t>> at;
  std::vector<std::vector<float>> weight;
};

typedef float RowLanes __attribute__((vector_size(32), aligned(4), may_alias));
constexpr Count kRowLanes = 8;

// y[i] = the sum of weighted rows, kRows of them.
template <Count kRows>
void combine_resized_rows(float* y, const float* const* rows, const float* weights, Count n) {
  Count i = 0;
  for (; i + kRowLanes <= n; i += kRowLanes) {
    RowLanes sum = weights[0] * *reinterpret_cast<const RowLanes*>(rows[0] + i);
    for (Count t = 1; t < kRows; ++t) sum += weights[t] * *reinterpret_cast<const RowLanes*>(rows[t] + i);
    *reinterpret_cast<RowLanes*>(y + i) = sum;
  }
  for (; i < n; ++i) {
    float sum = weights[0] * rows[0][i];
    for (Count t = 1; t < kRows; ++t) sum += weights[t] * rows[t][i];
    y[i] = sum;
  }
}

// The tensor is [outer, axis, inner].
class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(AxisTaps taps, Count outer, Count inner, const SamplingLoops& loops)
      : t_(std::move(taps)), outer_(outer), inner_(inner), count_(static_cast<Count>(t_.at.size())), loops_(loops) {
    if (inner_ > 1) return;
    const Count blocks = (t_.target + kPoints - 1) / kPoints;
    at_.resize(static_cast<std::size_t>(blocks * count_ * kPoints));
    weight_.resize(at_.size());
    for (Count p = 0; p < t_.target; ++p)
      for (Count t = 0; t < count_; ++t) {
        const auto to = static_cast<std::size_t>((p / kPoints * count_ + t) * kPoints + p % kPoints);
        const auto from = static_cast<std::size_t>(p), tap = static_cast<std::size_t>(t);
        at_[to] = static_cast<std::int32_t>(t_.at[tap][from]), weight_[to] = t_.weight[tap][from];
      }
  }

  void run(const Call& call) const override {
    const auto* const x = reinterpret_cast<const float*>(call.inputs[0]);
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    const double elements = static_cast<double>(outer_ * t_.target * inner_ * count_);
    if (inner_ == 1)
      return call.workers.for_each(outer_, elements / kSampled, [&](Count row, int) {
        for (Count p = 0; p < t_.target; p += kPoints) {
          // The loop does not change them.
          const SamplingLoops::Taps taps{const_cast<std::int32_t*>(at_.data()) + p * count_,
                                         const_cast<float*>(weight_.data()) + p * count_};
          loops_.sample(y + row * t_.target + p, x + row * t_.size, taps, count_, std::min(kPoints, t_.target - p));
        }
      });
    call.workers.for_each(outer_ * t_.target, elements / kCombined, [&](Count unit, int) {
      const Count p = unit % t_.target;
      const float* const image = x + unit / t_.target * t_.size * inner_;
      const float* rows[kMostTaps];
      float weights[kMostTaps];
      for (Count t = 0; t < count_; ++t) {
        const auto tap = static_cast<std::size_t>(t);
        rows[t] = image + t_.at[tap][static_cast<std::size_t>(p)] * inner_;
        weights[t] = t_.weight[tap][static_cast<std::size_t>(p)];
      }
      float* const to = y + unit * inner_;
      if (count_ == 2) return combine_resized_rows<2>(to, rows, weights, inner_);
      if (count_ == 4) return combine_resized_rows<4>(to, rows, weights, inner_);
      combine_resized_rows<1>(to, rows, weights, inner_);
      for (Count t = 1; t < count_; ++t) {
        const float* const both[] = {to, rows[t]};
        const float factors[] = {1, weights[t]};
        combine_resized_rows<2>(to, both, factors, inner_);
      }
    });
  }

  static constexpr Count kMostTaps = 64;

 private:
  static constexpr Count kPoints = SamplingLoops::kPoints;
  static constexpr double kSampled = 1.5, kCombined = 4;  // taps of elements, per nanosecond

  AxisTaps t_;
  Count outer_, inner_, count_;
  const SamplingLoops& loops_;
  std::vector<std::int32_t> at_;  // for rows, by blocks of points
  std::vector<float> weight_;
};

std::optional<AxisTaps> taps_of(const AttributeReader& attributes, std::size_t axis, Count size, Count target) {
  const operators::Resampling how{attributes.text("mode"),
                                  attributes.text("coordinates"),
                                  attributes.text("rounding"),
                                  Real(attributes.real("cubic_coefficient")),
                                  attributes.flag("exclude_outside"),
                                  attributes.flag("antialias")};
  const operators::ResampledAxis resampled{
      size, target, {attributes.list("numerators")[axis], attributes.list("denominators")[axis]}, {}, {}};
  const Index p = Index::fresh("p");
  AxisTaps result{size, target, {}, {}};
  const std::vector<operators::Tap> taps = operators::taps(how, resampled, p);
  if (static_cast<Count>(taps.size()) > ResizeKernel::kMostTaps) return std::nullopt;
  for (const operators::Tap& tap : taps) {
    result.at.push_back(values_along<std::int64_t>(from_index(tap.position), p, target, DataType::kInt64));
    const auto weights = values_along<double>(tap.weight, p, target, DataType::kDouble);
    result.weight.emplace_back(weights.begin(), weights.end());
    if (result.at.back().empty() || weights.empty()) return std::nullopt;
  }
  return result;
}

class ResizePlan final : public NodePlan, public ChoosesLayout {
 public:
  ResizePlan(const Node& node, AxisTaps taps, std::size_t axis) : node_(node), taps_(std::move(taps)), axis_(axis) {}

  LayoutNeeds layout_needs(const Planner& planner) const override {
    const auto rank = planner.info(node_.inputs[0]).sizes.size();
    return {0, rank >= 3 && axis_ >= 2 ? 0.0 : kNoSuchKernel, {node_.inputs[0]}};
  }

  void emit(Planner& planner, ValueId result) override {
    const Sizes& from = planner.info(node_.inputs[0]).sizes;
    const auto assigned = planner.assigned_layout(result);
    const Layout layout = assigned && assigned->channels_last() && axis_ >= 2 ? kChannelsLast : kPlain;
    Count outer = 1, inner = 1;
    for (std::size_t a = 0; a < from.size(); ++a)
      if (a < axis_ && (layout.plain() || a != 1))
        outer *= from[a];
      else if (a != axis_)
        inner *= from[a];
    const int x = planner.storage(node_.inputs[0], layout), y = planner.add_value(result, layout);
    planner.add_step(
        std::make_unique<ResizeKernel>(std::move(taps_), outer, inner, loops_for<SamplingLoops>(planner.options().isa)), {x},
        {y});
  }

 private:
  const Node& node_;
  AxisTaps taps_;
  std::size_t axis_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_resize(Planner& planner, const Node& node) {
  const AttributeReader attributes(node);
  const ValueInfo &in = planner.info(node.inputs[0]), &out = planner.info(node.outputs[0]);
  if (in.type != DataType::kFloat || element_count(in.sizes) == 0 || element_count(out.sizes) == 0) return nullptr;
  const std::string& mode = attributes.text("mode");
  if ((mode != "linear" && mode != "cubic") || attributes.text("coordinates") == "tf_crop_and_resize") return nullptr;
  const std::vector<std::int64_t> up = attributes.list("numerators"), down = attributes.list("denominators");
  std::optional<std::size_t> axis;
  for (std::size_t a = 0; a < in.sizes.size(); ++a) {
    if (in.sizes[a] == out.sizes[a] && up[a] == down[a]) continue;
    if (axis) return nullptr;
    axis = a;
  }
  if (!axis) return nullptr;
  auto taps = taps_of(attributes, *axis, in.sizes[*axis], out.sizes[*axis]);
  if (!taps) return nullptr;
  return std::make_unique<ResizePlan>(node, std::move(*taps), *axis);
}

}  // namespace rewright::cpu
