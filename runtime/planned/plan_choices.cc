#include "runtime/planned/plan_choices.h"

#include "optimizer/costs/cost_model.h"
#include "plans/groups/group_graph.h"

namespace rewright::runtime {

plans::OperatorSeconds device_seconds(const plans::DeviceRates& rates, std::size_t parts) {
  return [rates, share = 1 / static_cast<double>(parts)](const Operator& op, const Attributes& attributes,
                                                         plans::OperandTypes types, double moved) {
    const OperatorTraits traits = operator_traits(op, attributes, types);
    return traits.free ? 0.0 : rates.seconds(traits.operations * share, traits.bytes * moved * share);
  };
}

plans::ChoiceFinder& PlanChoices::among(std::size_t groups, std::size_t size, bool alike) {
  auto& known = finders_[{groups, size, alike}];
  if (!known) {
    const auto count = static_cast<std::int64_t>(groups);
    known = std::make_unique<plans::ChoiceFinder>(count, device_seconds(rates_, size), cuts_);
    if (alike) known->keep_only([count](const plans::NodeChoice& c) { return plans::why_not_alike(c, count).empty(); });
  }
  return *known;
}

}  // namespace rewright::runtime
