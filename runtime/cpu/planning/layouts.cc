#include "runtime/cpu/planning/layouts.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "runtime/cpu/planning/layout_assignment.h"

namespace rewright::cpu {

namespace {

using planning::Group;

// The nanoseconds of a layout conversion: for each byte read and written, and for the step.
constexpr double kChangedByte = 0.25, kChange = 1000;

LayoutNeeds chain_needs(const Planner& planner, const Group& group) {
  const ValueInfo& out = planner.info(group.result);
  LayoutNeeds needs;
  if (out.sizes.size() < 3) return {0, kNoSuchKernel};
  // Operands with the result's sizes, up to broadcast axes.
  for (const ValueId v : group.chain->operands()) {
    if (v == kNoValue || planner.is_constant(v)) continue;
    const Sizes& sizes = planner.info(v).sizes;
    if (sizes.size() != out.sizes.size()) continue;
    if (sizes[1] == out.sizes[1] || std::equal(sizes.begin() + 2, sizes.end(), out.sizes.begin() + 2))
      needs.operands.push_back(v);
  }
  if (needs.operands.empty()) needs.channels_last = kNoSuchKernel;
  return needs;
}

bool chooses_layout(const Group& group) {
  if (group.kernel) return dynamic_cast<const ChoosesLayout*>(group.kernel.get()) != nullptr;
  return group.chain && group.result != kNoValue;
}

LayoutNeeds layout_needs(const Planner& planner, const Group& group) {
  if (!chooses_layout(group)) return {0, kNoSuchKernel};
  return group.kernel ? dynamic_cast<const ChoosesLayout&>(*group.kernel).layout_needs(planner) : chain_needs(planner, group);
}

// The operands that a group without a choice of layouts reads, all row-major.
std::vector<ValueId> plain_operands(const Planner& planner, const Group& group) {
  const auto nodes = planner.graph().nodes();
  const auto is_computed_within = [&](ValueId v) {
    return std::any_of(group.nodes.begin(), group.nodes.end(), [&](int n) {
      const auto& outputs = nodes[n]->outputs;
      return std::find(outputs.begin(), outputs.end(), v) != outputs.end();
    });
  };
  std::vector<ValueId> operands;
  for (const int n : group.nodes)
    for (const ValueId v : nodes[n]->inputs)
      if (!is_computed_within(v)) operands.push_back(v);
  return operands;
}

// A value with channels and pixels.
bool is_image(const Planner& planner, ValueId v) {
  if (v == kNoValue || v >= planner.graph().value_count() || planner.is_constant(v)) return false;
  const Value& value = planner.graph().value(v);
  // Unknown sizes are reported when the value's own step is planned.
  return value.shape_known && value.type.type != DataType::kUndefined && value.type.shape.size() > 2;
}

double change_nanoseconds(const ValueInfo& v) {
  if (same_order(v.sizes, kPlain, kChannelsLast)) return 0;
  return kChange + kChangedByte * static_cast<double>(element_count(v.sizes)) * static_cast<double>(byte_size(v.type));
}

}  // namespace

std::vector<std::optional<Layout>> choose_layouts(const Planner& planner, const std::vector<Group>& groups) {
  const Graph& graph = planner.graph();
  std::vector<LayoutNeeds> needs;
  std::vector<ValueId> results;  // by group with a choice; otherwise kNoValue
  needs.reserve(groups.size()), results.reserve(groups.size());
  for (const Group& group : groups) {
    needs.push_back(layout_needs(planner, group));
    const bool may_choose = std::isfinite(needs.back().plain) && std::isfinite(needs.back().channels_last);
    results.push_back(may_choose ? group.result : kNoValue);
  }
  if (std::all_of(results.begin(), results.end(), [](ValueId v) { return v == kNoValue; })) return {};
  std::vector<std::optional<Layout>> layouts(graph.value_count());
  // If no step is faster with channels last, as in networks without convolutions and pools, all are row-major.
  if (std::none_of(needs.begin(), needs.end(), [](const LayoutNeeds& n) { return n.channels_last < n.plain; })) {
    for (const ValueId v : results)
      if (v != kNoValue) layouts[v] = kPlain;
    return layouts;
  }
  std::vector<LayoutStep> steps;
  steps.reserve(groups.size() + 1);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    LayoutStep step{needs[g].plain, needs[g].channels_last, {}, {}};
    for (const ValueId v : chooses_layout(group) ? needs[g].operands : plain_operands(planner, group))
      if (is_image(planner, v)) step.reads.push_back(static_cast<int>(v));
    const std::vector<ValueId>& last = graph.nodes()[group.nodes.back()]->outputs;
    for (const ValueId v : group.result == kNoValue ? std::span(last) : std::span(&group.result, 1))
      if (is_image(planner, v)) step.computes.push_back(static_cast<int>(v));
    steps.push_back(std::move(step));
  }
  LayoutStep outputs{0, kNoSuchKernel, {}, {}};
  for (const GraphOutput& o : graph.outputs())
    if (is_image(planner, o.value)) outputs.reads.push_back(static_cast<int>(o.value));
  steps.push_back(std::move(outputs));
  std::vector<double> changes(graph.value_count());
  for (const LayoutStep& step : steps)
    for (const int v : step.reads) changes[v] = change_nanoseconds(planner.info(static_cast<ValueId>(v)));
  const std::vector<bool> channels_last = assign_layouts(steps, changes);
  for (std::size_t s = 0; s < results.size(); ++s)
    if (results[s] != kNoValue) layouts[results[s]] = channels_last[s] ? kChannelsLast : kPlain;
  return layouts;
}

std::map<ValueId, PartOfChannels> find_parts(const Planner& planner, const std::vector<Group>& groups) {
  const Graph& graph = planner.graph();
  const auto gathers_channels = [](const Group& group) {
    return dynamic_cast<const GathersChannels*>(group.kernel.get()) != nullptr;
  };
  if (std::none_of(groups.begin(), groups.end(), gathers_channels)) return {};
  std::vector<int> readers(graph.value_count());
  for (const auto& node : graph.nodes())
    for (const ValueId i : node->inputs)
      if (i != kNoValue) ++readers[i];
  for (const GraphOutput& output : graph.outputs()) ++readers[output.value];
  std::map<ValueId, PartOfChannels> parts;
  for (const Group& group : groups) {
    const auto* const gathers = dynamic_cast<const GathersChannels*>(group.kernel.get());
    if (gathers == nullptr) continue;
    const std::optional<GatheredChannels> gathered = gathers->gathered(planner, group.result);
    if (!gathered) continue;
    std::int64_t first = 0;
    for (const ValueId part : gathered->parts) {
      if (readers[part] == 1) parts[part] = {group.result, first, gathered->low, gathered->high};
      first += planner.info(part).sizes[1];
    }
  }
  return parts;
}

}  // namespace rewright::cpu
