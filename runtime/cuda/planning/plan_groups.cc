// Groups of nodes as steps of a plan.
#include <algorithm>

#include "runtime/cuda/planning/planner.h"
#include "runtime/planning/in_place.h"

namespace rewright::cuda {

namespace {

// Above this number of operations, a generated kernel for a library node is only tried if no library works.
constexpr double kWorthTrying = 1e8;

}  // namespace

void Planner::plan_group(const Group& group) {
  planning::require_operator(node(group.nodes.back()));
  if (const auto instead = instead_of(group)) return plan_instead(group, *instead);
  if (plan_as_one(main_, group)) return;
  // The parts may still be possible one by one.
  if (!group.element && !group.alternatives.empty())
    for (const Group& part : group.alternatives.back()) plan_group(part);
  else
    for (const int n : group.nodes) plan_node(n);
}

// The replacement for the group's kernel. If any node needs the interpreter, the whole group does.
std::optional<Instead> Planner::instead_of(const Group& group) const {
  std::optional<Instead> result;
  for (const int n : group.nodes)
    if (const auto found = options_.instead.find(n); found != options_.instead.end())
      result = std::max(result.value_or(found->second), found->second);
  return result;
}

void Planner::plan_instead(const Group& group, Instead instead) {
  if (instead == Instead::kReference && !group.view) {
    for (const int n : group.nodes) plan_on_host(n, described({n}, kNoValue));
    return;
  }
  Group without_libraries = group;
  without_libraries.alternatives.clear();
  without_libraries.library.reset();
  if (plan_as_one(main_, without_libraries)) return;
  for (const int n : group.nodes) plan_node(n);
}

bool Planner::plan_as_one(StepList& steps, const Group& group) {
  if (group.view) return plan_view(steps, group);
  if (!group.alternatives.empty()) return plan_alternatives(steps, group);
  if (group.kernel) return plan_kernel(steps, group);
  if (group.library) return plan_library(steps, group);
  if (!group.element) return false;
  const Placed result{group.result, layout_for(steps, group.result, group.operands)};
  return add_kernel_step(steps, described(group.nodes, group.result), group.element, group.position, result,
                         steps.as_placed(group.operands));
}

bool Planner::plan_view(StepList& steps, const Group& group) {
  const auto source = steps.buffer(node(group.nodes.back()).inputs[0], kRows);
  if (source) steps.place({group.result, kRows}, *source);
  return source.has_value();
}

bool Planner::plan_alternatives(StepList& steps, const Group& group) {
  Alternatives alternatives(steps, group.result);
  for (const std::vector<Group>& parts : group.alternatives)
    alternatives.add([&](StepList& own) {
      return std::all_of(parts.begin(), parts.end(), [&](const Group& part) { return plan_as_one(own, part); });
    });
  return alternatives.finish(described(group.nodes, group.result));
}

// Alternatives: the library with its epilogue; the library without it, followed by a kernel; one kernel for the whole group,
// from packed weights or from what the library multiplies.
bool Planner::plan_library(StepList& steps, const Group& group) {
  LibraryNode library = *group.library;
  const auto layout = choose_layout(steps, library);
  if (!layout) return false;
  const Placed result{group.result, *layout};
  std::vector<Placed> inputs;
  for (const ValueId v : library.inputs)
    inputs.push_back({v, *layout == kChannelsLast && has_channels(facts_.info(v).sizes) ? kChannelsLast : kRows});
  const Step step = described(group.nodes, group.result);

  Alternatives alternatives(steps, group.result);
  alternatives.add([&](StepList& own) { return add_library_step(own, step, library.shape, library.starts, result, inputs); });
  if (const Element epilogue = library.epilogue(facts_, facts_.info(group.result), group.position)) {
    std::vector<Placed> behind{result};
    behind.insert(behind.end(), inputs.begin() + 2, inputs.end());
    alternatives.add([&](StepList& own) {
      return add_library_step(own, step, library.without_epilogue(), library.starts, result, {inputs[0], inputs[1]}) &&
             add_kernel_step(own, step, epilogue, group.position, result, behind);
    });
  }
  if (group.packed)
    alternatives.add([&](StepList& own) {
      return add_kernel_step(own, step, group.packed->element, group.packed->position, result,
                             own.as_placed(group.packed->operands));
    });
  if (group.element)
    alternatives.add(
        [&](StepList& own) {
          return add_kernel_step(own, step, group.element, group.position, result, own.as_placed(group.operands));
        },
        step.flops > kWorthTrying);
  return alternatives.finish(step);
}

bool Planner::plan_kernel(StepList& steps, const Group& group) {
  std::vector<Placed> operands;
  for (const ValueId v : group.operands) operands.push_back({v, kRows});
  auto inputs = steps.buffers(operands);
  if (!inputs) return false;
  const auto output = steps.add_value(group.result, kRows);
  if (!output) return false;
  Step step = described(group.nodes, group.result);
  step.work = KernelStep{builder_.add_kernel(*group.kernel)};
  step.inputs = std::move(*inputs);
  step.outputs = {*output};
  steps.add(std::move(step));
  return true;
}

bool Planner::add_library_step(StepList& steps, Step step, const LibraryShape& shape,
                               const std::vector<LibraryStep::Start>& starts, Placed result,
                               const std::vector<Placed>& operands) {
  auto inputs = steps.buffers(operands);
  if (!inputs) return false;
  const auto output = steps.add_value(result.value, result.layout);
  if (!output) return false;
  step.inputs = std::move(*inputs);
  step.outputs = {*output};
  step.work = LibraryStep{shape, starts, builder_.workspace};
  steps.add(std::move(step));
  return true;
}

bool Planner::add_kernel_step(StepList& steps, Step step, const Element& element, const Indices& position, Placed result,
                              const std::vector<Placed>& operands) {
  auto kernel = builder_.generate(element, position, result, operands);
  if (!kernel) return false;
  KernelStep work{builder_.add_kernel(std::move(*kernel))};
  if (!options_.places.outputs.empty()) work.in_place = operands_in_place(element, position, result, operands);
  auto inputs = steps.buffers(operands);
  if (!inputs) return false;
  const auto output = steps.add_value(result.value, result.layout);
  if (!output) return false;
  step.work = std::move(work);
  step.inputs = std::move(*inputs);
  step.outputs = {*output};
  steps.add(std::move(step));
  return true;
}

std::vector<int> Planner::operands_in_place(const Element& element, const Indices& position, Placed result,
                                            const std::vector<Placed>& operands) const {
  std::vector<int> found;
  if (result.layout != kRows) return found;
  const ValueInfo& of_result = facts_.info(result.value);
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].value == kNoValue || operands[k].layout != kRows) continue;
    const ValueInfo& v = facts_.info(operands[k].value);
    const int number = static_cast<int>(k);
    if (v.type == of_result.type && v.sizes == of_result.sizes && planning::is_read_in_place(element, position, number))
      found.push_back(number);
  }
  return found;
}

// The layout of an expression's result: channels-last if an operand of the same rank exists only so; row-major for outputs of
// the graph.
Layout Planner::layout_for(const StepList& steps, ValueId result, const std::vector<ValueId>& operands) const {
  for (const GraphOutput& output : graph_.outputs())
    if (output.value == result) return kRows;
  const std::size_t rank = facts_.info(result).sizes.size();
  const bool last = std::any_of(operands.begin(), operands.end(), [&](ValueId v) {
    return steps.layout_of(v) == kChannelsLast && facts_.info(v).sizes.size() == rank;
  });
  return last ? kChannelsLast : kRows;
}

// The layout for a library operation. Convolutions are channels-last if the options request it and the weights are constant, so
// that no step has to convert them. Pools keep their operand's layout. nullopt for a normalization whose rows are not
// contiguous.
std::optional<Layout> Planner::choose_layout(const StepList& steps, LibraryNode& node) const {
  const Layout existing = steps.layout_of(node.inputs[0]);
  if (auto* p = std::get_if<PoolingShape>(&node.shape)) {
    p->channels_last = existing == kChannelsLast;
    return existing;
  }
  if (std::holds_alternative<NormalizationShape>(node.shape) && existing == kChannelsLast) return std::nullopt;
  auto* c = std::get_if<ConvolutionShape>(&node.shape);
  if (c == nullptr || !options_.channels_last || !facts_.constant(node.inputs[1])) return kRows;
  c->channels_last = true;
  return kChannelsLast;
}

}  // namespace rewright::cuda
