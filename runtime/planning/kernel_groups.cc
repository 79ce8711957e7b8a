// Groups kernels with the surrounding nodes that they absorb.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "runtime/planning/composer.h"
#include "runtime/planning/partition.h"

namespace rewright::planning {

namespace {

constexpr std::size_t kMaxChain = 8;  // nodes after a kernel that are considered together

// Collected elementwise nodes after a value. Most are none in the end, and take no memory of their own.
class Collected {
 public:
  explicit Collected(ValueId start) { values_[0] = start; }
  std::span<const int> nodes() const { return std::span(nodes_).first(count_); }
  std::span<const ValueId> values() const { return std::span(values_).first(count_ + 1); }  // the start and the nodes' results
  bool has(int node) const { return std::find(nodes_.begin(), nodes_.begin() + count_, node) != nodes_.begin() + count_; }
  bool is_full() const { return count_ == kMaxChain; }
  void add(int node, ValueId result) {
    nodes_[count_++] = node;
    values_[count_] = result;
  }

 private:
  std::array<int, kMaxChain> nodes_{};
  std::array<ValueId, kMaxChain + 1> values_{};
  std::size_t count_ = 0;
};

class KernelGroups {
 public:
  explicit KernelGroups(Partition& partition) : p_(partition), kernels_(partition.kernels) {}

  void make() {
    for (int n = 0; n < static_cast<int>(p_.graph.nodes().size()); ++n)
      if (kernels_.needed(static_cast<std::size_t>(n)) && p_.group_of[static_cast<std::size_t>(n)] < 0) group(n);
    absorb_addends();
    drop_empty_groups();
  }

 private:
  void group(int n) {
    if (p_.node(n).op == nullptr) {
      p_.add_group(n);
      return;
    }
    if (auto kernel = kernel_for(n)) {
      Group& group = p_.add_group(n);
      group.kernel = std::move(kernel);
      absorb_around(group);
    } else if (is_view(n)) {
      p_.add_group(n).view = true;
    }
  }

  std::unique_ptr<MatchedKernel> kernel_for(int n) {
    const Node& node = p_.node(n);
    if (auto kernel = kernels_.match(node)) return kernel;
    if (!p_.is_free(n) || p_.has_kernels(n)) return nullptr;
    const Traits& traits = p_.traits(n);
    return traits.has_denotation && traits.reduces ? kernels_.match_reduction(node) : nullptr;
  }

  void absorb_around(Group& group) {
    const int node = group.nodes[0];
    absorb_before(group);
    join_computed_ahead(group);
    for (const ValueId v : group.kernel->read_in_order()) free_moves(v, node);
    absorb_chains(group);
    absorb_next(group);
    absorb_rows(group);
    absorb_move(group);
    kernels_.will_be_stored(group.result);
  }

  // ---- Before a kernel
  // Absorbs the producer of the kernel's first input. Other users of that input still compute it themselves.
  void absorb_before(Group& group) {
    const int n = group.nodes[0];
    const std::vector<ValueId>& inputs = p_.node(n).inputs;
    const ValueId read = inputs.empty() ? kNoValue : inputs[0];
    const int before = read == kNoValue ? -1 : p_.producers[read];
    if (before < 0 || p_.uses.is_output(read) || kernels_.is_constant(read) || !p_.is_free(before)) return;
    if (std::count(inputs.begin(), inputs.end(), read) != 1) return;
    const Node& producer = p_.node(before);
    const ValueId start = producer.inputs.empty() ? kNoValue : producer.inputs[0];
    if (start == kNoValue || p_.has_kernels(before) || kernels_.is_constant(start)) return;
    const ValueInfo &from = kernels_.info(start), &to = kernels_.info(read);
    if (from.sizes != to.sizes || from.type != to.type || !is_elementwise(before)) return;
    if (kernels_.absorb_before(*group.kernel, compose(kernels_, p_.producers, {before}, start, false)))
      redirect(group, read, start);
  }

  void redirect(Group& group, ValueId from, ValueId to) {
    p_.uses.redirect(group.nodes[0], from, to);
    group.reads.push_back(to);
  }

  bool is_elementwise(int n) const {
    const Traits& traits = p_.traits(n);
    return traits.has_denotation && !traits.reduces;
  }

  // Producers whose results the kernel recomputes join the group if nothing else needs them. Otherwise they are no longer read
  // by the kernel; if several kernels recompute them, they are dropped.
  void join_computed_ahead(Group& group) {
    const int number = p_.group_of[static_cast<std::size_t>(group.nodes[0])];
    for (const ValueId v : group.kernel->computed_ahead()) {
      const int producer = p_.producers[v];
      if (producer < 0 || !p_.is_free(producer)) continue;
      if (p_.uses.only_node(v) < 0) {
        const std::vector<ValueId>& operands = p_.node(producer).inputs;
        if (operands.size() == 1) redirect(group, v, operands[0]);
        continue;
      }
      p_.group_of[static_cast<std::size_t>(producer)] = number;
      group.nodes.push_back(producer);
    }
    std::sort(group.nodes.begin(), group.nodes.end());
  }

  // Dissolves kernels that only move elements, and views, before the elementwise nodes that compute the value for this reader
  // alone. All are then one expression, which the reader may compute (absorb_operand). Views at other positions than those of
  // their results (a reshape's) stay: they would hide that whole rows are read.
  void free_moves(ValueId value, int reader) {
    const int producer = value == kNoValue || kernels_.is_constant(value) ? -1 : p_.producers[value];
    if (producer < 0 || p_.uses.only_node(value) != reader) return;
    if (p_.is_free(producer) && is_elementwise(producer) && !p_.traits(producer).only_reads) {
      for (const ValueId v : p_.node(producer).inputs)
        if (v != kNoValue && kernels_.info(v).sizes == kernels_.info(value).sizes) free_moves(v, producer);
      return;
    }
    int& number = p_.group_of[static_cast<std::size_t>(producer)];
    if (number < 0) return;
    Group& group = p_.groups[static_cast<std::size_t>(number)];
    const bool only_moves = group.kernel && group.kernel->only_moves(),
               is_view = group.view && kernels_.movement(p_.node(producer)).along_axes;
    if (group.nodes.size() != 1 || !(only_moves || is_view)) return;
    group.nodes.clear();  // dropped in the end
    number = -1;
    if (is_view) free_moves(p_.node(producer).inputs[0], producer);
  }

  // ---- After a kernel
  void absorb_chains(Group& group) {
    std::size_t at_least = 0;
    while (at_least < kMaxChain) {
      const auto chain = chain_after(group.result, at_least);
      if (!chain) return;
      if (!kernels_.absorb(*group.kernel, *chain)) {
        at_least = chain->nodes.size();
        continue;
      }
      const int number = p_.group_of[static_cast<std::size_t>(group.nodes[0])];
      for (const int n : chain->nodes) p_.group_of[static_cast<std::size_t>(n)] = number;
      group.nodes.insert(group.nodes.end(), chain->nodes.begin(), chain->nodes.end());
      std::sort(group.nodes.begin(), group.nodes.end());
      group.result = chain->result;
      at_least = 0;
    }
  }

  void absorb_next(Group& group) {
    const int next = p_.uses.only_node(group.result);
    if (!is_ungrouped(next) || !kernels_.absorb_next(*group.kernel, p_.node(next))) return;
    p_.join(group, next);
    absorb_chains(group);
  }

  // Absorbs a function of rows whose result is read by a product with a kernel.
  void absorb_rows(Group& group) {
    const int rows = p_.uses.only_node(group.result);
    if (rows < 0 || !p_.is_free(rows) || !p_.has_denotation(rows) || !p_.traits(rows).reduces) return;
    const int next = p_.uses.only_node(p_.node(rows).outputs[0]);
    if (!is_ungrouped(next)) return;
    const auto kernel = kernels_.match(p_.node(next));
    if (!kernel || !kernels_.absorb_rows(*group.kernel, p_.node(rows), *kernel)) return;
    p_.join(group, rows);
    p_.join(group, next);
  }

  void absorb_move(Group& group) {
    const int move = p_.uses.only_node(group.result);
    if (move < 0 || !p_.is_free(move)) return;
    const Node& node = p_.node(move);
    const int moved = p_.traits(move).moved;  // most users do more, and are not defined to find that out
    if (moved < 0 || node.inputs[static_cast<std::size_t>(moved)] != group.result) return;
    if (kernels_.absorb_move(*group.kernel, node)) p_.join(group, move);
  }

  bool is_ungrouped(int n) const { return n >= 0 && p_.group_of[static_cast<std::size_t>(n)] < 0 && p_.node(n).op != nullptr; }

  // ---- The chain after a value
  // The shortest closed chain of more than `at_least` nodes. Closed: only its last result is used outside of it.
  std::optional<Chain> chain_after(ValueId start, std::size_t at_least) const {
    if (p_.uses.is_output(start)) return std::nullopt;
    const ValueInfo& given = kernels_.info(start);
    if (p_.uses.nodes(start).empty()) return std::nullopt;
    Collected chain(start);
    while (!chain.is_full()) {
      const int next = next_user(chain);
      if (next < 0 || !may_follow(next, given)) return std::nullopt;
      const ValueId result = p_.node(next).outputs[0];
      const DataType type = kernels_.info(result).type;
      const bool quantizes = kernels_.fuses_quantization() && is_8_bits(type);
      chain.add(next, result);
      if (chain.nodes().size() > at_least && is_closed(chain, result) && !dequantizes(given.type, type)) {
        std::vector<int> nodes(chain.nodes().begin(), chain.nodes().end());
        if (quantizes && is_8_bits(given.type)) add_sources(nodes);
        std::sort(nodes.begin(), nodes.end());
        return compose(kernels_, p_.producers, std::move(nodes), start, false);
      }
      if (p_.uses.is_output(result) || (quantizes && type != given.type)) return std::nullopt;
    }
    return std::nullopt;
  }

  bool dequantizes(DataType from, DataType to) const {
    return kernels_.fuses_quantization() && is_8_bits(from) && to == DataType::kFloat;
  }

  // The first user, in topological order, of the collected values; -1: none.
  int next_user(const Collected& chain) const {
    int next = -1;
    for (const ValueId v : chain.values())
      for (const std::int32_t u : p_.uses.nodes(v))
        if (!chain.has(u) && (next < 0 || u < next)) next = u;
    return next;
  }

  // May the node be part of a chain that starts at a value of this type and sizes?
  bool may_follow(int n, const ValueInfo& start) const {
    if (!p_.is_free(n) || p_.has_kernels(n)) return false;
    const ValueId result = p_.node(n).outputs[0];
    if (!p_.graph.value(result).shape_known) return false;
    const ValueInfo& info = kernels_.info(result);
    if (info.sizes != start.sizes) return false;
    const bool quantizes = kernels_.fuses_quantization() && is_8_bits(info.type);
    const bool is_sum = kernels_.fuses_quantization() && start.type == DataType::kInt32 && info.type == DataType::kFloat;
    return (info.type == start.type || quantizes || is_sum || dequantizes(start.type, info.type)) && is_elementwise(n);
  }

  bool is_closed(const Collected& chain, ValueId last) const {
    for (const ValueId v : chain.values()) {
      const auto users = p_.uses.nodes(v);
      const bool escapes = p_.uses.is_output(v) || users.empty() ||
                           std::any_of(users.begin(), users.end(), [&](std::int32_t u) { return !chain.has(u); });
      if (escapes != (v == last)) return false;
    }
    return true;
  }

  // Adds producers that dequantize tensors for these nodes alone.
  void add_sources(std::vector<int>& nodes) const {
    const std::vector<int> given = nodes;
    for (const int n : given)
      for (const ValueId v : p_.node(n).inputs) {
        const int source = v == kNoValue || kernels_.is_constant(v) || p_.uses.only_node(v) != n ? -1 : p_.producers[v];
        if (source < 0 || std::find(nodes.begin(), nodes.end(), source) != nodes.end() || !p_.is_free(source)) continue;
        const std::vector<ValueId>& inputs = p_.node(source).inputs;
        if (inputs.empty() || inputs[0] == kNoValue || !is_8_bits(kernels_.info(inputs[0]).type)) continue;
        if (kernels_.info(v).type == DataType::kFloat && p_.has_denotation(source)) nodes.push_back(source);
      }
  }

  // ---- Views
  // Does the node only change the sizes of its first input, and is a view better than a kernel or an expression?
  bool is_view(int n) const {
    const Node& node = p_.node(n);
    if (!p_.is_free(n) || node.inputs.empty() || node.inputs[0] == kNoValue || p_.uses.is_output(node.outputs[0])) return false;
    const Traits& traits = p_.traits(n);
    if (!traits.has_denotation || traits.moved != 0) return false;
    const ValueInfo &input = kernels_.info(node.inputs[0]), &result = kernels_.info(node.outputs[0]);
    if (input.type != result.type || element_count(input.sizes) != element_count(result.sizes)) return false;
    if (is_between_quantized(n) || is_moved_before(node.inputs[0], n)) return false;
    return kernels_.movement(node).in_order;
  }

  // Is the node between a dequantization and a quantization? Then all three are one function of bytes.
  bool is_between_quantized(int n) const {
    const Node& node = p_.node(n);
    const int before = p_.producers[node.inputs[0]], after = p_.uses.only_node(node.outputs[0]);
    if (!kernels_.fuses_quantization() || before < 0 || after < 0) return false;
    if (!p_.is_free(before) || p_.uses.only_node(node.inputs[0]) != n) return false;
    const Node &first = p_.node(before), &last = p_.node(after);
    return !first.inputs.empty() && first.inputs[0] != kNoValue && is_8_bits(kernels_.info(first.inputs[0]).type) &&
           last.op != nullptr && p_.is_free(after) && is_8_bits(kernels_.info(last.outputs[0]).type);
  }

  // Does the value's producer move elements of another value, for this node alone? Then both are one movement, which needs no
  // memory if its user reads at strides.
  bool is_moved_before(ValueId value, int n) const {
    const int producer = p_.producers[value];
    if (producer < 0 || p_.uses.only_node(value) != n || !p_.is_free(producer)) return false;
    const Node& node = p_.node(producer);
    const Traits& traits = p_.traits(producer);
    if (p_.has_kernels(producer) || !traits.has_denotation || traits.moved < 0) return false;
    const ValueId source = node.inputs[static_cast<std::size_t>(traits.moved)];
    return !kernels_.is_constant(source) && kernels_.info(source).type == kernels_.info(value).type;
  }

  // ---- Addends
  void absorb_addends() {
    for (std::size_t g = 0; g < p_.groups.size(); ++g) {
      if (!p_.groups[g].kernel) continue;
      const std::size_t count = p_.groups[g].nodes.size();  // of those that stand before the ones that are absorbed
      for (std::size_t i = 0; i < count; ++i) {
        const int n = p_.groups[g].nodes[i];
        for (const ValueId v : p_.node(n).inputs) absorb_addend(g, n, v);
      }
      std::sort(p_.groups[g].nodes.begin(), p_.groups[g].nodes.end());
    }
  }

  // Fuses the group that computes `value` for the node `n` of group `g`, if g's kernel adds the value to its result.
  void absorb_addend(std::size_t g, int n, ValueId value) {
    const int producer = value == kNoValue ? -1 : p_.producers[value];
    const int number = producer < 0 ? -1 : p_.group_of[static_cast<std::size_t>(producer)];
    if (number < 0 || number == static_cast<int>(g) || p_.uses.only_node(value) != n) return;
    Group &group = p_.groups[g], &other = p_.groups[static_cast<std::size_t>(number)];
    if (!other.kernel || other.result != value || !kernels_.absorb_addend(*group.kernel, value, other.kernel)) return;
    for (const int m : other.nodes) p_.group_of[static_cast<std::size_t>(m)] = static_cast<int>(g);
    group.nodes.insert(group.nodes.end(), other.nodes.begin(), other.nodes.end());
    other.nodes.clear();
  }

  void drop_empty_groups() {
    std::vector<int> numbers(p_.groups.size(), -1);
    std::vector<Group> left;
    for (std::size_t g = 0; g < p_.groups.size(); ++g) {
      if (p_.groups[g].nodes.empty()) continue;
      numbers[g] = static_cast<int>(left.size());
      left.push_back(std::move(p_.groups[g]));
    }
    p_.groups = std::move(left);
    for (int& g : p_.group_of)
      if (g >= 0) g = numbers[static_cast<std::size_t>(g)];
  }

  Partition& p_;
  DeviceKernels& kernels_;
};

}  // namespace

void group_kernels(Partition& partition) { KernelGroups(partition).make(); }

}  // namespace rewright::planning
