// Which nodes are planned together: kernels with the elementwise chain behind them, chains of the tile engine.
#include <algorithm>
#include <map>
#include <set>

#include "runtime/cpu/epilogue.h"
#include "runtime/cpu/planner.h"
#include "runtime/cpu/row_functions.h"
#include "runtime/cpu/tile/stages.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

constexpr std::size_t kMaxChain = 8;   // nodes behind a kernel looked at for one operation
constexpr std::size_t kMaxGroup = 24;  // nodes of a group of the tile engine
constexpr std::size_t kMaxOperands = 16;
constexpr double kCheap = 4;  // operations an element that may be done again

bool has_reduction(const Element& e) {
  if (e->kind == Kind::kReduce) return true;
  return std::any_of(e->arguments.begin(), e->arguments.end(), has_reduction);
}

// Composes the expressions of nodes of a group, shared parts once.
class Composer {
 public:
  // `shorten`: say affine functions by channel with two constants.
  Composer(Planner& planner, const std::vector<std::int32_t>& producers, const std::vector<int>& nodes, ValueId first,
           bool shorten)
      : planner_(planner), producers_(producers), nodes_(nodes.begin(), nodes.end()), shorten_(shorten) {
    if (first != kNoValue) operands.push_back(first);
    started_ = first != kNoValue;
  }

  std::vector<ValueId> operands;

  Element compose(int node, const Indices& position) {
    for (const auto& [key, element] : done_)
      if (key.first == node && key.second == position) return element;
    if (const auto affine = affine_of(node)) {
      const Element result = shortened(node, position, *affine);
      done_.emplace_back(std::pair(node, position), result);
      return result;
    }
    const Definition definition = planner_.define(*planner_.graph().nodes()[node]);
    const Output& output = definition.outputs()[0];
    std::map<std::uint64_t, Index> atoms;
    for (std::size_t a = 0; a < position.size(); ++a)
      if (const Atom* atom = output.position[a].as_atom()) atoms.emplace(atom->id, position[a]);
    const Element result = rewrite(
        output.element, [&](const ElementNode& read) { return operand(*planner_.graph().nodes()[node], read); },
        [&](const Atom& atom) -> std::optional<Index> {
          const auto found = atom.kind == Atom::Kind::kBound ? atoms.find(atom.id) : atoms.end();
          return found == atoms.end() ? std::nullopt : std::optional(found->second);
        });
    done_.emplace_back(std::pair(node, position), result);
    return result;
  }

 private:
  Element operand(const Node& node, const ElementNode& read) {
    const ValueId value = node.inputs[static_cast<std::size_t>(read.operand)];
    const ValueInfo info = planner_.info(value);
    const int producer = producers_[value];
    const bool first = started_ && value == operands[0];
    if (!first && producer >= 0 && nodes_.contains(producer)) {
      const Element inner = compose(producer, read.position);
      if (!read.zero_outside) return inner;
      const Operand shape(0, {info.type, to_indices(info.sizes)});
      return choose(shape.inside(read.position), inner, constant(scalar(info.type), 0));
    }
    if (const auto number = planner_.known_number(value); number && !read.zero_outside) {
      if (scalar(info.type) == Scalar::kReal) return real(*number);
      const std::int64_t exact = planner_.constant(value).integers()[0];
      return scalar(info.type) == Scalar::kBoolean ? boolean(exact != 0) : integer(exact);
    }
    auto at = std::find(operands.begin(), operands.end(), value);
    if (at == operands.end()) at = operands.insert(at, value);
    const Operand external(static_cast<int>(at - operands.begin()), {info.type, to_indices(info.sizes)});
    return read.zero_outside ? external.padded(read.position) : external(read.position);
  }

  // Batch normalization, in particular: constants by channel on one varying operand of the same sizes.
  std::optional<ChannelAffine> affine_of(int n) const {
    const Node& node = *planner_.graph().nodes()[n];
    if (!shorten_ || node.inputs.size() < 4 || planner_.info(node.outputs[0]).sizes.size() < 2) return std::nullopt;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == kNoValue || (i > 0) != static_cast<bool>(planner_.constant(node.inputs[i]))) return std::nullopt;
    if (planner_.info(node.inputs[0]).sizes != planner_.info(node.outputs[0]).sizes) return std::nullopt;
    const Definition definition = planner_.define(node);
    Chain chain;
    chain.start = node.inputs[0];
    chain.nodes = {n};
    chain.result = node.outputs[0];
    chain.element = definition.outputs()[0].element;
    chain.position = definition.outputs()[0].position;
    chain.operands = node.inputs;
    return match_channel_affine(planner_, chain, 1);
  }

  Element shortened(int n, const Indices& position, const ChannelAffine& affine) {
    const Node& node = *planner_.graph().nodes()[n];
    const DataType type = planner_.info(node.outputs[0]).type;
    const Operand x(0, {type, to_indices(planner_.info(node.inputs[0]).sizes)});
    const auto by_channel = [&](const std::vector<double>& values) {
      const Sizes sizes{static_cast<std::int64_t>(values.size())};
      operands.push_back(planner_.add_constant_value(Tensor::from_reals(type, sizes, values)));
      return Operand(static_cast<int>(operands.size()) - 1, {type, to_indices(sizes)})({position[1]});
    };
    const Element start = operand(node, *x(position));
    const Element scale = by_channel(affine.scale);
    return start * scale + by_channel(affine.shift);
  }

  Planner& planner_;
  const std::vector<std::int32_t>& producers_;
  std::set<int> nodes_;
  bool shorten_ = false, started_ = false;
  std::vector<std::pair<std::pair<int, Indices>, Element>> done_;
};

}  // namespace

Grouping::Grouping(Planner& planner)
    : planner_(planner),
      graph_(planner.graph_),
      producers_(graph_.producers()),
      users_(graph_.value_count()),
      is_output_(graph_.value_count()),
      group_of_(graph_.nodes().size(), -1) {
  for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
    if (!planner.needed_[n]) continue;
    const std::set<ValueId> inputs(graph_.nodes()[n]->inputs.begin(), graph_.nodes()[n]->inputs.end());
    for (const ValueId i : inputs)
      if (i != kNoValue) users_[i].push_back(static_cast<std::int32_t>(n));
  }
  for (const GraphOutput& o : graph_.outputs()) is_output_[o.value] = true;
}

std::vector<Planner::Group> Grouping::make() {
  take_kernels();
  group_elementwise();
  std::sort(groups_.begin(), groups_.end(),
            [](const Planner::Group& a, const Planner::Group& b) { return a.nodes.back() < b.nodes.back(); });
  return std::move(groups_);
}

bool Grouping::is_tiled(int n) const {
  const Node& node = *graph_.nodes()[n];
  if (!planner_.needed_[n] || group_of_[n] >= 0 || node.op == nullptr) return false;
  for (std::size_t o = 1; o < node.outputs.size(); ++o)
    if (node.outputs[o] != kNoValue && (is_output_[node.outputs[o]] || !users_[node.outputs[o]].empty())) return false;
  return true;
}

// Reduces, and has one result.
bool Grouping::is_row_function_candidate(int n) const {
  if (!is_tiled(n)) return false;
  const Definition definition = planner_.define(*graph_.nodes()[n]);
  return definition.has_denotation() && has_reduction(definition.outputs()[0].element);
}

void Grouping::take_kernels() {
  for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
    const Node& node = *graph_.nodes()[n];
    if (!planner_.needed_[n] || group_of_[n] >= 0) continue;
    const auto add_group = [&]() -> Planner::Group& {
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
    const auto maker = kernel_table().find(node.op->name());
    if (maker != kernel_table().end() || is_row_function_candidate(static_cast<int>(n))) {
      if (auto plan = maker != kernel_table().end() ? maker->second(planner_, node) : plan_row_function(planner_, node)) {
        Planner::Group& group = add_group();
        group.plan = std::move(plan);
        take_chains(static_cast<int>(n), group);
        take_rows(group);
        planner_.stored_[group.result] = true;
        continue;
      }
    }
    if (!is_tiled(static_cast<int>(n)) || node.inputs.empty() || node.inputs[0] == kNoValue || is_output_[node.outputs[0]])
      continue;
    const Definition definition = planner_.define(node);
    if (!definition.has_denotation()) continue;
    const Output& output = definition.outputs()[0];
    if (planner_.info(node.inputs[0]).type == output.type.type &&
        keeps_order(output.element, output.position, values(output.type.shape), planner_.info(node.inputs[0]).sizes))
      add_group().view = true;
  }
}

void Grouping::take_chains(int, Planner::Group& group) {
  std::size_t at_least = 0;
  while (at_least < kMaxChain) {
    const auto chain = chain_after(group.result, at_least);
    if (!chain) return;
    if (!group.plan->absorb(planner_, *chain)) {
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

int Grouping::only_user(ValueId value) const {
  return is_output_[value] || users_[value].size() != 1 ? -1 : users_[value][0];
}

void Grouping::join(Planner::Group& group, int node) {
  group_of_[node] = group_of_[group.nodes[0]];
  group.nodes.push_back(node);
  std::sort(group.nodes.begin(), group.nodes.end());
  group.result = graph_.nodes()[node]->outputs[0];
}

// A function of rows and the product of its result, and a node that moves what comes out.
void Grouping::take_rows(Planner::Group& group) {
  const int rows = only_user(group.result);
  if (rows >= 0 && is_tiled(rows)) {
    const Node& node = *graph_.nodes()[rows];
    const int next = only_user(node.outputs[0]);
    if (next >= 0 && group_of_[next] < 0 && graph_.nodes()[next]->op != nullptr) {
      const Node& user = *graph_.nodes()[next];
      const auto maker = kernel_table().find(user.op->name());
      const auto plan = maker == kernel_table().end() ? nullptr : maker->second(planner_, user);
      if (plan && group.plan->absorb_rows(planner_, node, *plan)) {
        join(group, rows);
        join(group, next);
      }
    }
  }
  const int move = only_user(group.result);
  if (move < 0 || !is_tiled(move) || !planner_.define(*graph_.nodes()[move]).has_denotation()) return;
  if (group.plan->absorb_move(planner_, *graph_.nodes()[move])) join(group, move);
}

std::optional<Chain> Grouping::chain_after(ValueId start, std::size_t at_least) const {
  if (is_output_[start]) return std::nullopt;
  const Sizes sizes = planner_.info(start).sizes;
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
    const auto maker = kernel_table().find(node.op->name());
    const Value& result = graph_.value(node.outputs[0]);
    if (maker != kernel_table().end() || !result.shape_known || planner_.info(node.outputs[0]).sizes != sizes)
      return std::nullopt;
    if (planner_.info(node.outputs[0]).type != planner_.info(start).type) return std::nullopt;
    const Definition definition = planner_.define(node);
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
    if (open == 1 && escaping == node.outputs[0] && nodes.size() > at_least) {
      std::sort(nodes.begin(), nodes.end());
      return compose(start, nodes);
    }
    if (is_output_[node.outputs[0]]) return std::nullopt;
  }
  return std::nullopt;
}

Chain Grouping::compose(ValueId start, const std::vector<int>& nodes) const {
  Chain chain;
  chain.start = start;
  chain.nodes = nodes;
  chain.result = graph_.nodes()[nodes.back()]->outputs[0];
  for (std::size_t a = 0; a < planner_.info(chain.result).sizes.size(); ++a)
    chain.position.push_back(Index::fresh("i" + std::to_string(a)));
  Composer composer(planner_, producers_, nodes, start, false);
  chain.element = composer.compose(nodes.back(), chain.position);
  chain.operands = std::move(composer.operands);
  return chain;
}

// Is the node's result the same if it is not rounded to its type before it is used in a group that computes `root`?
bool Grouping::keeps_values(int n, int root) const {
  const Node& node = *graph_.nodes()[n];
  const DataType type = planner_.info(node.outputs[0]).type;
  if (type == DataType::kInt64 || type == DataType::kBool) return true;
  if (planner_.define(node).outputs()[0].element->kind == Kind::kRead && planner_.info(node.inputs[0]).type == type)
    return true;
  return (type == DataType::kFloat || type == DataType::kDouble) &&
         type == planner_.info(graph_.nodes()[root]->outputs[0]).type;
}

void Grouping::group_elementwise() {
  struct Facts {
    bool reduces = false;
    double operations = 0;  // of one element
    std::int64_t elements = 0;
  };
  std::map<int, Facts> facts;
  const auto know = [&](int n) -> const Facts& {
    if (const auto found = facts.find(n); found != facts.end()) return found->second;
    Facts f;
    const Definition definition = planner_.define(*graph_.nodes()[n]);
    const Output& output = definition.outputs()[0];
    f.reduces = has_reduction(output.element);
    f.operations = static_cast<double>(operation_count(output.element).constant().value_or(1000));
    f.elements = element_count(values(output.type.shape));
    return facts.emplace(n, f).first->second;
  };
  for (std::size_t r = graph_.nodes().size(); r-- > 0;) {
    const int root = static_cast<int>(r);
    if (!planner_.needed_[root] || group_of_[root] >= 0) continue;
    const int number = static_cast<int>(groups_.size());
    const bool tiled = is_tiled(root) && planner_.define(*graph_.nodes()[root]).has_denotation();
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
        if (v == kNoValue || producers_[v] < 0 || planner_.constant(v)) continue;
        const int p = producers_[v];
        if (members.contains(p) || !is_tiled(p) || is_output_[v]) continue;
        const auto& users = users_[v];
        if (!std::all_of(users.begin(), users.end(), [&](std::int32_t u) { return members.contains(u); })) continue;
        if (!planner_.define(*graph_.nodes()[p]).has_denotation()) continue;
        const Facts& producer = know(p);
        bool worth = keeps_values(p, root);
        for (const std::int32_t u : users) {
          const Facts& consumer = know(u);
          const bool again = consumer.reduces || consumer.elements > producer.elements;
          if (producer.reduces || (again && producer.operations > kCheap)) worth = false;
        }
        if (!worth || operands.size() + graph_.nodes()[p]->inputs.size() > kMaxOperands) continue;
        members.insert(p);
        group_of_[p] = number;
        operands.erase(v);
        for (const ValueId i : graph_.nodes()[p]->inputs)
          if (i != kNoValue) operands.insert(i);
        grown = true;
        break;
      }
    }
    Planner::Group& group = groups_[static_cast<std::size_t>(number)];
    group.nodes.assign(members.begin(), members.end());
    Chain chain;
    chain.nodes = group.nodes;
    chain.result = group.result;
    for (std::size_t a = 0; a < planner_.info(chain.result).sizes.size(); ++a)
      chain.position.push_back(Index::fresh("i" + std::to_string(a)));
    Composer composer(planner_, producers_, group.nodes, kNoValue, true);
    chain.element = composer.compose(root, chain.position);
    chain.operands = std::move(composer.operands);
    group.copy = chain.element->kind == Kind::kRead && !is_output_[group.result] &&
                 planner_.info(chain.operands[0]).type == planner_.info(group.result).type;
    group.chain = std::move(chain);
  }
}

}  // namespace rewright::cpu
