#include "runtime/cpu/planning/layouts.h"

#include <algorithm>
#include <cmath>

#include "runtime/cpu/planning/layout_assignment.h"

namespace rewright::cpu {

namespace {

using planning::Group;

// The nanoseconds of a layout conversion: for each byte read and written, and for the step.
constexpr double kChangedByte = 0.25, kChange = 1000;

LayoutNeeds chain_needs(const Planner& planner, const Group& group) {
  const ValueInfo out = planner.info(group.result);
  LayoutNeeds needs;
  if (out.sizes.size() < 3) return {0, kNoSuchKernel};
  // Operands with the result's sizes, up to broadcast axes.
  for (const ValueId v : group.chain->operands()) {
    if (v == kNoValue || planner.is_constant(v)) continue;
    const Sizes sizes = planner.info(v).sizes;
    if (sizes.size() != out.sizes.size()) continue;
    if (sizes[1] == out.sizes[1] || std::equal(sizes.begin() + 2, sizes.end(), out.sizes.begin() + 2))
      needs.operands.push_back(v);
  }
  if (needs.operands.empty()) needs.channels_last = kNoSuchKernel;
  return needs;
}

LayoutNeeds layout_needs(const Planner& planner, const Group& group) {
  if (group.kernel) {
    if (const auto* const chooses = dynamic_cast<const ChoosesLayout*>(group.kernel.get()))
      return chooses->layout_needs(planner);
  } else if (group.chain && group.result != kNoValue) {
    return chain_needs(planner, group);
  }
  const auto nodes = planner.graph().nodes();
  const auto is_computed_within = [&](ValueId v) {
    return std::any_of(group.nodes.begin(), group.nodes.end(), [&](int n) {
      const auto& outputs = nodes[n]->outputs;
      return std::find(outputs.begin(), outputs.end(), v) != outputs.end();
    });
  };
  LayoutNeeds plain{0, kNoSuchKernel};
  for (const int n : group.nodes)
    for (const ValueId v : nodes[n]->inputs)
      if (!is_computed_within(v)) plain.operands.push_back(v);
  return plain;
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

std::map<ValueId, Layout> choose_layouts(const Planner& planner, const std::vector<Group>& groups) {
  const Graph& graph = planner.graph();
  std::vector<LayoutStep> steps;
  std::vector<ValueId> results;  // by step with a choice; otherwise kNoValue
  steps.reserve(groups.size() + 1), results.reserve(groups.size());
  for (const Group& group : groups) {
    const LayoutNeeds needs = layout_needs(planner, group);
    LayoutStep step{needs.plain, needs.channels_last, {}, {}};
    for (const ValueId v : needs.operands)
      if (is_image(planner, v)) step.reads.push_back(static_cast<int>(v));
    std::vector<ValueId> computed{group.result};
    if (group.result == kNoValue) computed = graph.nodes()[group.nodes.back()]->outputs;
    for (const ValueId v : computed)
      if (is_image(planner, v)) step.computes.push_back(static_cast<int>(v));
    steps.push_back(std::move(step));
    results.push_back(std::isfinite(needs.plain) && std::isfinite(needs.channels_last) ? group.result : kNoValue);
  }
  LayoutStep outputs{0, kNoSuchKernel, {}, {}};
  for (const GraphOutput& o : graph.outputs())
    if (is_image(planner, o.value)) outputs.reads.push_back(static_cast<int>(o.value));
  steps.push_back(std::move(outputs));
  if (std::all_of(results.begin(), results.end(), [](ValueId v) { return v == kNoValue; })) return {};
  std::map<ValueId, Layout> layouts;
  // If no step is faster with channels last, as in networks without convolutions and pools, all are row-major.
  if (std::none_of(steps.begin(), steps.end(), [](const LayoutStep& s) { return s.channels_last < s.plain; })) {
    for (const ValueId v : results)
      if (v != kNoValue) layouts[v] = kPlain;
    return layouts;
  }
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
