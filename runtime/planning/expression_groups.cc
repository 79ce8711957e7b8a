// Groups nodes without kernels into expressions.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "runtime/planning/composer.h"
#include "runtime/planning/partition.h"

namespace rewright::planning {

namespace {

using Kind = ElementNode::Kind;

constexpr std::size_t kMaxGroup = 24;     // nodes
constexpr std::size_t kMaxOperands = 16;  // read by a group
constexpr double kCheap = 4;              // operations per element that may be repeated

// A small set in ascending order.
template <class T>
class SortedList {
 public:
  SortedList(std::initializer_list<T> given) { insert(given.begin(), given.end()); }
  template <class Iterator>
  SortedList(Iterator first, Iterator last) {
    insert(first, last);
  }
  void insert(T value) {
    const auto at = std::lower_bound(values_.begin(), values_.end(), value);
    if (at == values_.end() || *at != value) values_.insert(at, value);
  }
  template <class Iterator>
  void insert(Iterator first, Iterator last) {
    for (; first != last; ++first) insert(*first);
  }
  void erase(T value) { std::erase(values_, value); }
  bool contains(T value) const { return std::binary_search(values_.begin(), values_.end(), value); }
  std::size_t size() const { return values_.size(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::vector<T> values_;
};

// A group that grows from its root (the node of its result) towards producers of its operands.
struct Growing {
  int root;
  SortedList<int> members;
  SortedList<ValueId> operands;
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
    group.copy = chain.element()->kind == Kind::kRead && !p_.uses.is_output(group.result) &&
                 only_widens(kernels_.info(chain.operands()[0]).type, kernels_.info(group.result).type);
    if (!absorb_into_reader(chain)) group.chain = std::move(chain);
  }

  // Is an element of the second type each of the first?
  static bool only_widens(DataType from, DataType to) {
    return from == to || (to == DataType::kFloat && (from == DataType::kHalf || from == DataType::kBfloat16));
  }

  // Merges the last group, which has this chain, into the only reader of its result, if that is a kernel that reads it in order
  // and can compute it.
  bool absorb_into_reader(const Chain& chain) {
    const int reader = p_.uses.only_node(chain.result);
    const int number = reader < 0 ? -1 : p_.group_of[static_cast<std::size_t>(reader)];
    if (number < 0) return false;
    Group& group = p_.groups[static_cast<std::size_t>(number)];
    if (!group.kernel) return false;
    const std::vector<ValueId> in_order = group.kernel->read_in_order();
    if (std::find(in_order.begin(), in_order.end(), chain.result) == in_order.end()) return false;
    if (!kernels_.absorb_operand(*group.kernel, chain)) return false;
    for (const int n : chain.nodes) p_.group_of[static_cast<std::size_t>(n)] = number;
    group.nodes.insert(group.nodes.end(), chain.nodes.begin(), chain.nodes.end());
    std::sort(group.nodes.begin(), group.nodes.end());
    p_.groups.pop_back();
    return true;
  }

  // The next operand whose producer should be added; kNoValue: none.
  ValueId next_operand(const Growing& group) {
    for (const ValueId v : group.operands)
      if (v != kNoValue && p_.producers[v] >= 0 && !kernels_.is_constant(v) && may_add(group, v) && is_worth_adding(group, v))
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
    const auto users = p_.uses.nodes(operand);
    return std::all_of(users.begin(), users.end(), [&](std::int32_t u) { return group.members.contains(u); }) &&
           p_.has_denotation(producer);
  }

  bool is_worth_adding(const Growing& group, ValueId operand) {
    const int producer = p_.producers[operand];
    if (!keeps_values(producer, group.root) || reads_more_than_allowed(group, producer)) return false;
    // A guarded element is also computed at unused positions, where an index may be outside without being an error.
    if (p_.traits(producer).has_position &&
        std::any_of(group.members.begin(), group.members.end(), [&](int m) { return p_.traits(m).has_guard; }))
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
    const Traits& produced = p_.traits(producer);
    if (produced.reduces && !p_.uses.nodes(operand).empty()) return true;
    const auto users = p_.uses.nodes(operand);
    return produced.operations > kCheap && std::any_of(users.begin(), users.end(), [&](std::int32_t u) {
             return p_.traits(u).reduces || elements(u) > elements(producer);
           });
  }

  std::int64_t elements(int n) const { return element_count(kernels_.info(p_.node(n).outputs[0]).sizes); }

  bool is_free_value(ValueId value) const { return p_.producers[value] >= 0 && p_.is_free(p_.producers[value]); }

  // Is the group's result unchanged if this node's result is not rounded to its type before it is used?
  bool keeps_values(int n, int root) const {
    const Node& node = p_.node(n);
    const DataType type = kernels_.info(node.outputs[0]).type, result = kernels_.info(p_.node(root).outputs[0]).type;
    if (type == DataType::kInt64 || type == DataType::kBool) return true;
    const Traits& produced = p_.traits(n);
    if (kernels_.fuses_quantization()) {
      if (is_8_bits(type) && produced.is_limited) return true;
      if (type == DataType::kFloat && is_8_bits(result)) return true;
    }
    if (produced.only_reads && kernels_.info(node.inputs[0]).type == type) return true;
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
};

}  // namespace

void group_expressions(Partition& partition) { ExpressionGroups(partition).make(); }

}  // namespace rewright::planning
