#include "optimizer/matching/match.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>

#include "base/hash_mix.h"
#include "optimizer/matching/rule_binding.h"

namespace rewright::optimizer {

namespace {

// The node of the pattern that is matched first.
std::uint32_t root_of(const Rule& rule) { return rule.source.outputs.at(0).number; }

constexpr std::int64_t kUnmatched = INT64_MIN;

// One attempt to match a rule's source from a root on: nodes are matched downwards along inputs; a second root is found upwards
// from a value that is already bound.
class Walk {
 public:
  using Found = std::function<void(const Walk&)>;

  struct State {
    std::vector<std::int64_t> where;
    std::vector<ValueId> inputs;
    std::vector<bool> bound;  // of inputs
    std::uint64_t swapped = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pending;  // pattern node and input that are still to be compared
  };

  // A pool of states: searches create so many that allocation would dominate.
  class States {
   public:
    State& take() {
      if (used_ == states_.size()) states_.emplace_back();
      return states_[used_++];
    }
    State& copy(const State& state) { return take() = state; }
    void give_back() { --used_; }

   private:
    std::deque<State> states_;
    std::size_t used_ = 0;
  };

  Walk(const MatchedGraph& graph, const Rule& rule, Creations& creations, const Found& found, States& states)
      : graph_(graph), rule_(rule), creations_(creations), found_(found), states_(states) {}

  // Could the first root match there?
  bool may_start(std::int64_t position) const { return plausible(root_of(rule_), position); }

  void start(std::int64_t position) {
    State& state = states_.take();
    state.where.assign(rule_.source.nodes.size(), kUnmatched);
    state.inputs.assign(rule_.inputs.size(), kNoValue);
    state.bound.assign(rule_.inputs.size(), false);
    state.swapped = 0;
    state.pending.clear();
    place(state, root_of(rule_), position);
    states_.give_back();
  }

  const State& result() const { return *result_; }

 private:
  const Node& node(std::int64_t position) const { return *graph_.graph->nodes()[static_cast<std::size_t>(position)]; }

  // Could pattern node `p` match here, judging by this node and its operands' operators? Decides most cases cheaply.
  bool plausible(std::uint32_t p, std::int64_t position) const {
    const PatternNode& pattern = rule_.source.nodes[p];
    const Node& target = node(position);
    // Outputs that the pattern does not name must not be used (`closed`).
    if (target.op != pattern.op || target.outputs.size() < pattern.outputs || target.inputs.size() < pattern.inputs.size())
      return false;
    for (std::size_t i = pattern.inputs.size(); i < target.inputs.size(); ++i)
      if (target.inputs[i] != kNoValue) return false;
    const auto fits = [&](const PatternValue& wanted, ValueId value) {
      if (wanted.kind == PatternValue::Kind::kAbsent) return value == kNoValue;
      if (value == kNoValue) return false;
      if (wanted.kind == PatternValue::Kind::kInput) return !rule_.inputs[wanted.number].constant || graph_.constant[value];
      const std::int32_t producer = graph_.producers[value];
      return producer < 0 ? graph_.graph->is_constant(value) : node(producer).op == rule_.source.nodes[wanted.number].op;
    };
    const auto all_fit = [&](bool exchanged) {
      for (std::size_t i = 0; i < pattern.inputs.size(); ++i)
        if (!fits(pattern.inputs[i], target.inputs[exchanged && i < 2 ? 1 - i : i])) return false;
      return true;
    };
    return all_fit(false) || (pattern.op->commutative() && pattern.inputs.size() >= 2 && all_fit(true));
  }

  // Matches pattern node `p` with a node and continues, in both orders for a commutative operator. Consumes the state.
  void place(State& state, std::uint32_t p, std::int64_t position) {
    if (!plausible(p, position)) return;
    const PatternNode& pattern = rule_.source.nodes[p];
    const Node& target = node(position);
    if (std::find(state.where.begin(), state.where.end(), position) != state.where.end()) return;
    state.where[p] = position;
    for (std::uint32_t i = 0; i < pattern.inputs.size(); ++i) state.pending.emplace_back(p, i);
    const bool both = pattern.op->commutative() && pattern.inputs.size() >= 2 && target.inputs[0] != target.inputs[1];
    if (both) {
      State& exchanged = states_.copy(state);
      exchanged.swapped |= std::uint64_t{1} << p;
      go_on(state);
      go_on(exchanged);
      states_.give_back();
    } else {
      go_on(state);
    }
  }

  void go_on(State& state) {
    while (!state.pending.empty()) {
      const auto [p, i] = state.pending.back();
      state.pending.pop_back();
      const PatternValue& wanted = rule_.source.nodes[p].inputs[i];
      const std::uint32_t from = ((state.swapped >> p) & 1) && i < 2 ? 1 - i : i;
      const ValueId value = node(state.where[p]).inputs[from];
      switch (wanted.kind) {
        case PatternValue::Kind::kAbsent:
          if (value != kNoValue) return;
          break;
        case PatternValue::Kind::kInput:
          if (!take_input(state, wanted.number, value)) return;
          break;
        case PatternValue::Kind::kNode: {
          if (value == kNoValue) return;
          if (const std::int64_t known = state.where[wanted.number]; known != kUnmatched) {
            if (value != value_of(state, wanted)) return;
            break;
          }
          const std::int32_t producer = graph_.producers[value];
          if (producer < 0) {
            if (!take_constant(state, wanted, value)) return;
            break;
          }
          if (node(producer).outputs.size() <= wanted.output || node(producer).outputs[wanted.output] != value) return;
          return place(state, wanted.number, producer);
        }
      }
    }
    climb(state);
  }

  bool take_input(State& state, std::uint32_t number, ValueId value) {
    if (value == kNoValue) return false;
    if (state.bound[number]) return state.inputs[number] == value;
    if (rule_.inputs[number].constant && !graph_.constant[value]) return false;
    state.bound[number] = true;
    state.inputs[number] = value;
    return true;
  }

  // An operator without inputs in the pattern also matches a constant leaf that it would create.
  bool take_constant(State& state, const PatternValue& wanted, ValueId value) {
    const PatternNode& pattern = rule_.source.nodes[wanted.number];
    if (!graph_.graph->is_constant(value) || !creations_.attributes(*pattern.op, graph_.graph->value(value).constant))
      return false;
    state.where[wanted.number] = -1 - static_cast<std::int64_t>(value);
    return true;
  }

  ValueId value_of(const State& state, const PatternValue& value) const {
    if (value.kind == PatternValue::Kind::kInput) return state.bound[value.number] ? state.inputs[value.number] : kNoValue;
    if (value.kind == PatternValue::Kind::kAbsent) return kNoValue;
    const std::int64_t where = state.where[value.number];
    if (where == kUnmatched) return kNoValue;
    if (where < 0) return static_cast<ValueId>(-1 - where);
    const std::vector<ValueId>& outputs = node(where).outputs;
    return value.output < outputs.size() ? outputs[value.output] : kNoValue;
  }

  // Everything below the roots found so far is matched. If nodes are left, one of them uses a bound value (or may be anywhere,
  // if the parts share nothing).
  void climb(const State& state) {
    std::optional<std::uint32_t> left;
    for (std::uint32_t p = 0; p < state.where.size(); ++p) {
      if (state.where[p] != kUnmatched) continue;
      if (!left) left = p;
      for (std::uint32_t i = 0; i < rule_.source.nodes[p].inputs.size(); ++i) {
        const ValueId value = value_of(state, rule_.source.nodes[p].inputs[i]);
        if (value == kNoValue) continue;
        for (const std::int32_t user : graph_.users(value)) place_copy(state, p, user);
        return;
      }
    }
    if (left) {
      for (std::int64_t position = 0; position < static_cast<std::int64_t>(graph_.graph->nodes().size()); ++position)
        place_copy(state, *left, position);
      return;
    }
    if (!closed(state)) return;
    result_ = &state;
    found_(*this);
  }

  void place_copy(const State& state, std::uint32_t p, std::int64_t position) {
    if (!plausible(p, position)) return;
    place(states_.copy(state), p, position);
    states_.give_back();
  }

  // No node outside uses a value that the rewrite removes, unless it is computed from constants.
  bool closed(const State& state) const {
    for (std::uint32_t p = 0; p < state.where.size(); ++p) {
      if (state.where[p] < 0) continue;
      const Node& matched = node(state.where[p]);
      for (std::uint32_t o = 0; o < matched.outputs.size(); ++o) {
        const ValueId value = matched.outputs[o];
        if (value == kNoValue || graph_.constant[value]) continue;
        if (std::find(rule_.source.outputs.begin(), rule_.source.outputs.end(), PatternValue::node(p, o)) !=
            rule_.source.outputs.end())
          continue;
        if (graph_.is_output[value]) return false;
        for (const std::int32_t user : graph_.users(value))
          if (std::find(state.where.begin(), state.where.end(), user) == state.where.end()) return false;
      }
    }
    return true;
  }

  const MatchedGraph& graph_;
  const Rule& rule_;
  Creations& creations_;
  const Found& found_;
  States& states_;
  const State* result_ = nullptr;
};

std::shared_ptr<const Bindings> bind(const Graph& graph, const Rule& rule, const Walk::State& state, Creations& creations) {
  std::vector<const TensorType*> inputs;
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
    if (!state.bound[i]) return nullptr;
    const Value& value = graph.value(state.inputs[i]);
    if (!value.shape_known || value.type.type == DataType::kUndefined) return nullptr;
    inputs.push_back(&value.type);
  }
  std::vector<const Attributes*> attributes;
  for (std::size_t p = 0; p < rule.source.nodes.size(); ++p) {
    const std::int64_t where = state.where[p];
    if (where < 0) {
      const Tensor& constant = graph.value(static_cast<ValueId>(-1 - where)).constant;
      attributes.push_back(creations.attributes(*rule.source.nodes[p].op, constant));
      continue;
    }
    const Node& node = *graph.nodes()[static_cast<std::size_t>(where)];
    for (const ValueId output : node.outputs)
      if (output != kNoValue && is_empty(graph.value(output).type)) return nullptr;
    attributes.push_back(&node.attributes);
  }
  return bind_rule(rule, inputs, attributes);
}

}  // namespace

// A cache from a rule and the nodes it matches to its bindings, or to failure. The nodes are kept alive, so that their
// addresses are not reused.
struct Matcher::Memory {
  struct Key {
    std::uint32_t rule;
    std::uint64_t swapped;
    std::vector<const void*> nodes;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      std::uint64_t h = hash_mix(key.rule, key.swapped);
      for (const void* node : key.nodes) h = hash_mix(h, reinterpret_cast<std::uintptr_t>(node));
      return h;
    }
  };
  std::unordered_map<Key, std::shared_ptr<const Bindings>, KeyHash> bindings;  // null: no match
  std::unordered_map<const Node*, std::shared_ptr<const Node>> alive;
  std::unordered_map<const Node*, std::vector<std::uint32_t>> starts;  // rules whose first root may match there
  Creations creations;
  Walk::States states;
};

Matcher::Matcher(const RuleIndex& index) : index_(&index), memory_(std::make_unique<Memory>()) {}
Matcher::~Matcher() = default;
void Matcher::clear() { *memory_ = Memory(); }

namespace {

template <class Remember>
std::optional<Match> to_match(const MatchedGraph& graph, const Rule& rule, std::uint32_t number, const Walk::State& state,
                              const Remember& remember) {
  // A rewrite among constants gains nothing, since they are evaluated once anyway.
  bool all_constant = true;
  for (const PatternValue& output : rule.source.outputs) {
    const std::int64_t where = state.where[output.number];
    if (where < 0) continue;
    const ValueId value = graph.graph->nodes()[static_cast<std::size_t>(where)]->outputs[output.output];
    if (value != kNoValue && !graph.constant[value]) all_constant = false;
  }
  if (all_constant) return std::nullopt;
  std::shared_ptr<const Bindings> bindings = remember(state);
  if (!bindings) return std::nullopt;
  return Match{number, state.where, state.swapped, state.inputs, std::move(bindings)};
}

}  // namespace

// A node's operands have the same operators and constness in all graphs that share the node.
std::span<const std::uint32_t> Matcher::starts_at(const MatchedGraph& graph, std::size_t position) {
  const std::shared_ptr<const Node>& node = graph.graph->nodes()[position];
  const auto [entry, added] = memory_->starts.try_emplace(node.get());
  if (!added) return entry->second;
  memory_->alive.emplace(node.get(), node);
  if (!node->op) return entry->second;
  for (const std::uint32_t number : index_->rooted_at(node->op))
    if (Walk(graph, index_->rules()[number], memory_->creations, {}, memory_->states)
            .may_start(static_cast<std::int64_t>(position)))
      entry->second.push_back(number);
  return entry->second;
}

std::vector<Match> Matcher::find(const MatchedGraph& graph) {
  std::vector<Match> matches;
  const auto nodes = graph.graph->nodes();
  for (std::size_t position = 0; position < nodes.size(); ++position) {
    for (const std::uint32_t number : starts_at(graph, position)) {
      const Rule& rule = index_->rules()[number];
      const auto remember = [&](const Walk::State& state) {
        Memory::Key key{number, state.swapped, {}};
        for (const std::int64_t where : state.where) {
          const void* address =
              where < 0 ? static_cast<const void*>(graph.graph->value(static_cast<ValueId>(-1 - where)).constant.bytes().data())
                        : nodes[static_cast<std::size_t>(where)].get();
          key.nodes.push_back(address);
        }
        const auto known = memory_->bindings.find(key);
        if (known != memory_->bindings.end()) return known->second;
        for (const std::int64_t where : state.where)
          if (where >= 0)
            memory_->alive.emplace(nodes[static_cast<std::size_t>(where)].get(), nodes[static_cast<std::size_t>(where)]);
        return memory_->bindings.emplace(std::move(key), bind(*graph.graph, rule, state, memory_->creations)).first->second;
      };
      const Walk::Found found = [&](const Walk& walk) {
        if (auto match = to_match(graph, rule, number, walk.result(), remember)) matches.push_back(std::move(*match));
      };
      Walk(graph, rule, memory_->creations, found, memory_->states).start(static_cast<std::int64_t>(position));
    }
  }
  return matches;
}

std::optional<Match> Matcher::find_at(const MatchedGraph& graph, std::uint32_t number, std::span<const std::int64_t> where,
                                      std::uint64_t swapped) {
  const Rule& rule = index_->rules()[number];
  if (where.size() != rule.source.nodes.size()) return std::nullopt;
  const std::int64_t position = where[root_of(rule)];
  if (position < 0 || position >= static_cast<std::int64_t>(graph.graph->nodes().size())) return std::nullopt;
  std::optional<Match> match;
  const Walk::Found found = [&](const Walk& walk) {
    const Walk::State& state = walk.result();
    if (match || state.swapped != swapped || !std::equal(where.begin(), where.end(), state.where.begin())) return;
    match = to_match(graph, rule, number, state,
                     [&](const Walk::State& s) { return bind(*graph.graph, rule, s, memory_->creations); });
  };
  Walk(graph, rule, memory_->creations, found, memory_->states).start(position);
  return match;
}

std::optional<Graph> apply(const Graph& graph, const Rule& rule, const Match& match) {
  Graph result = graph;
  std::vector<std::vector<ValueId>> made(rule.target.nodes.size());
  const auto resolve = [&](const PatternValue& value) {
    switch (value.kind) {
      case PatternValue::Kind::kInput:
        return match.inputs[value.number];
      case PatternValue::Kind::kNode:
        return made[value.number].at(value.output);
      case PatternValue::Kind::kAbsent:
        break;
    }
    return kNoValue;
  };
  try {
    for (std::size_t n = 0; n < rule.target.nodes.size(); ++n) {
      const PatternNode& pattern = rule.target.nodes[n];
      Attributes attributes;
      for (const Expression& expression : pattern.attributes) attributes.push_back(match.bindings->evaluate(expression));
      std::vector<ValueId> inputs;
      for (const PatternValue& input : pattern.inputs) inputs.push_back(resolve(input));
      made[n] = result.add_node(*pattern.op, std::move(attributes), std::move(inputs));
      if (made[n].size() < pattern.outputs) return std::nullopt;
    }
  } catch (const Error&) {
    return std::nullopt;  // ill-typed for these sizes
  }
  std::vector<std::pair<ValueId, ValueId>> replacements;
  for (std::size_t i = 0; i < rule.source.outputs.size(); ++i) {
    const PatternValue& output = rule.source.outputs[i];
    const std::int64_t where = match.where[output.number];
    if (where < 0) return std::nullopt;
    const ValueId from = graph.nodes()[static_cast<std::size_t>(where)]->outputs[output.output];
    const ValueId to = resolve(rule.target.outputs[i]);
    if (from == kNoValue || to == kNoValue) continue;
    const Value &before = result.value(from), &after = result.value(to);
    if (!after.shape_known || before.type != after.type) return std::nullopt;
    if (from != to) replacements.emplace_back(from, to);
  }
  result.replace_uses(replacements);
  if (!result.try_tidy()) return std::nullopt;
  return result;
}

}  // namespace rewright::optimizer
