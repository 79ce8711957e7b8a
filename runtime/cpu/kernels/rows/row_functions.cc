#include "runtime/cpu/kernels/rows/row_functions.h"

#include <optional>

#include "runtime/cpu/loops/product_loops.h"
#include "runtime/cpu/planning/planner.h"
#include "runtime/planning/row_functions.h"

namespace rewright::cpu {

namespace {

using Count = std::int64_t;

constexpr double kElements = 4;  // a nanosecond

class RowKernel final : public Kernel {
 public:
  // Without a normalization: softmax.
  RowKernel(const ProductLoops& loops, Count rows, Count columns, std::optional<planning::RowNormalization> normalization,
            int scale, int shift)
      : loops_(loops), rows_(rows), columns_(columns), normalization_(normalization), scale_(scale), shift_(shift) {}

  void run(const Call& call) const override {
    const auto* const x = reinterpret_cast<const float*>(call.inputs[0]);
    auto* const y = reinterpret_cast<float*>(call.outputs[0]);
    const auto input = [&](int number) {
      return number < 0 ? nullptr : reinterpret_cast<const float*>(call.inputs[static_cast<std::size_t>(number)]);
    };
    const float *const scale = input(scale_), *const shift = input(shift_);
    const double work = static_cast<double>(rows_) * static_cast<double>(columns_);
    call.workers.for_each(rows_, work / kElements, [&](Count r, int) {
      const float* const from = x + r * columns_;
      float* const to = y + r * columns_;
      if (normalization_)
        loops_.normalize(to, from, columns_, normalization_->centered, static_cast<float>(normalization_->epsilon), scale,
                         shift);
      else
        loops_.softmax(to, from, columns_);
    });
  }

 private:
  const ProductLoops& loops_;
  Count rows_, columns_;
  std::optional<planning::RowNormalization> normalization_;
  int scale_, shift_;  // inputs; -1: none
};

class RowPlan final : public NodePlan {
 public:
  RowPlan(const Node& node, std::optional<planning::RowNormalization> normalization)
      : node_(node), normalization_(normalization) {}

  void emit(Planner& planner, ValueId result) override {
    const Sizes sizes = planner.info(node_.inputs[0]).sizes;
    std::vector<int> inputs;
    for (const ValueId i : node_.inputs) inputs.push_back(planner.storage(i, kPlain));
    const int scale = inputs.size() > 1 ? 1 : -1, shift = inputs.size() > 2 ? 2 : -1;
    const int target = planner.add_value(result, kPlain);
    planner.add_step(
        std::make_unique<RowKernel>(loops_for<ProductLoops>(planner.options().isa), element_count(sizes) / sizes.back(),
                                    sizes.back(), normalization_, scale, shift),
        std::move(inputs), {target});
  }

 private:
  const Node& node_;
  std::optional<planning::RowNormalization> normalization_;
};

// Of floats that the model computes.
bool may_be_row_function(const Planner& planner, const Node& node) {
  if (node.inputs.empty() || node.inputs[0] == kNoValue || planner.constant(node.inputs[0])) return false;
  const ValueInfo x = planner.info(node.inputs[0]), y = planner.info(node.outputs[0]);
  return x.type == DataType::kFloat && y.type == DataType::kFloat && x.sizes == y.sizes;
}

std::vector<ValueInfo> operands_of(const Planner& planner, const Node& node) {
  std::vector<ValueInfo> result;
  for (const ValueId i : node.inputs) result.push_back(i == kNoValue ? ValueInfo{} : planner.info(i));
  return result;
}

}  // namespace

bool is_row_softmax(const Planner& planner, const Node& node) {
  return may_be_row_function(planner, node) && planning::is_row_softmax(node, operands_of(planner, node));
}

std::unique_ptr<NodePlan> plan_row_function(Planner& planner, const Node& node) {
  if (!may_be_row_function(planner, node)) return nullptr;
  if (is_row_softmax(planner, node)) return std::make_unique<RowPlan>(node, std::nullopt);
  const auto normalization = planning::find_row_normalization(node, operands_of(planner, node));
  return normalization ? std::make_unique<RowPlan>(node, normalization) : nullptr;
}

}  // namespace rewright::cpu
