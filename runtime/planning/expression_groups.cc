// Groups nodes without kernels into expressions.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "operators/readings/operation_count.h"
#include "runtime/planning/composer.h"
#include "runtime/planning/partition.h"

namespace rewright::planning {

namespace {

using Kind = ElementNode::Kind;

constexpr std::size_t kMaxGroup = 24;     // nodes
constexpr std::size_t kMaxOperands = 16;  // read by a group
constexpr double kCheap = 4;              // operations per element that may be repeated

// Is the element clamped to its type's range before it becomes an integer, as in quantization?
bool is_limited(const Element& e) {
  if (e->kind != Kind::kConvert || e->scalar != Scalar::kInteger) return false;
  const auto limits = [](const Element& x, Kind kind) { return x->kind == kind && x->arguments[1]->kind == Kind::kConstant; };
  const Element& high = e->arguments[0];
  return limits(high, Kind::kMinimum) && limits(high->arguments[0], Kind::kMaximum);
}

// Is part of the element only used under a condition?
bool has_guard(const Element& e) {
  const bool here = e->kind == Kind::kRead ? e->zero_outside : !e->conditions.empty();
  return here || std::any_of(e->arguments.begin(), e->arguments.end(), has_guard);
}

// Properties of a node's denotation that decide what it may be grouped with.
struct Traits {
  bool reduces = false, has_position = false, has_guard = false;
  double operations = 0;  // per element
  std::int64_t elements = 0;
};

// A group that grows from its root (the node of its result) towards producers of its operands.
struct Growing {
  int root;
  std::set<int> members;
  std::set<ValueId> operands;
};

class ExpressionGroups {
 public:
  explicit ExpressionGroups(Partition& partition) : p_(partition), kernels_(partition.kernels) {}

  void make() {
    for (int root = static_cast<int>(p_.graph.nodes().size()); root-- > 0;) {
      const auto number = static_cast<std::size_t>(root);
      if (kernels_.needed(number) && p_.group_of[number] < 0 && is_used(root)) group(root);
    }
  }

 private:
  // A node is unused if all its users recompute its results.
  bool is_used(int n) const {
    const std::vector<ValueId>& outputs = p_.node(n).outputs;
    return std::any_of(outputs.begin(), outputs.end(), [&](ValueId o) { return o != kNoValue && p_.uses.is_used(o); });
  }

  void group(int root) {
    const bool is_expression = p_.is_free(root) && p_.has_denotation(root);
    Group& group = p_.add_group(root);
    if (!is_expression) return;
    Growing growing{root, {root}, {p_.node(root).inputs.begin(), p_.node(root).inputs.end()}};
    while (growing.members.size() < kMaxGroup) {
      const ValueId next = next_operand(growing);
      if (next == kNoValue) break;
      add_producer(growing, next);
    }
    group.nodes.assign(growing.members.begin(), growing.members.end());
    Chain chain = compose(kernels_, p_.producers, group.nodes, kNoValue, true);
    group.copy = chain.element->kind == Kind::kRead && !p_.uses.is_output(group.result) &&
                 kernels_.info(chain.operands[0]).type == kernels_.info(group.result).type;
    group.chain = std::move(chain);
  }

  // The next operand whose producer should be added; kNoValue: none.
  ValueId next_operand(const Growing& group) {
    for (const ValueId v : group.operands)
      if (v != kNoValue && p_.producers[v] >= 0 && !kernels_.constant(v) && may_add(group, v) && is_worth_adding(group, v))
        return v;
    return kNoValue;
  }

  void add_producer(Growing& group, ValueId operand) {
    const int producer = p_.producers[operand];
    group.members.insert(producer);
    p_.group_of[static_cast<std::size_t>(producer)] = p_.group_of[static_cast<std::size_t>(group.root)];
    group.operands.erase(operand);
    for (const ValueId i : p_.node(producer).inputs)
      if (i != kNoValue) group.operands.insert(i);
  }

  // Is the producer of the operand ungrouped, and used by this group alone?
  bool may_add(const Growing& group, ValueId operand) const {
    const int producer = p_.producers[operand];
    if (group.members.contains(producer) || !p_.is_free(producer) || p_.uses.is_output(operand)) return false;
    const auto& users = p_.uses.nodes(operand);
    return std::all_of(users.begin(), users.end(), [&](std::int32_t u) { return group.members.contains(u); }) &&
           p_.has_denotation(producer);
  }

  bool is_worth_adding(const Growing& group, ValueId operand) {
    const int producer = p_.producers[operand];
    if (!keeps_values(producer, group.root) || reads_more_than_allowed(group, producer)) return false;
    // A guarded element is also computed at unused positions, where an index may be outside without being an error.
    if (traits(producer).has_position &&
        std::any_of(group.members.begin(), group.members.end(), [&](int m) { return traits(m).has_guard; }))
      return false;
    if (is_computed_again_dearly(producer, operand)) return false;
    // If the group's result is requantized, the quantization of stored reals stays separate: requantizations are then functions
    // of one byte.
    return !(quantizes_reals(producer) && !is_free_value(p_.node(producer).inputs[0]) && requantizes(group, operand));
  }

  bool reads_more_than_allowed(const Growing& group, int producer) const {
    // Known numbers become part of the expression.
    const auto count = [&](const auto& values) {
      return std::count_if(values.begin(), values.end(), [&](ValueId v) { return v != kNoValue && !kernels_.known_number(v); });
    };
    return static_cast<std::size_t>(count(group.operands) + count(p_.node(producer).inputs)) > kMaxOperands;
  }

  // Would adding the producer repeat a reduction, or more than a few operations, for any of its elements?
  bool is_computed_again_dearly(int producer, ValueId operand) {
    const Traits& produced = traits(producer);
    if (produced.reduces && !p_.uses.nodes(operand).empty()) return true;
    const auto& users = p_.uses.nodes(operand);
    return produced.operations > kCheap && std::any_of(users.begin(), users.end(), [&](std::int32_t u) {
             const Traits& consumer = traits(u);
             return consumer.reduces || consumer.elements > produced.elements;
           });
  }

  const Traits& traits(int n) {
    if (const auto found = traits_.find(n); found != traits_.end()) return found->second;
    const Definition definition = kernels_.define(p_.node(n));
    const Output& output = definition.outputs()[0];
    Traits t;
    t.reduces = has_reduction(output.element);
    t.has_position = has_position(*output.element);
    t.has_guard = has_guard(output.element);
    t.operations = static_cast<double>(operation_count(output.element).constant().value_or(1000));
    t.elements = element_count(values(output.type.shape));
    return traits_.emplace(n, t).first->second;
  }

  bool is_free_value(ValueId value) const { return p_.producers[value] >= 0 && p_.is_free(p_.producers[value]); }

  // Is the group's result unchanged if this node's result is not rounded to its type before it is used?
  bool keeps_values(int n, int root) const {
    const Node& node = p_.node(n);
    const DataType type = kernels_.info(node.outputs[0]).type, result = kernels_.info(p_.node(root).outputs[0]).type;
    if (type == DataType::kInt64 || type == DataType::kBool) return true;
    const Element element = kernels_.define(node).outputs()[0].element;
    if (kernels_.fuses_quantization()) {
      if (is_8_bits(type) && is_limited(element)) return true;
      if (type == DataType::kFloat && is_8_bits(result)) return true;
    }
    if (element->kind == Kind::kRead && kernels_.info(node.inputs[0]).type == type) return true;
    return kernels_.may_stay_unrounded(type) && type == result;
  }

  bool quantizes_reals(int n) const {
    const Node& node = p_.node(n);
    return kernels_.fuses_quantization() && is_8_bits(kernels_.info(node.outputs[0]).type) && !node.inputs.empty() &&
           node.inputs[0] != kNoValue && is_real(kernels_.info(node.inputs[0]).type);
  }

  // Does the group quantize a function of one value and known numbers alone?
  bool requantizes(const Growing& group, ValueId from) const {
    for (const ValueId v : group.operands) {
      if (v == kNoValue || v == from || kernels_.known_number(v)) continue;
      if (p_.producers[v] < 0 || !group.members.contains(p_.producers[v])) return false;
    }
    return std::any_of(group.members.begin(), group.members.end(), [&](int m) { return quantizes_reals(m); });
  }

  Partition& p_;
  DeviceKernels& kernels_;
  std::map<int, Traits> traits_;  // by node
};

}  // namespace

void group_expressions(Partition& partition) { ExpressionGroups(partition).make(); }

}  // namespace rewright::planning
