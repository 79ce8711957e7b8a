// OneHot along an axis that is not the last one: filled with one value, and the other one stored where each index says. Along
// the last axis the tile engine finds the place in a row.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "operators/tensor_parts.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

class OneHotKernel final : public Kernel {
 public:
  // `view`: of the result. Elements and indices are integers of the same bytes as theirs.
  OneHotKernel(operators::AxisView view, std::size_t width, DataType indices) : y_(view), width_(width), indices_(indices) {}

  void run(const Call& call) const override {
    if (width_ == 1) return run_as<std::uint8_t>(call);
    if (width_ == 2) return run_as<std::uint16_t>(call);
    if (width_ == 4) return run_as<std::uint32_t>(call);
    run_as<std::uint64_t>(call);
  }

 private:
  template <class T>
  void run_as(const Call& call) const {
    if (indices_ == DataType::kInt64) return fill<T, std::int64_t>(call);
    fill<T, std::int32_t>(call);
  }

  template <class T, class I>
  void fill(const Call& call) const {
    constexpr double kElements = 8;  // a nanosecond
    constexpr Count kColumns = 4096;
    const auto* const values = reinterpret_cast<const T*>(call.inputs[1]);
    const auto* const indices = reinterpret_cast<const I*>(call.inputs[0]);
    const Count part = y_.size * y_.after, pieces = (y_.after + kColumns - 1) / kColumns;
    call.workers.for_each(y_.before * pieces, static_cast<double>(y_.before * part) / kElements, [&](Count n, int) {
      const Count b = n / pieces, first = n % pieces * kColumns, last = std::min(first + kColumns, y_.after);
      T* const y = reinterpret_cast<T*>(call.outputs[0]) + b * part;
      if (pieces == 1)
        std::fill_n(y, part, values[0]);
      else
        for (Count row = 0; row < y_.size; ++row) std::fill(y + row * y_.after + first, y + row * y_.after + last, values[0]);
      for (Count k = first; k < last; ++k) {
        auto hot = static_cast<Count>(indices[b * y_.after + k]);
        if (hot < 0) hot += y_.size;
        if (hot >= 0 && hot < y_.size) y[hot * y_.after + k] = values[1];
      }
    });
  }

  operators::AxisView y_;
  std::size_t width_;
  DataType indices_;
};

class OneHotPlan final : public NodePlan {
 public:
  OneHotPlan(const Node& node, operators::AxisView view) : node_(node), view_(view) {}

  void emit(Planner& planner, ValueId result) override {
    std::vector<int> inputs = planner.plain_inputs(node_);
    const int target = planner.add_value(result, kPlain);
    planner.add_step(
        std::make_unique<OneHotKernel>(view_, byte_size(planner.info(result).type), planner.info(node_.inputs[0]).type),
        std::move(inputs), {target});
  }

 private:
  const Node& node_;
  operators::AxisView view_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_one_hot(Planner& planner, const Node& node) {
  const ValueInfo& y = planner.info(node.outputs[0]);
  const DataType indices = planner.info(node.inputs[0]).type;
  const Count rank = std::ssize(y.sizes), given = AttributeReader(node).number("axis"), axis = given < 0 ? given + rank : given;
  if (indices != DataType::kInt64 && indices != DataType::kInt32) return nullptr;
  if (packed_bits(y.type) < 8 || y.type == DataType::kString || element_count(y.sizes) == 0) return nullptr;
  const operators::AxisView view(y.sizes, static_cast<std::size_t>(axis));
  if (view.after == 1 || byte_size(y.type) > sizeof(std::uint64_t)) return nullptr;
  return std::make_unique<OneHotPlan>(node, view);
}

}  // namespace rewright::cpu
