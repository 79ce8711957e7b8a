#include "runtime/cuda/plan.h"

#include <algorithm>
#include <map>

#include "runtime/cuda/grouping.h"
#include "runtime/memory.h"

namespace rewright::cuda {

namespace {

constexpr std::size_t kAlignment = 256;

std::size_t byte_count(const ValueInfo& v) {
  const std::size_t size = byte_size(v.type);
  if (size == 0) throw Error(ErrorCode::kUnsupported, "a GPU has no tensors of type " + std::string(name(v.type)));
  return static_cast<std::size_t>(element_count(v.sizes)) * size;
}

class Planner {
 public:
  explicit Planner(const Graph& graph) : graph_(graph), facts_(graph) {}

  Plan make() {
    bind_inputs();
    for (const Group& group : make_groups(facts_)) plan_group(group);
    for (const GraphOutput& output : graph_.outputs()) {
      plan_.outputs.push_back(buffer(output.value));
      const ValueInfo v = facts_.info(output.value);
      plan_.output_types.push_back({v.type, to_indices(v.sizes)});
    }
    place();
    return std::move(plan_);
  }

 private:
  void bind_inputs() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId value = graph_.inputs()[i];
      const ValueInfo v = facts_.info(value);
      Buffer b;
      b.kind = Buffer::Kind::kInput;
      b.number = static_cast<int>(i);
      b.bytes = byte_count(v);
      plan_.input_types.push_back({v.type, to_indices(v.sizes)});
      places_[value] = add(std::move(b));
    }
  }

  int add(Buffer b) {
    plan_.buffers.push_back(std::move(b));
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  int buffer(ValueId value) {
    if (value == kNoValue) return -1;
    if (const auto found = places_.find(value); found != places_.end()) return found->second;
    if (!facts_.constant(value))
      throw Error(ErrorCode::kUnsupported, "a value is used before it is computed", graph_.value(value).name);
    Buffer b;
    b.kind = Buffer::Kind::kConstant;
    b.constant = facts_.constant(value);
    b.bytes = b.constant.byte_count();
    return places_[value] = add(std::move(b));
  }

  int add_value(ValueId value) {
    Buffer b;
    b.bytes = byte_count(facts_.info(value));
    return places_[value] = add(std::move(b));
  }

  // ---- Steps
  Step described(int node) const {
    Group alone;
    alone.nodes = {node};
    return described(alone);
  }

  Step described(const Group& group) const {
    Step step;
    const auto nodes = graph_.nodes();
    for (const int n : group.nodes) {
      const Node& node = *nodes[n];
      if (node.origin && !node.origin->name.empty()) step.node = node.origin->name;
      step.operators += (step.operators.empty() ? "" : "+") + (node.op == nullptr ? "?" : node.op->name());
      if (node.op == nullptr) continue;
      const Definition definition = facts_.define(node);
      if (definition.outputs().empty() || !definition.outputs()[0].element) continue;
      const Output& output = definition.outputs()[0];
      const auto each = operation_count(output.element).constant();
      if (each && all_constant(output.type.shape))
        step.flops += static_cast<double>(*each) * static_cast<double>(element_count(values(output.type.shape)));
    }
    if (step.node.empty() && group.result != kNoValue) step.node = graph_.value(group.result).name;
    return step;
  }

  void add_step(Step step) {
    for (const std::vector<int>* list : {&step.inputs, &step.outputs})
      for (const int b : *list)
        if (b >= 0) step.bytes += static_cast<double>(plan_.buffers[static_cast<std::size_t>(b)].bytes);
    plan_.steps.push_back(std::move(step));
  }

  std::size_t add_kernel(GeneratedKernel kernel) {
    plan_.checks_positions = plan_.checks_positions || kernel.checks_positions;
    const auto same = std::find_if(plan_.kernels.begin(), plan_.kernels.end(),
                                   [&](const GeneratedKernel& k) { return k.name == kernel.name; });
    if (same != plan_.kernels.end()) return static_cast<std::size_t>(same - plan_.kernels.begin());
    plan_.kernels.push_back(std::move(kernel));
    return plan_.kernels.size() - 1;
  }

  GeneratedKernel kernel_for(const Element& element, const Indices& position, ValueId result,
                             const std::vector<ValueId>& operands) const {
    const auto operand = [&](ValueId v) {
      if (v == kNoValue) return KernelOperand{};
      const ValueInfo i = facts_.info(v);
      return KernelOperand{i.type, i.sizes};
    };
    std::vector<KernelOperand> types;
    for (const ValueId v : operands) types.push_back(operand(v));
    return generate_kernel(element, position, operand(result), types);
  }

  void plan_group(const Group& group) {
    const auto& node = graph_.nodes()[group.nodes.back()];
    const std::string where = node->origin ? node->origin->name : std::string();
    if (node->op == nullptr)
      throw Error(ErrorCode::kUnsupported, node->opaque_reason.empty() ? "an operator is not known" : node->opaque_reason,
                  where.empty() ? where : "node \"" + where + "\"");
    if (group.view) {
      places_[group.result] = buffer(node->inputs[0]);
      return;
    }
    if (group.element && plan_expression(group)) return;
    // The parts may still be possible one by one.
    for (const int n : group.nodes) plan_outputs_one_by_one(n);
  }

  // False if kernels cannot be generated for it.
  bool plan_expression(const Group& group) {
    try {
      Step step = described(group);
      const std::size_t kernel = add_kernel(kernel_for(group.element, group.position, group.result, group.operands));
      if (group.library) {
        for (const ValueId v : group.library->inputs) step.inputs.push_back(buffer(v));
        LibraryStep work{group.library->shape, kernel, {}, std::nullopt, group.library->starts};
        if (const Element e = group.library->epilogue(facts_, facts_.info(group.result), group.position)) {
          std::vector<ValueId> operands{group.result};
          operands.insert(operands.end(), group.library->inputs.begin() + 2, group.library->inputs.end());
          work.epilogue = add_kernel(kernel_for(e, group.position, group.result, operands));
        }
        for (const ValueId v : group.operands) work.kernel_inputs.push_back(buffer(v));
        step.work = std::move(work);
      } else {
        for (const ValueId v : group.operands) step.inputs.push_back(buffer(v));
        step.work = KernelStep{kernel};
      }
      step.outputs = {add_value(group.result)};
      add_step(std::move(step));
      return true;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
      return false;
    }
  }

  // Each output by its own denotation, or the whole node by the interpreter.
  void plan_outputs_one_by_one(int n) {
    const auto& node = graph_.nodes()[static_cast<std::size_t>(n)];
    Step step = described(n);
    try {
      const Definition definition = facts_.define(*node);
      if (definition.has_denotation() && !node->op->execute()) {
        std::vector<GeneratedKernel> kernels;
        for (std::size_t o = 0; o < node->outputs.size(); ++o) {
          const Output& output = definition.outputs()[o];
          if (node->outputs[o] != kNoValue)
            kernels.push_back(kernel_for(output.element, output.position, node->outputs[o], node->inputs));
        }
        auto kernel = kernels.begin();
        for (const ValueId o : node->outputs) {
          if (o == kNoValue) continue;
          Step one = step;
          one.work = KernelStep{add_kernel(std::move(*kernel++))};
          for (const ValueId v : node->inputs) one.inputs.push_back(buffer(v));
          one.outputs = {add_value(o)};
          add_step(std::move(one));
        }
        return;
      }
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
    }
    HostStep work{node, {}};
    for (const ValueId v : node->inputs) {
      step.inputs.push_back(buffer(v));
      const ValueInfo i = v == kNoValue ? ValueInfo{} : facts_.info(v);
      work.types.push_back({i.type, to_indices(i.sizes)});
    }
    for (const ValueId v : node->outputs) step.outputs.push_back(v == kNoValue ? -1 : add_value(v));
    step.work = std::move(work);
    add_step(std::move(step));
  }

  // ---- Memory
  void place() {
    const auto use = [&](int b, int step) {
      if (b < 0) return;
      Buffer& buffer = plan_.buffers[static_cast<std::size_t>(b)];
      if (buffer.first < 0) buffer.first = step;
      buffer.last = std::max(buffer.last, step);
    };
    for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
      const Step& step = plan_.steps[n];
      for (const int b : step.inputs) use(b, static_cast<int>(n));
      for (const int b : step.outputs) use(b, static_cast<int>(n));
      if (const auto* library = std::get_if<LibraryStep>(&step.work))
        for (const int b : library->kernel_inputs) use(b, static_cast<int>(n));
    }
    for (const int b : plan_.outputs) use(b, static_cast<int>(plan_.steps.size()));
    std::vector<Extent> extents;
    std::vector<Buffer*> buffers;
    for (Buffer& b : plan_.buffers) {
      if (b.kind != Buffer::Kind::kArena || b.first < 0) continue;
      extents.push_back({b.bytes, b.first, b.last, 0});
      buffers.push_back(&b);
    }
    plan_.arena_bytes = assign_offsets(extents, kAlignment);
    for (std::size_t n = 0; n < buffers.size(); ++n) buffers[n]->offset = extents[n].offset;
  }

  const Graph& graph_;
  GraphFacts facts_;
  Plan plan_;
  std::map<ValueId, int> places_;
};

}  // namespace

Plan make_plan(const Graph& graph) { return Planner(graph).make(); }

}  // namespace rewright::cuda
