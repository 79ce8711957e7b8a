// Single nodes as steps of a plan.
#include <string>
#include <utility>

#include "runtime/cuda/planning/planner.h"
#include "runtime/cuda/planning/scatter.h"

namespace rewright::cuda {

void Planner::plan_node(int n) {
  const Step step = described({n}, kNoValue);
  if (!plan_outputs(n, step) && !plan_scatter(node(n), step)) plan_on_host(n, step);
}

bool Planner::plan_outputs(int n, const Step& step) {
  const Node& node = this->node(n);
  const Definition definition = facts_.define(node);
  if (!definition.has_denotation() || node.op->execute()) return false;
  const std::vector<Placed> operands = main_.as_placed(node.inputs);
  std::vector<GeneratedKernel> kernels;
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    if (node.outputs[o] == kNoValue) continue;
    const Output& output = definition.outputs()[o];
    auto kernel = builder_.generate(output.element, output.position, {node.outputs[o], kRows}, operands);
    if (!kernel) return false;
    kernels.push_back(std::move(*kernel));
  }
  auto kernel = kernels.begin();
  for (const ValueId o : node.outputs) {
    if (o == kNoValue) continue;
    Step one = step;
    one.work = KernelStep{builder_.add_kernel(std::move(*kernel++))};
    for (const auto& [value, layout] : operands) one.inputs.push_back(main_.required_buffer(value, layout));
    one.outputs = {main_.add_value(o, kRows).value()};
    main_.add(std::move(one));
  }
  return true;
}

void Planner::plan_on_host(int n, Step step) {
  const auto& node = graph_.nodes()[static_cast<std::size_t>(n)];
  HostStep work{node, {}};
  for (const ValueId v : node->inputs) {
    step.inputs.push_back(main_.required_buffer(v, kRows));
    const ValueInfo info = v == kNoValue ? ValueInfo{} : facts_.info(v);
    work.types.push_back({info.type, to_indices(info.sizes)});
  }
  for (const ValueId v : node->outputs) step.outputs.push_back(v == kNoValue ? -1 : main_.add_value(v, kRows).value());
  step.work = std::move(work);
  main_.add(std::move(step));
}

bool Planner::plan_scatter(const Node& node, const Step& step) {
  std::vector<KernelOperand> operands;
  for (const ValueId v : node.inputs) operands.push_back({facts_.info(v).type, facts_.info(v).sizes});
  auto kernels = scatter_kernels(node, operands);
  if (!kernels) return false;
  const int x = main_.required_buffer(node.inputs[0], kRows), indices = main_.required_buffer(node.inputs[1], kRows),
            updates = main_.required_buffer(node.inputs[2], kRows);
  // One step, so that profiling repeats all kernels together: linking the lists twice would create a cycle.
  Alternatives only(main_, node.outputs[0]);
  only.add([&](StepList& steps) {
    const int lists = builder_.add_workspace(static_cast<std::size_t>(kernels->lists) * sizeof(std::int32_t));
    const auto add = [&](GeneratedKernel& kernel, std::vector<int> inputs, int output) {
      Step one = step;
      one.work = KernelStep{builder_.add_kernel(std::move(kernel))};
      one.inputs = std::move(inputs);
      one.outputs = {output};
      steps.add(std::move(one));
    };
    add(kernels->clear, {}, lists);
    add(kernels->link, {indices, lists}, lists);
    add(kernels->sort, {lists}, lists);
    add(kernels->combine, {x, lists, updates}, steps.add_value(node.outputs[0], kRows).value());
    return true;
  });
  return only.finish(step);
}

}  // namespace rewright::cuda
