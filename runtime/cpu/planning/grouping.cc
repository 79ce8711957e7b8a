#include "runtime/cpu/planning/grouping.h"

#include <algorithm>

#include "runtime/cpu/planning/matching.h"

namespace rewright::cpu {

namespace {

// Answers grouping's questions with the CPU's kernels.
class Grouping final : public planning::DeviceKernels {
 public:
  Grouping(Planner& planner, std::vector<bool>& stored) : planner_(planner), stored_(stored) {}
  const Graph& graph() const override { return planner_.graph(); }
  const ValueInfo& info(ValueId value) const override { return planner_.info(value); }
  const Tensor& constant(ValueId value) const override { return planner_.constant(value); }
  bool is_constant(ValueId value) const override { return planner_.is_constant(value); }
  const Definition& define(const Node& node) const override { return planner_.define(node); }
  planning::Traits traits(const Node& node) const override { return planner_.traits(node); }
  planning::Movement movement(const Node& node) const override { return planner_.movement(node); }
  bool needed(std::size_t node) const override { return planner_.is_needed(node); }
  ValueId add_constant_value(Tensor tensor) override { return planner_.add_constant_value(std::move(tensor)); }
  bool has_kernels(std::string_view operator_name) const override { return has_node_kernels(operator_name); }
  std::unique_ptr<planning::MatchedKernel> match(const Node& node) override {
    if (is_replaced(node)) return nullptr;
    for (const NodeKernel& kernel : node_kernels(node.op->name()))
      if (auto plan = kernel.plan(planner_, node)) return plan;
    return nullptr;
  }
  std::unique_ptr<planning::MatchedKernel> match_reduction(const Node& node) override {
    if (is_replaced(node)) return nullptr;
    for (const ReductionKernel plan_node : reduction_kernels())
      if (auto plan = plan_node(planner_, node)) return plan;
    return nullptr;
  }
  bool absorb_before(planning::MatchedKernel& kernel, const Chain& chain) override {
    return static_cast<NodePlan&>(kernel).absorb_before(planner_, chain);
  }
  bool absorb_next(planning::MatchedKernel& kernel, const Node& next) override {
    return !is_replaced(next) && static_cast<NodePlan&>(kernel).absorb_next(planner_, next);
  }
  bool absorb_addend(planning::MatchedKernel& kernel, ValueId addend,
                     std::unique_ptr<planning::MatchedKernel>& other) override {
    return static_cast<NodePlan&>(kernel).absorb_addend(planner_, addend, other);
  }
  bool absorb_rows(planning::MatchedKernel& kernel, const Node& rows, const planning::MatchedKernel& next) override {
    return static_cast<NodePlan&>(kernel).absorb_rows(planner_, rows, static_cast<const NodePlan&>(next));
  }
  bool absorb_move(planning::MatchedKernel& kernel, const Node& node) override {
    return static_cast<NodePlan&>(kernel).absorb_move(planner_, node);
  }
  bool absorb_operand(planning::MatchedKernel& kernel, const Chain& chain) override {
    return static_cast<NodePlan&>(kernel).absorb_operand(planner_, chain);
  }
  bool absorb(planning::MatchedKernel& kernel, const Chain& chain) override {
    return static_cast<NodePlan&>(kernel).absorb(planner_, chain);
  }
  bool fuses_quantization() const override { return true; }
  void will_be_stored(ValueId value) override { stored_[value] = true; }
  Chain::Expression composed(const std::vector<int>& nodes, ValueId start, bool shorten,
                             const std::function<Chain::Expression()>& compose) override {
    return recalled_expression(planner_, nodes, start, shorten, compose);
  }
  std::shared_ptr<const ChannelAffine> channel_affine(const Chain& chain) const override {
    return match_channel_affine(planner_, chain, 1);
  }

 private:
  bool is_replaced(const Node& node) const {
    if (planner_.options().instead.empty()) return false;
    const auto result = std::find_if(node.outputs.begin(), node.outputs.end(), [](ValueId o) { return o != kNoValue; });
    return result != node.outputs.end() && instead_of(planner_, planner_.producer_number(*result)).has_value();
  }

  Planner& planner_;
  std::vector<bool>& stored_;
};

}  // namespace

std::vector<planning::Group> make_groups(Planner& planner, std::vector<bool>& stored) {
  Grouping facts(planner, stored);
  return planning::make_groups(facts);
}

std::optional<Instead> instead_of(const Planner& planner, int node) {
  const auto& instead = planner.options().instead;
  const auto found = instead.find(node);
  if (found == instead.end()) return std::nullopt;
  return found->second;
}

}  // namespace rewright::cpu
