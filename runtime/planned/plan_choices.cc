#include "runtime/planned/plan_choices.h"

#include <algorithm>

#include "optimizer/costs/cost_model.h"
#include "plans/groups/group_graph.h"

namespace rewright::runtime {

plans::OperatorSeconds device_seconds(const plans::Machine& machine, std::optional<bool> trains, std::size_t parts,
                                      bool for_bound) {
  return [rates = machine.rates(), factors = machine.operator_factors(), trains, parts, for_bound](
             const Operator& op, const Attributes& attributes, plans::OperandTypes types, double moved) {
    const OperatorTraits traits = operator_traits(op, attributes, types);
    if (traits.free) return 0.0;
    const double share = 1 / static_cast<double>(parts), bytes = traits.bytes * moved * share;
    const double seconds = rates.seconds(traits.operations * share, bytes);
    if (!factors) return seconds;
    const OperatorSignature known = operator_signature(op, attributes, types, traits);
    const std::optional<bool> constants = trains ? std::optional(!*trains) : std::nullopt;
    const std::optional<double> factor = for_bound ? factors->least_factor(known) : factors->factor(known, constants);
    return std::max(seconds * factor.value_or(1), bytes / rates.bytes_per_second);
  };
}

plans::ChoiceFinder& PlanChoices::among(std::size_t groups, std::size_t size, bool alike, bool for_bound) {
  for_bound = for_bound || size > 1;
  auto& known = finders_[{groups, size, alike, for_bound}];
  if (!known) {
    const auto count = static_cast<std::int64_t>(groups);
    known = std::make_unique<plans::ChoiceFinder>(count, device_seconds(machine_, trains_, size, for_bound), cuts_);
    if (alike) known->keep_only([count](const plans::NodeChoice& c) { return plans::why_not_alike(c, count).empty(); });
  }
  return *known;
}

}  // namespace rewright::runtime
