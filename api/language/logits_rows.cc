#include "api/language/logits_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "expressions/free_variables.h"

namespace rewright::api {

namespace {

constexpr std::size_t kPlaceAxis = 1;

// Is the place used only to read the operand at this place? Then the element depends on that place of the operand alone.
bool stays_at_place(const Element& e, int operand, const Index& place) {
  bool stays = true;
  for_each_index(*e, [&](const Index& index) {
    const bool is_read = e->kind == ElementNode::Kind::kRead && e->operand == operand && &index == &e->position[kPlaceAxis];
    if (is_read) {
      stays = stays && index == place;
      return;
    }
    for_each_atom(index, [&](const Atom& atom) {
      stays = stays && atom.kind != Atom::Kind::kLoad && !(atom.kind == Atom::Kind::kBound && atom.id == place.as_atom()->id);
    });
  });
  return stays && std::all_of(e->arguments.begin(), e->arguments.end(),
                              [&](const Element& argument) { return stays_at_place(argument, operand, place); });
}

// The input of rank 3 whose place alone decides the node's elements at a place, while all other inputs are constants. The node
// must also make sense for a single place, with the same attributes.
std::optional<std::size_t> input_by_place(const Graph& graph, const std::vector<bool>& constant, const Node& node) {
  if (!node.op || node.outputs.size() != 1) return std::nullopt;
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const Value& value = graph.value(node.inputs[i]);
    if (!value.shape_known) return std::nullopt;
    if (constant[node.inputs[i]]) continue;
    if (found || value.type.rank() != 3) return std::nullopt;
    found = i;
  }
  const Value& result = graph.value(node.outputs[0]);
  if (!found || !result.shape_known || result.type.rank() != 3) return std::nullopt;
  std::vector<std::optional<TensorType>> types = graph.operand_types(node);
  const auto defined = [&] { return node.op->define(node.attributes, Inputs::of(types)); };
  const Definition all = defined();
  if (!all.has_denotation()) return std::nullopt;
  const Output& output = all.outputs()[0];
  if (!stays_at_place(output.element, static_cast<int>(*found), output.position[kPlaceAxis])) return std::nullopt;
  TensorType single = result.type;
  single.shape[kPlaceAxis] = types[*found]->shape[kPlaceAxis] = 1;
  try {
    return defined().outputs()[0].type == single ? found : std::nullopt;
  } catch (const Error&) {  // its attributes are about all places
    return std::nullopt;
  }
}

using NodeInput = std::pair<std::int32_t, std::size_t>;  // a node's position, and one of its inputs

bool in_one_call(const Node& a, const Node& b) { return a.expansion != nullptr && a.expansion == b.expansion; }

// Removes those of the nodes, the last first, whose results nothing reads. The last nodes of the graph, in reversed order, were
// made from them; they take the removed nodes' places in the calls of functions, so that these stay whole.
void drop_unread(Graph& graph, const std::vector<NodeInput>& candidates) {
  const std::vector<std::vector<std::int32_t>> users = graph.users();
  std::set<std::int32_t> unread;
  std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const std::int32_t n = candidates[c].first;
    const ValueId result = nodes[n]->outputs[0];
    const bool is_output =
        std::any_of(graph.outputs().begin(), graph.outputs().end(), [&](const GraphOutput& o) { return o.value == result; });
    if (is_output || !std::all_of(users[result].begin(), users[result].end(), [&](auto user) { return unread.contains(user); }))
      continue;
    unread.insert(n);
    std::shared_ptr<const Node>& made = nodes[nodes.size() - 1 - c];
    Node member = *made;
    member.parameters = nodes[n]->parameters;
    member.expansion = nodes[n]->expansion, member.expansion_member = nodes[n]->expansion_member;
    made = std::make_shared<const Node>(std::move(member));
  }
  graph.drop_nodes_from(0);
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (!unread.contains(static_cast<std::int32_t>(n))) graph.add_shared(std::move(nodes[n]));
}

}  // namespace

Graph with_selected_logits(Graph graph, const std::string& logits) {
  std::vector<GraphOutput> outputs(graph.outputs().begin(), graph.outputs().end());
  const auto output = std::find_if(outputs.begin(), outputs.end(), [&](const GraphOutput& o) { return o.name == logits; });
  if (output == outputs.end()) throw Error(ErrorCode::kBadInput, "the model has no output \"" + logits + "\"");
  if (!graph.value(output->value).shape_known || graph.value(output->value).type.rank() != 3)
    throw Error(ErrorCode::kBadInput, "must have three axes: sequences, tokens, logits", "output \"" + logits + "\"");

  const std::vector<std::int32_t> producers = graph.producers();
  const std::vector<bool> constant = graph.constant_values();
  std::vector<NodeInput> behind;  // nodes, the last first, and the input by place
  ValueId all = output->value;
  while (producers[all] >= 0) {
    const std::optional<std::size_t> input = input_by_place(graph, constant, *graph.nodes()[producers[all]]);
    if (!input) break;
    behind.emplace_back(producers[all], *input);
    all = graph.nodes()[producers[all]]->inputs[*input];
  }
  // Calls of functions are passed as a whole, or not at all.
  while (!behind.empty() && producers[all] >= 0 &&
         in_one_call(*graph.nodes()[producers[all]], *graph.nodes()[behind.back().first])) {
    all = graph.nodes()[behind.back().first]->outputs[0];
    behind.pop_back();
  }

  const ValueId rows = graph.add_input("rewright_rows", {DataType::kInt64, {graph.value(all).type.shape[0], 1, 1}});
  ValueId v = graph.add_node(registry().get("GatherND"), Attributes{Index(1)}, {all, rows}).at(0);
  for (auto at = behind.rbegin(); at != behind.rend(); ++at) {
    const std::shared_ptr<const Node> node = graph.nodes()[at->first];
    std::vector<ValueId> inputs = node->inputs;
    inputs[at->second] = v;
    v = graph.add_node(*node->op, node->attributes, inputs).at(0);
  }
  output->value = v;
  output->type = graph.value(v).type;
  graph.set_outputs(std::move(outputs));
  drop_unread(graph, behind);
  return graph;
}

}  // namespace rewright::api
