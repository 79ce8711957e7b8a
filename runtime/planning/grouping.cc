#include "runtime/planning/grouping.h"

#include <algorithm>
#include <map>
#include <set>

#include "expressions/free_variables.h"
#include "runtime/planning/composer.h"
#include "runtime/planning/keeps_order.h"

namespace rewright::planning {

namespace {

using Kind = ElementNode::Kind;

constexpr std::size_t kMaxChain = 8;   // nodes behind a kernel looked at for one operation
constexpr std::size_t kMaxGroup = 24;  // nodes of a group that is one expression
constexpr std::size_t kMaxOperands = 16;
constexpr double kCheap = 4;  // operations an element that may be done again

bool is_8_bits(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

// Is the element brought into the range of its type before it becomes an integer, as quantization does?
bool is_limited(const Element& e) {
  if (e->kind != Kind::kConvert || e->scalar != Scalar::kInteger) return false;
  const auto limits = [](const Element& x, Kind kind) { return x->kind == kind && x->arguments[1]->kind == Kind::kConstant; };
  const Element& high = e->arguments[0];
  return limits(high, Kind::kMinimum) && limits(high->arguments[0], Kind::kMaximum);
}

// Is a part of the element not wanted everywhere?
bool has_guard(const Element& e) {
  const bool here = e->kind == Kind::kRead ? e->zero_outside : !e->conditions.empty();
  return here || std::any_of(e->arguments.begin(), e->arguments.end(), has_guard);
}

class Grouping {
 public:
  explicit Grouping(Facts& facts);
  std::vector<Group> make();

 private:
  void take_kernels();
  void take_before(Group& group);
  void take_chains(Group& group);
  void take_next(Group& group);
  void take_ahead(Group& group);
  void take_rows(Group& group);
  void take_addends();
  std::unique_ptr<Taken> take_reducing(int node);
  int only_user(ValueId value) const;  // -1: none, or several
  bool is_used(int node) const;
  void join(Group& group, int node);
  void group_elementwise();
  bool is_tiled(int node) const;
  bool keeps_values(int node, int root) const;
  bool quantizes_reals(int node) const;
  bool is_tiled_value(ValueId value) const { return producers_[value] >= 0 && is_tiled(producers_[value]); }
  bool requantizes(const std::set<int>& members, const std::set<ValueId>& operands, ValueId from) const;
  bool is_between_quantized(int node) const;
  bool moves_for(ValueId value, int node) const;
  // The shortest closed group of elementwise nodes behind a value with more than `at_least` nodes.
  std::optional<Chain> chain_after(ValueId start, std::size_t at_least) const;
  void add_sources(std::vector<int>& nodes) const;

  Facts& facts_;
  const Graph& graph_;
  std::vector<std::int32_t> producers_;
  std::vector<std::vector<std::int32_t>> users_;  // needed ones only
  std::vector<bool> is_output_;                   // by value
  std::vector<int> group_of_;                     // by node
  std::vector<Group> groups_;
};

Grouping::Grouping(Facts& facts)
    : facts_(facts),
      graph_(facts.graph()),
      producers_(graph_.producers()),
      users_(graph_.value_count()),
      is_output_(graph_.value_count()),
      group_of_(graph_.nodes().size(), -1) {
  for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
    if (!facts.needed(n)) continue;
    const std::set<ValueId> inputs(graph_.nodes()[n]->inputs.begin(), graph_.nodes()[n]->inputs.end());
    for (const ValueId i : inputs)
      if (i != kNoValue) users_[i].push_back(static_cast<std::int32_t>(n));
  }
  for (const GraphOutput& o : graph_.outputs()) is_output_[o.value] = true;
}

std::vector<Group> Grouping::make() {
  take_kernels();
  take_addends();
  group_elementwise();
  std::sort(groups_.begin(), groups_.end(), [](const Group& a, const Group& b) { return a.nodes.back() < b.nodes.back(); });
  return std::move(groups_);
}

bool Grouping::is_tiled(int n) const {
  const Node& node = *graph_.nodes()[n];
  if (!facts_.needed(static_cast<std::size_t>(n)) || group_of_[n] >= 0 || node.op == nullptr) return false;
  for (std::size_t o = 1; o < node.outputs.size(); ++o)
    if (node.outputs[o] != kNoValue && (is_output_[node.outputs[o]] || !users_[node.outputs[o]].empty())) return false;
  return true;
}

void Grouping::take_kernels() {
  for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
    const Node& node = *graph_.nodes()[n];
    if (!facts_.needed(static_cast<std::size_t>(n)) || group_of_[n] >= 0) continue;
    const auto add_group = [&]() -> Group& {
      group_of_[n] = static_cast<int>(groups_.size());
      groups_.emplace_back();
      groups_.back().nodes = {static_cast<int>(n)};
      groups_.back().result = node.outputs[0];
      return groups_.back();
    };
    if (node.op == nullptr) {
      add_group();
      continue;
    }
    auto taken = facts_.take(node);
    if (!taken) taken = take_reducing(static_cast<int>(n));
    if (taken) {
      Group& group = add_group();
      group.taken = std::move(taken);
      take_before(group);
      take_ahead(group);
      take_chains(group);
      take_next(group);
      take_rows(group);
      facts_.will_be_stored(group.result);
      continue;
    }
    if (!is_tiled(static_cast<int>(n)) || node.inputs.empty() || node.inputs[0] == kNoValue || is_output_[node.outputs[0]])
      continue;
    const Definition definition = facts_.define(node);
    if (!definition.has_denotation()) continue;
    const Output& output = definition.outputs()[0];
    if (facts_.info(node.inputs[0]).type == output.type.type && !is_between_quantized(static_cast<int>(n)) &&
        !moves_for(node.inputs[0], static_cast<int>(n)) &&
        keeps_order(output.element, output.position, values(output.type.shape), facts_.info(node.inputs[0]).sizes))
      add_group().view = true;
  }
}

// A node before the kernel's first input, which others may compute again for themselves.
void Grouping::take_before(Group& group) {
  const int n = group.nodes[0];
  const Node& node = *graph_.nodes()[n];
  const ValueId read = node.inputs.empty() ? kNoValue : node.inputs[0];
  const int before = read == kNoValue ? -1 : producers_[read];
  if (before < 0 || is_output_[read] || facts_.constant(read) || !is_tiled(before)) return;
  if (std::count(node.inputs.begin(), node.inputs.end(), read) != 1) return;
  const Node& producer = *graph_.nodes()[before];
  const ValueId start = producer.inputs.empty() ? kNoValue : producer.inputs[0];
  if (start == kNoValue || facts_.has_kernels(producer.op->name()) || facts_.constant(start)) return;
  if (facts_.info(start).sizes != facts_.info(read).sizes || facts_.info(start).type != facts_.info(read).type) return;
  const Definition definition = facts_.define(producer);
  if (!definition.has_denotation() || has_reduction(definition.outputs()[0].element)) return;
  if (!facts_.absorb_before(*group.taken, compose(facts_, producers_, {before}, start, false))) return;
  std::erase(users_[read], n);
  auto& users = users_[start];
  if (const auto at = std::lower_bound(users.begin(), users.end(), n); at == users.end() || *at != n) users.insert(at, n);
}

void Grouping::take_next(Group& group) {
  const int next = only_user(group.result);
  if (next < 0 || group_of_[next] >= 0 || graph_.nodes()[next]->op == nullptr) return;
  if (!facts_.absorb_next(*group.taken, *graph_.nodes()[next])) return;
  join(group, next);
  take_chains(group);
}

// Does the node stand between what dequantizes and what quantizes? All three are one function then.
bool Grouping::is_between_quantized(int n) const {
  const Node& node = *graph_.nodes()[n];
  const int before = producers_[node.inputs[0]], after = only_user(node.outputs[0]);
  if (!facts_.fuses_quantization() || before < 0 || after < 0 || !is_tiled(before) || only_user(node.inputs[0]) != n)
    return false;
  const Node &first = *graph_.nodes()[before], &last = *graph_.nodes()[after];
  return !first.inputs.empty() && first.inputs[0] != kNoValue && is_8_bits(facts_.info(first.inputs[0]).type) &&
         last.op != nullptr && is_tiled(after) && is_8_bits(facts_.info(last.outputs[0]).type);
}

// Is the value made of elements of another one, for this node alone? Together they are one movement, and need no memory if what
// follows reads at strides.
bool Grouping::moves_for(ValueId value, int n) const {
  const int producer = producers_[value];
  if (producer < 0 || only_user(value) != n || !is_tiled(producer)) return false;
  const Node& node = *graph_.nodes()[producer];
  const Definition definition = facts_.define(node);
  if (facts_.has_kernels(node.op->name()) || !definition.has_denotation()) return false;
  const Element& element = definition.outputs()[0].element;
  if (element->kind != Kind::kRead || element->zero_outside) return false;
  const ValueId source = node.inputs[static_cast<std::size_t>(element->operand)];
  return !facts_.constant(source) && facts_.info(source).type == facts_.info(value).type;
}

// What the kernel computes ahead for itself, if nothing else needs it.
void Grouping::take_ahead(Group& group) {
  const int number = group_of_[group.nodes[0]];
  for (const ValueId v : group.taken->computed_ahead()) {
    const int p = producers_[v];
    if (p < 0 || !is_tiled(p) || only_user(v) < 0) continue;
    group_of_[p] = number;
    group.nodes.push_back(p);
  }
  std::sort(group.nodes.begin(), group.nodes.end());
}

void Grouping::take_chains(Group& group) {
  std::size_t at_least = 0;
  while (at_least < kMaxChain) {
    const auto chain = chain_after(group.result, at_least);
    if (!chain) return;
    if (!facts_.absorb(*group.taken, *chain)) {
      at_least = chain->nodes.size();
      continue;
    }
    for (const int n : chain->nodes) group_of_[n] = group_of_[group.nodes[0]];
    group.nodes.insert(group.nodes.end(), chain->nodes.begin(), chain->nodes.end());
    std::sort(group.nodes.begin(), group.nodes.end());
    group.result = chain->result;
    at_least = 0;
  }
}

std::unique_ptr<Taken> Grouping::take_reducing(int n) {
  const Node& node = *graph_.nodes()[n];
  if (!is_tiled(n) || facts_.has_kernels(node.op->name())) return nullptr;
  const Definition definition = facts_.define(node);
  const bool reduces = definition.has_denotation() && has_reduction(definition.outputs()[0].element);
  return reduces ? facts_.take_reducing(node) : nullptr;
}

int Grouping::only_user(ValueId value) const { return is_output_[value] || users_[value].size() != 1 ? -1 : users_[value][0]; }

// All that used a node's results may compute them again for themselves.
bool Grouping::is_used(int node) const {
  return std::any_of(graph_.nodes()[node]->outputs.begin(), graph_.nodes()[node]->outputs.end(),
                     [&](ValueId o) { return o != kNoValue && (is_output_[o] || !users_[o].empty()); });
}

void Grouping::join(Group& group, int node) {
  group_of_[node] = group_of_[group.nodes[0]];
  group.nodes.push_back(node);
  std::sort(group.nodes.begin(), group.nodes.end());
  group.result = graph_.nodes()[node]->outputs[0];
}

// A function of rows and the product of its result, and a node that moves what comes out.
void Grouping::take_rows(Group& group) {
  const int rows = only_user(group.result);
  if (rows >= 0 && is_tiled(rows)) {
    const Node& node = *graph_.nodes()[rows];
    const int next = only_user(node.outputs[0]);
    if (next >= 0 && group_of_[next] < 0 && graph_.nodes()[next]->op != nullptr) {
      const auto taken = facts_.take(*graph_.nodes()[next]);
      if (taken && facts_.absorb_rows(*group.taken, node, *taken)) {
        join(group, rows);
        join(group, next);
      }
    }
  }
  const int move = only_user(group.result);
  if (move < 0 || !is_tiled(move) || !facts_.define(*graph_.nodes()[move]).has_denotation()) return;
  if (facts_.absorb_move(*group.taken, *graph_.nodes()[move])) join(group, move);
}

// Groups whose results kernels add to theirs.
void Grouping::take_addends() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    if (!group.taken) continue;
    const std::vector<int> nodes = group.nodes;
    for (const int n : nodes)
      for (const ValueId v : graph_.nodes()[n]->inputs) {
        const int producer = v == kNoValue ? -1 : producers_[v];
        const int number = producer < 0 ? -1 : group_of_[producer];
        if (number < 0 || number == static_cast<int>(g) || only_user(v) != n) continue;
        Group& other = groups_[static_cast<std::size_t>(number)];
        if (!other.taken || other.result != v || !facts_.absorb_addend(*group.taken, v, other.taken)) continue;
        for (const int m : other.nodes) group_of_[m] = static_cast<int>(g);
        group.nodes.insert(group.nodes.end(), other.nodes.begin(), other.nodes.end());
        other.nodes.clear();
      }
    std::sort(group.nodes.begin(), group.nodes.end());
  }
  // Those without nodes have gone; what is known by number stays.
  std::vector<int> numbers(groups_.size(), -1);
  std::vector<Group> left;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].nodes.empty()) continue;
    numbers[g] = static_cast<int>(left.size());
    left.push_back(std::move(groups_[g]));
  }
  groups_ = std::move(left);
  for (int& g : group_of_)
    if (g >= 0) g = numbers[static_cast<std::size_t>(g)];
}

std::optional<Chain> Grouping::chain_after(ValueId start, std::size_t at_least) const {
  if (is_output_[start]) return std::nullopt;
  const Sizes sizes = facts_.info(start).sizes;
  const DataType type = facts_.info(start).type;
  std::vector<int> nodes;
  std::set<ValueId> inside{start};
  while (nodes.size() < kMaxChain) {
    // The first user, in topological order, of what is inside already.
    int next = -1;
    std::size_t open = 0;
    for (const ValueId v : inside)
      for (const std::int32_t u : users_[v])
        if (std::find(nodes.begin(), nodes.end(), u) == nodes.end() && (next < 0 || u < next)) next = u;
    if (next < 0 || !is_tiled(next)) return std::nullopt;
    const Node& node = *graph_.nodes()[next];
    const Value& result = graph_.value(node.outputs[0]);
    if (facts_.has_kernels(node.op->name()) || !result.shape_known || facts_.info(node.outputs[0]).sizes != sizes)
      return std::nullopt;
    const DataType its_type = facts_.info(node.outputs[0]).type;
    const bool quantizes = facts_.fuses_quantization() && is_8_bits(its_type);
    const bool dequantizes = facts_.fuses_quantization() && is_8_bits(type) && its_type == DataType::kFloat;
    if (its_type != type && !quantizes && !dequantizes) return std::nullopt;
    const Definition definition = facts_.define(node);
    if (!definition.has_denotation() || has_reduction(definition.outputs()[0].element)) return std::nullopt;
    nodes.push_back(next);
    inside.insert(node.outputs[0]);
    // Closed: only one value is seen from outside, the last one.
    ValueId escaping = kNoValue;
    for (const ValueId v : inside) {
      bool escapes = is_output_[v];
      for (const std::int32_t u : users_[v]) escapes = escapes || std::find(nodes.begin(), nodes.end(), u) == nodes.end();
      if (users_[v].empty()) escapes = true;
      if (!escapes) continue;
      ++open;
      escaping = v;
    }
    if (open == 1 && escaping == node.outputs[0] && nodes.size() > at_least && !dequantizes) {
      if (quantizes && is_8_bits(type)) add_sources(nodes);
      std::sort(nodes.begin(), nodes.end());
      return compose(facts_, producers_, nodes, start, false);
    }
    if (is_output_[node.outputs[0]] || (quantizes && its_type != type)) return std::nullopt;
  }
  return std::nullopt;
}

// Producers of reals from quantized tensors that only these nodes use.
void Grouping::add_sources(std::vector<int>& nodes) const {
  const std::vector<int> given = nodes;
  for (const int n : given)
    for (const ValueId v : graph_.nodes()[n]->inputs) {
      if (v == kNoValue || producers_[v] < 0 || facts_.constant(v) || only_user(v) != n) continue;
      const int p = producers_[v];
      const Node& node = *graph_.nodes()[p];
      if (std::find(nodes.begin(), nodes.end(), p) != nodes.end() || !is_tiled(p) || node.inputs.empty()) continue;
      if (node.inputs[0] == kNoValue || !is_8_bits(facts_.info(node.inputs[0]).type)) continue;
      if (facts_.info(v).type == DataType::kFloat && facts_.define(node).has_denotation()) nodes.push_back(p);
    }
}

// Is the node's result the same if it is not rounded to its type before it is used in a group that computes `root`?
bool Grouping::keeps_values(int n, int root) const {
  const Node& node = *graph_.nodes()[n];
  const DataType type = facts_.info(node.outputs[0]).type;
  if (type == DataType::kInt64 || type == DataType::kBool) return true;
  if (facts_.fuses_quantization()) {
    if (is_8_bits(type) && is_limited(facts_.define(node).outputs()[0].element)) return true;
    if (type == DataType::kFloat && is_8_bits(facts_.info(graph_.nodes()[root]->outputs[0]).type)) return true;
  }
  if (facts_.define(node).outputs()[0].element->kind == Kind::kRead && facts_.info(node.inputs[0]).type == type) return true;
  return facts_.may_stay_unrounded(type) && type == facts_.info(graph_.nodes()[root]->outputs[0]).type;
}

bool Grouping::quantizes_reals(int n) const {
  const Node& node = *graph_.nodes()[n];
  return facts_.fuses_quantization() && is_8_bits(facts_.info(node.outputs[0]).type) && !node.inputs.empty() &&
         node.inputs[0] != kNoValue && is_real(facts_.info(node.inputs[0]).type);
}

// Do the members of a group quantize what they compute from one value, and known numbers, alone?
bool Grouping::requantizes(const std::set<int>& members, const std::set<ValueId>& operands, ValueId from) const {
  for (const ValueId v : operands) {
    if (v == kNoValue || v == from || facts_.known_number(v)) continue;
    if (producers_[v] < 0 || !members.contains(producers_[v])) return false;
  }
  return std::any_of(members.begin(), members.end(), [&](int m) { return quantizes_reals(m); });
}

void Grouping::group_elementwise() {
  struct Facts {
    bool reduces = false, has_position = false, has_guard = false;
    double operations = 0;  // of one element
    std::int64_t elements = 0;
  };
  // Numbers that are known are part of the expression.
  const auto count_read = [&](const auto& values) {
    return static_cast<std::size_t>(
        std::count_if(values.begin(), values.end(), [&](ValueId v) { return v != kNoValue && !facts_.known_number(v); }));
  };
  std::map<int, Facts> facts;
  const auto know = [&](int n) -> const Facts& {
    if (const auto found = facts.find(n); found != facts.end()) return found->second;
    Facts f;
    const Definition definition = facts_.define(*graph_.nodes()[n]);
    const Output& output = definition.outputs()[0];
    f.reduces = has_reduction(output.element);
    f.has_position = has_position(*output.element);
    f.has_guard = has_guard(output.element);
    f.operations = static_cast<double>(operation_count(output.element).constant().value_or(1000));
    f.elements = element_count(values(output.type.shape));
    return facts.emplace(n, f).first->second;
  };
  for (std::size_t r = graph_.nodes().size(); r-- > 0;) {
    const int root = static_cast<int>(r);
    if (!facts_.needed(r) || group_of_[root] >= 0 || !is_used(root)) continue;
    const int number = static_cast<int>(groups_.size());
    const bool tiled = is_tiled(root) && facts_.define(*graph_.nodes()[root]).has_denotation();
    groups_.emplace_back();
    groups_.back().nodes = {root};
    groups_.back().result = graph_.nodes()[root]->outputs[0];
    group_of_[root] = number;
    if (!tiled) continue;
    std::set<int> members{root};
    std::set<ValueId> operands(graph_.nodes()[root]->inputs.begin(), graph_.nodes()[root]->inputs.end());
    for (bool grown = true; grown && members.size() < kMaxGroup;) {
      grown = false;
      for (const ValueId v : operands) {
        if (v == kNoValue || producers_[v] < 0 || facts_.constant(v)) continue;
        const int p = producers_[v];
        if (members.contains(p) || !is_tiled(p) || is_output_[v]) continue;
        const auto& users = users_[v];
        if (!std::all_of(users.begin(), users.end(), [&](std::int32_t u) { return members.contains(u); })) continue;
        if (!facts_.define(*graph_.nodes()[p]).has_denotation()) continue;
        const Facts& producer = know(p);
        bool worth = keeps_values(p, root);
        // A guarded element is computed at unused positions too, where an index may be outside without being an error.
        if (producer.has_position && std::any_of(members.begin(), members.end(), [&](int m) { return know(m).has_guard; }))
          worth = false;
        for (const std::int32_t u : users) {
          const Facts& consumer = know(u);
          const bool again = consumer.reduces || consumer.elements > producer.elements;
          if (producer.reduces || (again && producer.operations > kCheap)) worth = false;
        }
        // What quantizes stored reals stays alone before requantizations of its result, which are then functions of one byte.
        if (worth && quantizes_reals(p) && !is_tiled_value(graph_.nodes()[p]->inputs[0]) && requantizes(members, operands, v))
          worth = false;
        if (!worth || count_read(operands) + count_read(graph_.nodes()[p]->inputs) > kMaxOperands) continue;
        members.insert(p);
        group_of_[p] = number;
        operands.erase(v);
        for (const ValueId i : graph_.nodes()[p]->inputs)
          if (i != kNoValue) operands.insert(i);
        grown = true;
        break;
      }
    }
    Group& group = groups_[static_cast<std::size_t>(number)];
    group.nodes.assign(members.begin(), members.end());
    Chain chain = compose(facts_, producers_, group.nodes, kNoValue, true);
    group.copy = chain.element->kind == Kind::kRead && !is_output_[group.result] &&
                 facts_.info(chain.operands[0]).type == facts_.info(group.result).type;
    group.chain = std::move(chain);
  }
}

}  // namespace

bool has_reduction(const Element& e) {
  if (e->kind == Kind::kReduce) return true;
  return std::any_of(e->arguments.begin(), e->arguments.end(), has_reduction);
}

std::vector<Group> make_groups(Facts& facts) { return Grouping(facts).make(); }

}  // namespace rewright::planning
