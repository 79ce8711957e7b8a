// Rotary position embeddings of heads, row by row in the order of memory.
#include <cstdint>
#include <utility>
#include <vector>

#include "expressions/tensor.h"
#include "runtime/cpu/loops/cache_loops.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/planning/whole_operators.h"

namespace rewright::cpu {

namespace {

// Rows of `size` elements, whose first 2 * half are turned. Positions are by batch and place.
struct RotatedRows {
  std::int64_t batch = 1, heads = 1, length = 1, size = 1, half = 1;
  bool heads_first = true;  // [batch, heads, length, size], else [batch, length, heads, size]
  bool interleaved = false;
  std::int64_t table = 1;      // rows of the tables
  std::int64_t positions = 0;  // 0: row (batch, place) of the tables; 1: that of the first place; else one for each place
  std::int64_t position_batch = 1;
  DataType position_type = DataType::kInt64;
};

class RotationKernel final : public Kernel {
 public:
  RotationKernel(const RotatedRows& rows, const CacheLoops& loops) : r_(rows), loops_(loops) {}

  void run(const Call& call) const override {
    const std::int64_t outer = r_.heads_first ? r_.heads : r_.length, inner = r_.heads_first ? r_.length : r_.heads;
    const double of_row = kRowNanoseconds + static_cast<double>(r_.size) / kRotated;
    call.workers.for_each(
        r_.batch * outer, of_row * static_cast<double>(r_.batch * outer * inner), [&](std::int64_t unit, int) {
          const std::int64_t first = unit * inner * r_.size, batch = unit / outer;
          const auto* x = reinterpret_cast<const float*>(call.inputs[0]) + first;
          auto* y = reinterpret_cast<float*>(call.outputs[0]) + first;
          for (std::int64_t i = 0; i < inner; ++i, x += r_.size, y += r_.size) {
            const std::int64_t row = table_row(call, batch, r_.heads_first ? i : unit % outer) * r_.half;
            loops_.rotate(x, reinterpret_cast<const float*>(call.inputs[1]) + row,
                          reinterpret_cast<const float*>(call.inputs[2]) + row, r_.half, r_.size, r_.interleaved, 1.0f, y);
          }
        });
  }

 private:
  static constexpr double kRotated = 1, kRowNanoseconds = 8;  // elements a nanosecond, and for each row

  std::int64_t table_row(const Call& call, std::int64_t batch, std::int64_t place) const {
    if (r_.positions == 0) return batch * r_.length + place;
    const auto at = [&](std::int64_t i) -> std::int64_t {
      if (r_.position_type == DataType::kInt64) return reinterpret_cast<const std::int64_t*>(call.inputs[3])[i];
      return reinterpret_cast<const std::int32_t*>(call.inputs[3])[i];
    };
    if (r_.positions == 1) return checked_index(at(0) + place, r_.table);
    return checked_index(at((r_.position_batch == 1 ? 0 : batch) * r_.length + place), r_.table);
  }

  RotatedRows r_;
  const CacheLoops& loops_;
};

class RotationPlan final : public NodePlan {
 public:
  RotationPlan(const Node& node, const RotatedRows& rows) : node_(node), rows_(rows) {}

  void emit(Planner& planner, ValueId result) override {
    std::vector<int> inputs = planner.plain_inputs(node_);
    const int target = planner.add_value(result, kPlain);
    planner.add_step(std::make_unique<RotationKernel>(rows_, loops_for<CacheLoops>(planner.options().isa)), std::move(inputs),
                     {target});
  }

 private:
  const Node& node_;
  RotatedRows rows_;
};

}  // namespace

std::unique_ptr<NodePlan> plan_rotation(Planner& planner, const Node& node) {
  if (planner.info(node.inputs[0]).type != DataType::kFloat) return nullptr;  // 16 bits become floats before
  const AttributeReader attributes(node);
  const Sizes x = planner.info(node.inputs[0]).sizes, table = planner.info(node.inputs[1]).sizes;
  RotatedRows r;
  r.heads_first = x.size() == 4;
  r.batch = x[0], r.length = x[r.heads_first ? 2 : 1];
  r.heads = r.heads_first ? x[1] : attributes.number("heads");
  r.size = r.heads_first ? x[3] : x[2] / r.heads;
  r.half = table.back(), r.table = table[0];
  r.interleaved = attributes.flag("interleaved");
  if (planner.has(node, 3)) {
    const ValueInfo positions = planner.info(node.inputs[3]);
    r.positions = positions.sizes.size() == 1 ? 1 : 2;
    r.position_batch = positions.sizes[0];
    r.position_type = positions.type;
  }
  return std::make_unique<RotationPlan>(node, r);
}

}  // namespace rewright::cpu
