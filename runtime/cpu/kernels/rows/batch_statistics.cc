// BatchNormalization in training: the statistics of a channel and its normalized elements, while they are in the caches.
#include <algorithm>
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
  double epsilon = 0, momentum = 0;
  int mean = -1, variance = -1;  // numbers of the outputs for running statistics; -1: none
};

// Inputs: x, scale, shift, and the running mean and variance. T: float or double.
template <class T>
class BatchStatisticsKernel final : public Kernel {
 public:
  BatchStatisticsKernel(const BatchShape& shape, const RowSums<T>& loops) : s_(shape), loops_(loops) {}

  void run(const Call& call) const override {
    const double elements = static_cast<double>(s_.images * s_.channels * s_.row);
    call.workers.for_each(s_.channels, elements / kElements, [&](std::int64_t c, int) { run_channel(call, c); });
  }

 private:
  static constexpr double kElements = 1.5;  // a nanosecond

  struct Rows {
    std::int64_t count, size, step;
  };

  // Short rows of a channel are put side by side: loops over each of them take longer than that.
  static constexpr std::int64_t kLongRow = 128, kTogether = 1 << 13;

  void run_channel(const Call& call, std::int64_t c) const {
    const auto input = [&](std::size_t n) { return reinterpret_cast<const T*>(call.inputs[n]); };
    const std::int64_t step = s_.channels * s_.row;
    const double count = static_cast<double>(s_.images * s_.row);
    const T* x = input(0) + c * s_.row;
    auto* const y = reinterpret_cast<T*>(call.outputs[0]) + c * s_.row;
    Rows rows{s_.images, s_.row, step};
    T together[kTogether];
    const bool is_copied = s_.images > 1 && s_.row < kLongRow && s_.images * s_.row <= kTogether;
    if (is_copied) {
      for (std::int64_t n = 0; n < s_.images; ++n) std::copy_n(x + n * step, s_.row, together + n * s_.row);
      x = together;
      rows = {1, s_.images * s_.row, 0};
    }
    double sum = 0, squares = 0;
    for (std::int64_t n = 0; n < rows.count; ++n) sum += static_cast<double>(loops_.sum(x + n * rows.step, rows.size, 0));
    const auto mean = static_cast<T>(sum / count);
    for (std::int64_t n = 0; n < rows.count; ++n)
      squares += static_cast<double>(loops_.sum_of_squares(x + n * rows.step, rows.size, mean));
    const auto variance = static_cast<T>(squares / count);
    const T factor = input(1)[c] / std::sqrt(variance + static_cast<T>(s_.epsilon));
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    const typename RowSums<T>::Scaling scaling{mean, factor, input(2)[c], -kInfinity, kInfinity};
    if (is_copied) {
      loops_.scale(together, together, rows.size, scaling);
      for (std::int64_t n = 0; n < s_.images; ++n) std::copy_n(together + n * s_.row, s_.row, y + n * step);
    } else {
      for (std::int64_t n = 0; n < s_.images; ++n) loops_.scale(y + n * step, x + n * step, s_.row, scaling);
    }
    const auto momentum = static_cast<T>(s_.momentum);
    const auto keep = [&](int output, std::size_t running, T now) {
      if (output >= 0)
        reinterpret_cast<T*>(call.outputs[static_cast<std::size_t>(output)])[c] =
            input(running)[c] * momentum + now * (1 - momentum);
    };
    keep(s_.mean, 3, mean);
    keep(s_.variance, 4, variance);
  }

  BatchShape s_;
  const RowSums<T>& loops_;
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
    const Isa isa = planner.options().isa;
    std::unique_ptr<Kernel> kernel;
    if (planner.info(node_.outputs[0]).type == DataType::kFloat)
      kernel = std::make_unique<BatchStatisticsKernel<float>>(shape_, row_sums<float>(isa));
    else
      kernel = std::make_unique<BatchStatisticsKernel<double>>(shape_, row_sums<double>(isa));
    planner.add_step(std::move(kernel), std::move(inputs), std::move(targets));
  }

 private:
  const Node& node_;
  BatchShape shape_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_batch_statistics(Planner& planner, const Node& node) {
  const AttributeReader attributes(node);
  const DataType type = planner.info(node.inputs[0]).type;
  if (type != DataType::kFloat && type != DataType::kDouble) return nullptr;  // 16 bits become floats before
  const Sizes x = planner.info(node.inputs[0]).sizes;
  BatchShape shape;
  shape.images = x[0], shape.channels = x[1];
  for (std::size_t a = 2; a < x.size(); ++a) shape.row *= x[a];
  shape.epsilon = attributes.real("epsilon");
  shape.momentum = attributes.real("momentum");
  return std::make_unique<BatchStatisticsPlan>(node, shape);
}

}  // namespace rewright::cpu
