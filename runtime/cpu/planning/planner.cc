#include "runtime/cpu/planning/planner.h"

#include <algorithm>
#include <utility>

namespace rewright::cpu {

Planner::Planner(Graph graph, const PlanOptions& options)
    : KnownValues(std::move(graph), options),
      values_(*this, plan_),
      prepared_(options.constants ? options.constants : std::make_shared<PreparedConstants>()),
      stored_(this->graph().value_count()) {
  plan_.options = options;
}

std::vector<Layout> Planner::layouts(ValueId value) const {
  std::vector<Layout> result;
  for (const auto& [layout, storage] : values_.copies(value)) result.push_back(layout);
  if (result.empty() && is_constant(value)) result.push_back(kPlain);
  return result;
}

std::optional<Layout> Planner::assigned_layout(ValueId result) const {
  return result < assigned_.size() ? assigned_[result] : std::nullopt;
}

namespace {

// Does a folded constant lie in the memory of a constant of the model that it was computed from?
bool is_part_of_operand(const KnownValues& known, ValueId value) {
  const Node* const node = known.producer(value);
  if (node == nullptr || node->inputs.empty() || !known.is_of_model(node->inputs[0])) return false;
  const std::span<const std::byte> whole = known.constant(node->inputs[0]).bytes(), part = known.constant(value).bytes();
  return !whole.empty() && part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

}  // namespace

std::vector<int> Planner::plain_inputs(const Node& node) {
  std::vector<int> inputs;
  for (const ValueId v : node.inputs)
    if (v != kNoValue) inputs.push_back(storage(v, kPlain));
  return inputs;
}

int Planner::storage(ValueId value, Layout layout) {
  plan_copy(value);
  if (const int known = values_.find(value, layout); known >= 0) return known;
  if (values_.copies(value).empty()) {
    if (!is_constant(value))
      throw Error(ErrorCode::kUnsupported, "a value is used before it is computed", graph().value(value).name);
    if (!is_of_model(value) && !is_part_of_operand(*this, value)) plan_.folded_bytes += constant(value).byte_count();
    const int added = values_.add_constant(constant(value));
    values_.alias(value, added, kPlain);
    if (layout.plain()) return added;
  }
  const ValueInfo v = info(value);
  const auto [from, source] = values_.copies(value)[0];
  if (same_order(v.sizes, from, layout)) {
    values_.alias(value, source, layout);
    return source;
  }
  StepDescription outer =
      std::exchange(description_, StepDescription{graph().value(value).name, "(layout)", 0, 0, description_.nodes});
  const int target = add_value(value, layout);
  add_step(make_layout_change(v.type, v.sizes, from, layout, plan_.options.isa), {source}, {target}).changes_layout = true;
  description_ = std::move(outer);
  return target;
}

Tensor Planner::prepared(const ConstantOrigin& origin, std::string_view how, std::size_t bytes,
                         const std::function<void(std::byte*)>& make) {
  description_.constant_bytes += bytes;
  bool is_new = false;
  Tensor made = prepared_->get(origin, how, bytes, options().cache, make, &is_new);
  if (is_new) plan_.folded_bytes += bytes;
  return made;
}

Step& Planner::add_step(std::unique_ptr<Kernel> kernel, std::vector<int> inputs, std::vector<int> outputs) {
  Step step;
  if (plan_.options.checked) step.nodes = description_.nodes;
  step.node = description_.node;
  step.operators = description_.operators;
  step.flops = std::exchange(description_.flops, 0);  // counted with the first step of a group
  step.bytes = static_cast<double>(std::exchange(description_.constant_bytes, 0));
  for (const std::vector<int>* list : {&inputs, &outputs})
    for (auto s = list->begin(); s != list->end(); ++s)
      if (std::find(list->begin(), s, *s) == s) step.bytes += static_cast<double>(plan_.storages[*s].bytes);
  if (const std::size_t scratch = kernel->scratch_bytes()) step.scratch = add_scratch(scratch);
  step.kernel = std::move(kernel);
  step.inputs = std::move(inputs);
  step.outputs = std::move(outputs);
  plan_.steps.push_back(std::move(step));
  return plan_.steps.back();
}

}  // namespace rewright::cpu
