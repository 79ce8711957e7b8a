#include "runtime/cuda/plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/cuda/grouping.h"
#include "runtime/cuda/layout.h"
#include "runtime/cuda/schedule.h"
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
  Planner(const Graph& graph, const PlanOptions& options) : graph_(graph), facts_(graph), options_(options) {}

  Plan make() {
    bind_inputs();
    for (const Group& group : make_groups(facts_)) plan_group(group);
    for (const GraphOutput& output : graph_.outputs()) {
      plan_.outputs.push_back(buffer(output.value, kRows));
      const ValueInfo v = facts_.info(output.value);
      plan_.output_types.push_back({v.type, to_indices(v.sizes)});
    }
    schedule();
    return std::move(plan_);
  }

 private:
  enum Layout : bool { kRows, kChannelsLast };

  void bind_inputs() {
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId value = graph_.inputs()[i];
      const ValueInfo v = facts_.info(value);
      Buffer b;
      b.kind = Buffer::Kind::kInput;
      b.number = static_cast<int>(i);
      b.bytes = byte_count(v);
      plan_.input_types.push_back({v.type, to_indices(v.sizes)});
      places_[{value, kRows}] = add(std::move(b));
    }
  }

  int add(Buffer b) {
    plan_.buffers.push_back(std::move(b));
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  // Where a value lies in this layout. One that is computed in the other only is copied.
  int buffer(ValueId value, Layout layout) {
    if (value == kNoValue) return -1;
    if (const auto found = places_.find({value, layout}); found != places_.end()) return found->second;
    const Tensor& constant = facts_.constant(value);
    const Layout other = layout == kRows ? kChannelsLast : kRows;
    if (constant) {
      Buffer b;
      b.kind = Buffer::Kind::kConstant;
      b.constant = constant;
      b.channels_last = layout == kChannelsLast;
      b.bytes = b.constant.byte_count();
      return places_[{value, layout}] = add(std::move(b));
    }
    const auto found = places_.find({value, other});
    if (found == places_.end())
      throw Error(ErrorCode::kUnsupported, "a value is used before it is computed", graph_.value(value).name);
    const ValueInfo info = facts_.info(value);
    if (same_either_way(info.sizes)) return places_[{value, layout}] = found->second;
    const Operand operand(0, {info.type, to_indices(info.sizes)});
    Indices position;
    for (std::size_t a = 0; a < info.sizes.size(); ++a) position.push_back(Index::fresh("i"));
    Step step;
    step.node = graph_.value(value).name;
    step.operators = "(layout)";
    step.layout = true;
    step.work = KernelStep{add_kernel(kernel_for(operand(position), position, {value, layout}, {{value, other}}))};
    step.inputs = {found->second};
    step.outputs = {add_value(value, layout)};
    const int copy = step.outputs[0];
    add_step(std::move(step));
    return copy;
  }

  int add_value(ValueId value, Layout layout) {
    Buffer b;
    b.bytes = byte_count(facts_.info(value));
    return places_[{value, layout}] = add(std::move(b));
  }

  // How a value lies that was not made to lie otherwise.
  Layout layout_of(ValueId value) const {
    return value != kNoValue && !places_.contains({value, kRows}) && places_.contains({value, kChannelsLast}) ? kChannelsLast
                                                                                                              : kRows;
  }

  // An expression's result lies like the operands that it is as large as, at least in rank; those of the graph as it says.
  Layout layout_for(ValueId result, const std::vector<ValueId>& operands) const {
    for (const GraphOutput& output : graph_.outputs())
      if (output.value == result) return kRows;
    const std::size_t rank = facts_.info(result).sizes.size();
    const bool last = std::any_of(operands.begin(), operands.end(), [&](ValueId v) {
      return layout_of(v) == kChannelsLast && facts_.info(v).sizes.size() == rank;
    });
    return last ? kChannelsLast : kRows;
  }

  // With channels last, where the weights are known before: nothing has to move them.
  Layout layout_for(LibraryNode& node) const {
    auto* c = std::get_if<ConvolutionShape>(&node.shape);
    if (c == nullptr || !options_.channels_last || !facts_.constant(node.inputs[1])) return kRows;
    c->channels_last = true;
    return kChannelsLast;
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

  using Placed = std::pair<ValueId, Layout>;

  // Every value as it lies.
  std::vector<Placed> placed(const std::vector<ValueId>& values) const {
    std::vector<Placed> result;
    for (const ValueId v : values) result.emplace_back(v, layout_of(v));
    return result;
  }
  std::vector<int> buffers(const std::vector<Placed>& values) {
    std::vector<int> result;
    for (const auto& [value, layout] : values) result.push_back(buffer(value, layout));
    return result;
  }

  GeneratedKernel kernel_for(const Element& element, const Indices& position, Placed result,
                             const std::vector<Placed>& operands) const {
    const auto operand = [&](const Placed& v) {
      if (v.first == kNoValue) return KernelOperand{};
      const ValueInfo i = facts_.info(v.first);
      return KernelOperand{i.type, v.second == kRows ? i.sizes : channels_last(i.sizes)};
    };
    std::vector<KernelOperand> types;
    std::vector<bool> last;
    for (const Placed& v : operands) {
      types.push_back(operand(v));
      last.push_back(v.second == kChannelsLast);
    }
    return generate_kernel(over_channels_last(element, last), result.second == kRows ? position : channels_last(position),
                           operand(result), types);
  }

  void plan_group(const Group& group) {
    const auto& node = graph_.nodes()[group.nodes.back()];
    const std::string where = node->origin ? node->origin->name : std::string();
    if (node->op == nullptr)
      throw Error(ErrorCode::kUnsupported, node->opaque_reason.empty() ? "an operator is not known" : node->opaque_reason,
                  where.empty() ? where : "node \"" + where + "\"");
    if (group.view) {
      places_[{group.result, kRows}] = buffer(node->inputs[0], kRows);
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
      if (group.library) {
        plan_library(group, step);
      } else {
        const std::vector<Placed> operands = placed(group.operands);
        const Layout layout = layout_for(group.result, group.operands);
        step.work = KernelStep{add_kernel(kernel_for(group.element, group.position, {group.result, layout}, operands))};
        step.inputs = buffers(operands);
        step.outputs = {add_value(group.result, layout)};
      }
      add_step(std::move(step));
      return true;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
      return false;
    }
  }

  void plan_library(const Group& group, Step& step) {
    LibraryNode library = *group.library;
    const Layout layout = layout_for(library);
    const Placed result{group.result, layout};
    std::vector<Placed> inputs;
    for (const ValueId v : library.inputs)
      inputs.emplace_back(v, layout == kChannelsLast && has_channels(facts_.info(v).sizes) ? kChannelsLast : kRows);
    step.inputs = buffers(inputs);
    const std::vector<Placed> operands = placed(group.operands);
    const std::size_t kernel = add_kernel(kernel_for(group.element, group.position, result, operands));
    LibraryStep work{library.shape, kernel, buffers(operands), std::nullopt, library.starts};
    if (const Element e = library.epilogue(facts_, facts_.info(group.result), group.position)) {
      std::vector<Placed> behind{result};
      behind.insert(behind.end(), inputs.begin() + 2, inputs.end());
      work.epilogue = add_kernel(kernel_for(e, group.position, result, behind));
    }
    step.work = std::move(work);
    step.outputs = {add_value(group.result, layout)};
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
            kernels.push_back(kernel_for(output.element, output.position, {node->outputs[o], kRows}, placed(node->inputs)));
        }
        auto kernel = kernels.begin();
        for (const ValueId o : node->outputs) {
          if (o == kNoValue) continue;
          Step one = step;
          one.work = KernelStep{add_kernel(std::move(*kernel++))};
          one.inputs = buffers(placed(node->inputs));
          one.outputs = {add_value(o, kRows)};
          add_step(std::move(one));
        }
        return;
      }
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnsupported) throw;
    }
    HostStep work{node, {}};
    for (const ValueId v : node->inputs) {
      step.inputs.push_back(buffer(v, kRows));
      const ValueInfo i = v == kNoValue ? ValueInfo{} : facts_.info(v);
      work.types.push_back({i.type, to_indices(i.sizes)});
    }
    for (const ValueId v : node->outputs) step.outputs.push_back(v == kNoValue ? -1 : add_value(v, kRows));
    step.work = std::move(work);
    add_step(std::move(step));
  }

  // ---- Order and memory
  // The buffers that a step reads.
  static std::vector<int> reads(const Step& step) {
    std::vector<int> result = step.inputs;
    if (const auto* library = std::get_if<LibraryStep>(&step.work))
      result.insert(result.end(), library->kernel_inputs.begin(), library->kernel_inputs.end());
    std::erase(result, -1);
    return result;
  }

  // Steps that need nothing of each other run side by side, unless the host has a part in it.
  void schedule() {
    std::vector<int> writer(plan_.buffers.size(), -1);
    std::vector<std::vector<int>> needs(plan_.steps.size());
    int streams = options_.most_streams;
    for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
      const Step& step = plan_.steps[n];
      for (const int b : reads(step))
        if (const int w = writer[static_cast<std::size_t>(b)]; w >= 0) needs[n].push_back(w);
      for (const int b : step.outputs)
        if (b >= 0) writer[static_cast<std::size_t>(b)] = static_cast<int>(n);
      if (std::holds_alternative<HostStep>(step.work)) streams = 1;
    }
    const Schedule order(needs, streams);
    plan_.streams = order.streams();
    for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
      plan_.steps[n].stream = order.stream(static_cast<int>(n));
      plan_.steps[n].waits = order.waits(static_cast<int>(n));
    }
    place(order);
  }

  // Two buffers share memory if all steps that use one are done before the other is written, whatever runs side by side.
  void place(const Schedule& order) {
    struct Use {
      Buffer* buffer;
      std::vector<int> steps;  // the first one writes it
      bool to_the_end = false;
    };
    std::map<int, Use> uses;
    const auto use = [&](int b, std::size_t step) {
      if (b < 0 || plan_.buffers[static_cast<std::size_t>(b)].kind != Buffer::Kind::kArena) return;
      Use& u = uses[b];
      u.buffer = &plan_.buffers[static_cast<std::size_t>(b)];
      if (step == plan_.steps.size())
        u.to_the_end = true;
      else
        u.steps.push_back(static_cast<int>(step));
    };
    for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
      for (const int b : plan_.steps[n].outputs) use(b, n);
      for (const int b : reads(plan_.steps[n])) use(b, n);
    }
    for (const int b : plan_.outputs) use(b, plan_.steps.size());
    std::vector<Use> list;
    for (auto& [number, u] : uses) list.push_back(std::move(u));
    const auto over_before = [&](const Use& a, const Use& b) {
      return !a.to_the_end && !b.steps.empty() &&
             std::all_of(a.steps.begin(), a.steps.end(), [&](int s) { return order.before(s, b.steps.front()); });
    };
    std::vector<Extent> extents;
    for (const Use& u : list) extents.push_back({u.buffer->bytes, 0, 0, 0});
    plan_.arena_bytes = assign_offsets(extents, kAlignment, [&](std::size_t a, std::size_t b) {
      return !over_before(list[a], list[b]) && !over_before(list[b], list[a]);
    });
    for (std::size_t n = 0; n < list.size(); ++n) list[n].buffer->offset = extents[n].offset;
  }

  const Graph& graph_;
  GraphFacts facts_;
  const PlanOptions options_;
  Plan plan_;
  std::map<std::pair<ValueId, Layout>, int> places_;
};

}  // namespace

Plan make_plan(const Graph& graph, const PlanOptions& options) { return Planner(graph, options).make(); }

}  // namespace rewright::cuda
