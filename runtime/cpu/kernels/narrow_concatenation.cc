// Concatenation of parts of a few elements each, side by side in every row, as columns become a table.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "operators/tensor_parts.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

constexpr double kPieces = 0.7;   // copied runs, per nanosecond
constexpr Count kCached = 16384;  // bytes of the result that are written together

class NarrowConcatenationKernel final : public Kernel {
 public:
  // `widths`: bytes of a row, by input.
  NarrowConcatenationKernel(std::vector<Count> widths, Count rows, Isa isa)
      : widths_(std::move(widths)), rows_(rows), loops_(loops_for<LoopTables>(isa)) {
    for (const Count width : widths_) row_ += width;
  }

  void run(const Call& call) const override {
    const Count together = std::clamp<Count>(kCached / row_, 8, 512), blocks = (rows_ + together - 1) / together;
    const double nanoseconds = static_cast<double>(rows_) * static_cast<double>(widths_.size()) / kPieces;
    call.workers.for_each(blocks, nanoseconds, [&](Count block, int) {
      const Count first = block * together, count = std::min(together, rows_ - first);
      std::byte* to = call.outputs[0] + first * row_;
      for (std::size_t k = 0; k < widths_.size(); to += widths_[k++])
        loops_.copy_rows(to, row_, call.inputs[k] + first * widths_[k], widths_[k], count, widths_[k]);
    });
  }

 private:
  std::vector<Count> widths_;
  Count rows_, row_ = 0;
  const LoopTables& loops_;
};

class NarrowConcatenationPlan final : public NodePlan {
 public:
  NarrowConcatenationPlan(const Node& node, std::size_t axis) : node_(node), axis_(axis) {}

  void emit(Planner& planner, ValueId result) override {
    const ValueInfo& y = planner.info(result);
    std::vector<int> inputs;
    std::vector<Count> widths;
    for (const ValueId v : node_.inputs) {
      const operators::AxisView view(planner.info(v).sizes, axis_);
      if (view.size * view.after == 0) continue;
      widths.push_back(view.size * view.after * static_cast<Count>(byte_size(y.type)));
      inputs.push_back(planner.storage(v, kPlain));
    }
    const Count rows = operators::AxisView(y.sizes, axis_).before;
    planner.add_step(std::make_unique<NarrowConcatenationKernel>(std::move(widths), rows, planner.options().isa),
                     std::move(inputs), {planner.add_value(result, kPlain)});
  }

 private:
  const Node& node_;
  std::size_t axis_;
};

}  // namespace

// The tile engine computes parts on the way, but one after the other in each row: that is slow for many short ones.
std::unique_ptr<NodePlan> plan_narrow_concatenation(Planner& planner, const Node& node) {
  constexpr Count kMostElements = 16;  // of a part in a row
  constexpr std::size_t kFewParts = 4;
  const ValueInfo& y = planner.info(node.outputs[0]);
  const auto axis = static_cast<std::size_t>(AttributeReader(node).number("axis"));
  if (packed_bits(y.type) < 8 || y.type == DataType::kString || axis >= y.sizes.size()) return nullptr;
  const operators::AxisView view(y.sizes, axis);
  const auto parts = static_cast<Count>(node.inputs.size());
  if (view.before < 2 || element_count(y.sizes) == 0 || node.inputs.size() < kFewParts) return nullptr;
  if (view.size * view.after > parts * kMostElements) return nullptr;
  return std::make_unique<NarrowConcatenationPlan>(node, axis);
}

}  // namespace rewright::cpu
