#include "optimizer/raising/raise.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "graph/onnx/import/add_call.h"
#include "graph/onnx/kept_calls.h"

namespace rewright::optimizer {

namespace {

// A number, what the rule's variable was bound to, or the product of two real variables.
AttributeValue value_of(const std::string& text, const Bindings& bindings) {
  if (const std::size_t times = text.find('*'); times != std::string::npos) {
    const auto factor = [&](const std::string& name) { return std::get<Real>(value_of(name, bindings)).value; };
    return Real(factor(text.substr(0, times)) * factor(text.substr(times + 1)));
  }
  if (const auto found = bindings.values().find(text); found != bindings.values().end()) return found->second;
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc() && end == text.data() + text.size()) return Index(whole);
  return Real(std::stod(text));
}

// An input of the call: of the rule, expanded where its target does that.
ValueId input_of(Graph& graph, const std::string& name, const Rule& rule, const Match& match) {
  std::uint32_t number = 0;
  while (number < rule.inputs.size() && rule.inputs[number].name != name) ++number;
  if (number == rule.inputs.size()) return kNoValue;
  for (const PatternNode& node : rule.target.nodes)
    if (node.op->name() == "Expand" && node.inputs[0] == PatternValue::input(number)) {
      Attributes attributes;
      for (const Expression& expression : node.attributes) attributes.push_back(match.bindings->evaluate(expression));
      return graph.add_node(*node.op, std::move(attributes), {match.inputs[number]}).at(0);
    }
  return match.inputs[number];
}

// The number that a node of numbers computes.
Tensor number_of(const Graph& graph, const PatternNode& pattern, Attributes attributes, const std::vector<ValueId>& inputs) {
  Graph alone;
  std::vector<ValueId> operands;
  std::vector<Tensor> values;
  for (const ValueId id : inputs) {
    operands.push_back(alone.add_input("x" + std::to_string(operands.size()), graph.value(id).type));
    values.push_back(graph.value(id).constant);
  }
  alone.add_output("y", alone.add_node(*pattern.op, std::move(attributes), std::move(operands)).at(0));
  return interpret(alone, values).at(0);
}

// The values of the rule's target, added to a graph. Numbers are constants, as in bodies.
std::vector<ValueId> add_target(Graph& graph, const Rule& rule, const Match& match) {
  std::vector<std::vector<ValueId>> made;
  const auto resolve = [&](const PatternValue& value) {
    if (value.kind == PatternValue::Kind::kAbsent) return kNoValue;
    return value.kind == PatternValue::Kind::kInput ? match.inputs[value.number] : made[value.number].at(value.output);
  };
  for (const PatternNode& pattern : rule.target.nodes) {
    Attributes attributes;
    for (const Expression& expression : pattern.attributes) attributes.push_back(match.bindings->evaluate(expression));
    std::vector<ValueId> inputs;
    for (const PatternValue& input : pattern.inputs) inputs.push_back(resolve(input));
    made.push_back(graph.add_node(*pattern.op, attributes, inputs));
    const auto is_number = [&](ValueId id) { return graph.is_constant(id) && graph.value(id).type.shape.empty(); };
    if (!std::all_of(inputs.begin(), inputs.end(), is_number) || !graph.value(made.back()[0]).type.shape.empty()) continue;
    graph.drop_nodes_from(graph.nodes().size() - 1);
    made.back() = {graph.add_constant(number_of(graph, pattern, std::move(attributes), inputs))};
  }
  std::vector<ValueId> results;
  for (const PatternValue& output : rule.target.outputs) results.push_back(resolve(output));
  return results;
}

// Removes matched nodes that nothing reads any more: tidying would merge the call's nodes into them.
void drop_unread(Graph& graph, const Match& match) {
  std::set<std::size_t> matched;
  for (const std::int64_t at : match.where)
    if (at >= 0) matched.insert(static_cast<std::size_t>(at));
  std::vector<int> readers(graph.value_count());
  const auto count = [&](const Node& node, int by) {
    for (const auto* ids : {&node.inputs, &node.parameters})
      for (const ValueId id : *ids)
        if (id != kNoValue) readers[id] += by;
  };
  for (const auto& node : graph.nodes()) count(*node, 1);
  for (const GraphOutput& output : graph.outputs()) ++readers[output.value];
  std::set<std::size_t> dropped;
  for (auto at = matched.rbegin(); at != matched.rend(); ++at) {
    const Node& node = *graph.nodes()[*at];
    if (std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return id != kNoValue && readers[id] > 0; }))
      continue;
    count(node, -1);
    dropped.insert(*at);
  }
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  graph.drop_nodes_from(0);
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (!dropped.contains(n)) graph.add_shared(nodes[n]);
}

// Is a matched node part of a call's body?
bool is_in_call(const Graph& graph, const Match& match) {
  return std::any_of(match.where.begin(), match.where.end(), [&](std::int64_t at) {
    return at >= 0 && graph.nodes()[static_cast<std::size_t>(at)]->expansion != nullptr;
  });
}

std::optional<Graph> raised_at(const Graph& graph, const Raising& raising, const Match& match) {
  const Rule& rule = raising.rule;
  Graph result = graph;
  ContribCall call{raising.type, {}, {}, *std::max_element(raising.outputs.begin(), raising.outputs.end()) + 1};
  std::optional<std::vector<ValueId>> found;
  Graph both;
  std::vector<ValueId> expected;
  try {
    for (const auto& [name, value] : raising.attributes) call.attributes.emplace_back(name, value_of(value, *match.bindings));
    for (const std::string& input : raising.inputs) call.inputs.push_back(input_of(result, input, rule, match));
    while (!call.inputs.empty() && call.inputs.back() == kNoValue) call.inputs.pop_back();
    found = add_call(result, call);
    if (!found) return std::nullopt;
    both = result;  // is the call what the rule's target says?
    expected = add_target(both, rule, match);
  } catch (const Error&) {
    return std::nullopt;  // ill-typed for these sizes
  }
  const std::vector<std::uint64_t> hashes = both.value_hashes();
  std::vector<std::pair<ValueId, ValueId>> replacements;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ValueId to = found->at(raising.outputs[i]);
    const PatternValue& output = rule.source.outputs[i];
    const std::int64_t where = match.where[output.number];
    if (to == kNoValue || where < 0 || hashes[to] != hashes[expected[i]]) return std::nullopt;
    const ValueId from = graph.nodes()[static_cast<std::size_t>(where)]->outputs[output.output];
    if (from == kNoValue) continue;
    if (result.value(from).type != result.value(to).type) return std::nullopt;
    replacements.emplace_back(from, to);
  }
  result.replace_uses(replacements);
  drop_unread(result, match);
  if (!try_tidy_around_calls(result)) return std::nullopt;
  return result;
}

}  // namespace

std::vector<Raising> raisings_of(std::span<const std::string> types) {
  std::vector<Raising> result;
  for (const Raising& raising : raisings())
    if (raising.type.empty() || std::find(types.begin(), types.end(), raising.type) != types.end()) result.push_back(raising);
  return result;
}

Raised raised(const Graph& graph, std::span<const Raising> rules, const MatchOptions& options) {
  Raised result{graph, {}};
  for (const Raising& raising : rules) {
    Rule rule = raising.rule;
    rule.proof.status = RuleStatus::kProved;  // by a test (verifier/raising_test.cc)
    const RuleIndex index({std::move(rule)}, options);
    if (index.rules().empty()) continue;  // the options leave it out
    for (bool again = true; again;) {
      again = false;
      Matcher matcher(index);
      for (const Match& match : matcher.find(MatchedGraph(result.graph, options.for_training))) {
        if (is_in_call(result.graph, match)) continue;
        std::optional<Graph> next =
            raising.type.empty() ? apply(result.graph, raising.rule, match) : raised_at(result.graph, raising, match);
        if (!next) continue;
        result.graph = std::move(*next);
        if (!raising.type.empty()) ++result.calls[raising.type];
        again = true;  // positions have changed
        break;
      }
    }
  }
  return result;
}

}  // namespace rewright::optimizer
