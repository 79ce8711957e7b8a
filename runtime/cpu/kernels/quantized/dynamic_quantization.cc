// DynamicQuantizeLinear: the range of all elements, in one pass, then the integers.
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/cpu/loops/scaling_loops.h"
#include "runtime/cpu/planning/plan_together.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

namespace {

class DynamicQuantizationKernel final : public Kernel {
 public:
  // `outputs`: numbers of the integers, the scale and the zero point; -1: none.
  DynamicQuantizationKernel(std::int64_t elements, std::vector<int> outputs, int threads, const ScalingLoops& loops)
      : elements_(elements), outputs_(std::move(outputs)), threads_(threads), loops_(loops) {}

  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(threads_) * sizeof(Range); }

  void run(const Call& call) const override {
    const auto* const x = reinterpret_cast<const float*>(call.inputs[0]);
    const Range range = range_of(call, x);
    // As the operator is defined: each of these is rounded to a float once.
    const double width = static_cast<double>(range.largest) - static_cast<double>(range.least);
    const float scale = width == 0 ? 1.0f : static_cast<float>(width / 255);
    const float zero = std::nearbyint(-range.least / scale), above = zero > 0 ? zero : 0;
    const float zero_point = std::min(above, 255.0f);
    if (outputs_[1] >= 0) *reinterpret_cast<float*>(call.outputs[static_cast<std::size_t>(outputs_[1])]) = scale;
    if (outputs_[2] >= 0)
      *reinterpret_cast<std::uint8_t*>(call.outputs[static_cast<std::size_t>(outputs_[2])]) =
          static_cast<std::uint8_t>(zero_point);
    if (outputs_[0] < 0) return;
    auto* const y = reinterpret_cast<std::uint8_t*>(call.outputs[static_cast<std::size_t>(outputs_[0])]);
    const std::int64_t pieces = call.workers.pieces(static_cast<double>(elements_) / kQuantizedElements, elements_);
    call.workers.share(pieces, [&](std::int64_t piece, int) {
      const std::int64_t first = first_unit(elements_, piece, pieces), last = first_unit(elements_, piece + 1, pieces);
      loops_.quantize(y + first, x + first, last - first, {scale, zero_point, 0, 255});
    });
  }

 private:
  static constexpr double kRangeElements = 8, kQuantizedElements = 4;  // a nanosecond

  struct Range {
    float least = 0, largest = 0;  // 0 is always in it
  };

  Range range_of(const Call& call, const float* x) const {
    auto* const ranges = reinterpret_cast<Range*>(call.scratch);
    std::fill_n(ranges, threads_, Range());
    const std::int64_t pieces = call.workers.pieces(static_cast<double>(elements_) / kRangeElements, elements_);
    call.workers.share(pieces, [&](std::int64_t piece, int thread) {
      const std::int64_t first = first_unit(elements_, piece, pieces), last = first_unit(elements_, piece + 1, pieces);
      loops_.extremes(x + first, last - first, &ranges[thread].least, &ranges[thread].largest);
    });
    Range all;
    for (int t = 0; t < threads_; ++t) {
      const float found[] = {ranges[t].least, ranges[t].largest};
      loops_.extremes(found, 2, &all.least, &all.largest);
    }
    return all;
  }

  std::int64_t elements_;
  std::vector<int> outputs_;
  int threads_;
  const ScalingLoops& loops_;
};

}  // namespace

bool plan_dynamic_quantization(Planner& planner, const Node& node) {
  if (node.op->name() != "DynamicQuantizeLinear" || planner.info(node.inputs[0]).type != DataType::kFloat) return false;
  const std::int64_t elements = element_count(planner.info(node.inputs[0]).sizes);
  if (elements == 0) return false;
  const int x = planner.storage(node.inputs[0], kPlain);
  std::vector<int> targets, numbers(3, -1);
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    if (node.outputs[o] == kNoValue) continue;
    numbers[o] = static_cast<int>(targets.size());
    targets.push_back(planner.add_value(node.outputs[o], kPlain));
  }
  planner.add_step(std::make_unique<DynamicQuantizationKernel>(elements, std::move(numbers), planner.options().threads,
                                                               loops_for<ScalingLoops>(planner.options().isa)),
                   {x}, std::move(targets));
  return true;
}

}  // namespace rewright::cpu
