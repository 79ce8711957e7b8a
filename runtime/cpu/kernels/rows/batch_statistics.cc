// BatchNormalization in training: the statistics of a channel and its normalized elements, while they are in the caches.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/cpu/loops/scaling_loops.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/planning/whole_operators.h"

namespace rewright::cpu {

namespace {

struct BatchShape {
  std::int64_t images = 1, channels = 1, row = 1;  // row: elements of a channel of an image
  float epsilon = 0, momentum = 0;
  int mean = -1, variance = -1;  // numbers of the outputs for running statistics; -1: none
};

// Inputs: x, scale, shift, and the running mean and variance.
class BatchStatisticsKernel final : public Kernel {
 public:
  BatchStatisticsKernel(const BatchShape& shape, const ScalingLoops& loops) : s_(shape), loops_(loops) {}

  void run(const Call& call) const override {
    const double elements = static_cast<double>(s_.images * s_.channels * s_.row);
    call.workers.for_each(s_.channels, elements / kElements, [&](std::int64_t c, int) { run_channel(call, c); });
  }

 private:
  static constexpr double kElements = 1.5;  // a nanosecond

  void run_channel(const Call& call, std::int64_t c) const {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const auto input = [&](std::size_t n) { return reinterpret_cast<const float*>(call.inputs[n]); };
    const float* const x = input(0) + c * s_.row;
    auto* const y = reinterpret_cast<float*>(call.outputs[0]) + c * s_.row;
    const std::int64_t step = s_.channels * s_.row;
    const double count = static_cast<double>(s_.images * s_.row);
    double sum = 0, squares = 0;
    for (std::int64_t n = 0; n < s_.images; ++n) sum += static_cast<double>(loops_.sum(x + n * step, s_.row, 0));
    const auto mean = static_cast<float>(sum / count);
    for (std::int64_t n = 0; n < s_.images; ++n)
      squares += static_cast<double>(loops_.sum_of_squares(x + n * step, s_.row, mean));
    const auto variance = static_cast<float>(squares / count);
    const float factor = input(1)[c] / std::sqrt(variance + s_.epsilon);
    for (std::int64_t n = 0; n < s_.images; ++n)
      loops_.scale(y + n * step, x + n * step, s_.row, {mean, factor, input(2)[c], -kInfinity, kInfinity});
    const auto keep = [&](int output, std::size_t running, float now) {
      if (output >= 0)
        reinterpret_cast<float*>(call.outputs[static_cast<std::size_t>(output)])[c] =
            input(running)[c] * s_.momentum + now * (1 - s_.momentum);
    };
    keep(s_.mean, 3, mean);
    keep(s_.variance, 4, variance);
  }

  BatchShape s_;
  const ScalingLoops& loops_;
};

class BatchStatisticsPlan final : public NodePlan {
 public:
  BatchStatisticsPlan(const Node& node, const BatchShape& shape) : node_(node), shape_(shape) {}

  void emit(Planner& planner, ValueId) override {
    std::vector<int> inputs = planner.plain_inputs(node_), targets;
    int* const numbers[] = {nullptr, &shape_.mean, &shape_.variance};
    for (std::size_t o = 0; o < node_.outputs.size(); ++o) {
      if (node_.outputs[o] == kNoValue) continue;
      if (numbers[o] != nullptr) *numbers[o] = static_cast<int>(targets.size());
      targets.push_back(planner.add_value(node_.outputs[o], kPlain));
    }
    planner.add_step(std::make_unique<BatchStatisticsKernel>(shape_, loops_for<ScalingLoops>(planner.options().isa)),
                     std::move(inputs), std::move(targets));
  }

 private:
  const Node& node_;
  BatchShape shape_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_batch_statistics(Planner& planner, const Node& node) {
  const AttributeReader attributes(node);
  const Sizes x = planner.info(node.inputs[0]).sizes;
  BatchShape shape;
  shape.images = x[0], shape.channels = x[1];
  for (std::size_t a = 2; a < x.size(); ++a) shape.row *= x[a];
  shape.epsilon = static_cast<float>(attributes.real("epsilon"));
  shape.momentum = static_cast<float>(attributes.real("momentum"));
  return std::make_unique<BatchStatisticsPlan>(node, shape);
}

}  // namespace rewright::cpu
