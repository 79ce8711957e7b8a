#include "graph/onnx/tree_calls.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/onnx/attributes.h"
#include "graph/onnx/calls.h"
#include "graph/onnx/function.h"
#include "graph/onnx/import/add_call.h"
#include "graph/onnx/kept_calls.h"
#include "graph/onnx/parts.h"
#include "graph/onnx/sink.h"
#include "operators/definitions/row_preparation.h"
#include "operators/definitions/trees.h"

namespace rewright::graph {

namespace {

using operators::Trees;

constexpr std::string_view kTrees = "TreeScores", kLearned = "ai.onnx.ml";

bool is_trees(const std::shared_ptr<const Node>& node) { return node->op != nullptr && node->op->name() == kTrees; }

// The name of votes in the attributes of an operator; null: it is none of trees.
const char* name_of_votes(const onnx::NodeProto& proto) {
  if (canonical_domain(proto.domain()) != kLearned) return nullptr;
  if (proto.op_type() == "TreeEnsembleClassifier") return "class";
  return proto.op_type() == "TreeEnsembleRegressor" ? "target" : nullptr;
}

bool is_of_trees(const std::string& attribute, const std::string& votes) {
  if (attribute.starts_with("nodes_")) return true;
  const std::string rest = attribute.starts_with(votes + "_") ? attribute.substr(votes.size() + 1) : "";
  return rest == "treeids" || rest == "nodeids" || rest == "ids" || rest == "weights" || rest == "weights_as_tensor";
}

// The call with the trees of a node, whose inputs but the first are constants. nullopt if they cannot be written so.
std::optional<onnx::NodeProto> with_trees_of(const Graph& graph, const Node& node, onnx::NodeProto call) {
  const std::string votes = name_of_votes(call);
  std::vector<Tensor> inputs(1);
  for (std::size_t n = 1; n < node.inputs.size(); ++n) {
    const ValueId id = node.inputs[n];
    if (id != kNoValue && !graph.is_constant(id)) return std::nullopt;
    inputs.push_back(id == kNoValue ? Tensor() : graph.value(id).constant);
  }
  const auto width = graph.value(node.inputs[0]).type.shape.at(1).constant();
  const auto columns = std::get<Index>(node.attributes.at(*node.op->field("columns"))).constant(),
             scores = std::get<Index>(node.attributes.at(*node.op->field("scores"))).constant();
  if (!width || !columns || !scores) return std::nullopt;
  const Trees given = Trees::of(inputs);
  given.checked_depths(*columns, *scores);
  const auto preparation = operators::RowPreparation::of(inputs);
  std::optional<operators::UnpreparedTests> tests;
  if (!preparation.is_nothing()) {
    tests = operators::without_preparation(given, inputs[1], preparation, *width);
    if (!tests) return std::nullopt;
  }
  auto named = operators::numbered_trees(tests ? tests->in(given) : given, tests ? tests->splits : inputs[1], inputs[6], votes);
  if (!named) return std::nullopt;
  // Votes for one of two classes are for a single score in the body.
  const std::vector<std::int64_t> ids = PlainAttributes(call).integers(votes + "_ids");
  const bool for_one = votes == "class" && std::set<std::int64_t>(ids.begin(), ids.end()).size() == 1;
  onnx::NodeProto result = call;
  result.clear_attribute();
  for (const onnx::AttributeProto& attribute : call.attribute())
    if (!is_of_trees(attribute.name(), votes)) *result.add_attribute() = attribute;
  for (auto& [name, value] : *named) {
    if (for_one && name == votes + "_ids") value = Indices(std::get<Indices>(value).size(), Index(ids[0]));
    *result.add_attribute() = to_attribute(name, value);
  }
  return result;
}

class TreeCalls {
 public:
  explicit TreeCalls(const Graph& graph) : graph_(graph) {}

  // The graph with one more call; nullopt if there is none to be made.
  std::optional<Graph> next() {
    const std::set<const Expansion*> intact = intact_expansions(graph_);
    for (const auto& node : graph_.nodes()) {
      if (!is_trees(node) || intact.contains(node->expansion.get())) continue;
      const std::vector<bool> behind = values_behind(node->outputs.at(0));
      for (const auto& user : graph_.nodes()) {
        const Expansion* const call = user->expansion.get();
        if (call == nullptr || intact.contains(call) || !reads(*user, behind) || !tried_.emplace(node.get(), call).second)
          continue;
        if (auto made = with_call(*node, *call, behind)) return made;
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<Graph> with_call(const Node& trees, const Expansion& call, const std::vector<bool>& behind) const {
    onnx::NodeProto given;
    if (!given.ParseFromString(call.node_proto) || name_of_votes(given) == nullptr ||
        find_local_function(*graph_.model(), given) != nullptr)
      return std::nullopt;
    const auto proto = with_trees_of(graph_, trees, given);
    if (!proto) return std::nullopt;
    Graph result = graph_;
    const std::size_t before = result.nodes().size();
    const auto is_read = [&](std::size_t k) {
      return k < call.outputs.size() && call.outputs[k].kind != Expansion::Port::Kind::kAbsent;
    };
    const auto made = add_call(result, *proto, {trees.inputs[0]}, is_read);
    if (!made) return std::nullopt;
    const auto nodes = result.nodes().subspan(before);
    const auto scores = std::find_if(nodes.begin(), nodes.end(), is_trees);
    if (scores == nodes.end()) return std::nullopt;
    const ValueId old_scores = trees.outputs.at(0), new_scores = (*scores)->outputs.at(0);
    const auto is_kept = [&](std::string_view field) {
      const std::size_t at = *trees.op->field(field);
      return trees.attributes.at(at) == (*scores)->attributes.at(at);
    };
    if (graph_.value(old_scores).type != result.value(new_scores).type || !is_kept("scores") || !is_kept("aggregate"))
      return std::nullopt;

    // Does the body compute from the new scores what the call does?
    Graph both = result;
    both.replace_uses(old_scores, new_scores);
    const std::vector<std::shared_ptr<const Node>> order(both.nodes().begin(), both.nodes().end());
    both.drop_nodes_from(0);
    for (std::size_t n = 0; n < before; ++n) {
      both.add_shared(order[n]);
      if (order[n]->outputs == trees.outputs)  // the call stands where the trees stood
        for (std::size_t m = before; m < order.size(); ++m) both.add_shared(order[m]);
    }
    // By hashes, not by the members of the call: a rewrite may have made some of them anew.
    const std::vector<std::uint64_t> hashes = both.value_hashes();
    std::vector<std::pair<ValueId, ValueId>> replacements;
    for (const ValueId to : *made) {
      if (to == kNoValue) continue;
      for (ValueId from = 0; from < graph_.value_count(); ++from) {
        const std::uint64_t hash = hashes[from == old_scores ? new_scores : from];
        if (behind[from] && hash == hashes[to] && graph_.value(from).type == result.value(to).type)
          replacements.emplace_back(from, to);
      }
    }
    if (replacements.empty()) return std::nullopt;
    result.replace_uses(replacements);
    drop_unread(result, behind, call);
    const auto is_left = [&](const auto& node) {
      return std::find(node->outputs.begin(), node->outputs.end(), old_scores) != node->outputs.end();
    };
    if (std::any_of(result.nodes().begin(), result.nodes().end(), is_left) || !try_tidy_around_calls(result))
      return std::nullopt;
    return result;
  }

  // By value: does it depend on this one, or is it this one?
  std::vector<bool> values_behind(ValueId value) const {
    std::vector<bool> behind(graph_.value_count());
    behind[value] = true;
    for (const auto& node : graph_.nodes())
      if (reads(*node, behind))
        for (const ValueId id : node->outputs)
          if (id != kNoValue) behind[id] = true;
    return behind;
  }

  static bool reads(const Node& node, const std::vector<bool>& values) {
    const auto is_one = [&](ValueId id) { return id != kNoValue && id < values.size() && values[id]; };
    return std::any_of(node.inputs.begin(), node.inputs.end(), is_one) ||
           std::any_of(node.parameters.begin(), node.parameters.end(), is_one);
  }

  // Removes the trees and the old body, as far as nothing reads them any more.
  static void drop_unread(Graph& graph, const std::vector<bool>& behind, const Expansion& call) {
    std::vector<int> readers(graph.value_count());
    const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
    const auto count = [&](const Node& node, int by) {
      for (const auto* ids : {&node.inputs, &node.parameters})
        for (const ValueId id : *ids)
          if (id != kNoValue) readers[id] += by;
    };
    for (const auto& node : nodes) count(*node, 1);
    for (const GraphOutput& output : graph.outputs()) ++readers[output.value];
    std::vector<bool> dropped(nodes.size());
    for (bool again = true; again;) {  // in whatever order they stand
      again = false;
      for (std::size_t n = nodes.size(); n-- > 0;) {
        const Node& node = *nodes[n];
        const bool is_behind = std::any_of(node.outputs.begin(), node.outputs.end(),
                                           [&](ValueId id) { return id != kNoValue && id < behind.size() && behind[id]; });
        const bool is_old = is_behind || node.expansion.get() == &call;
        if (dropped[n] || !is_old || std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
              return id != kNoValue && readers[id] > 0;
            }))
          continue;
        count(node, -1);
        dropped[n] = again = true;
      }
    }
    graph.drop_nodes_from(0);
    for (std::size_t n = 0; n < nodes.size(); ++n)
      if (!dropped[n]) graph.add_shared(nodes[n]);
  }

  const Graph& graph_;
  std::set<std::pair<const Node*, const Expansion*>> tried_;
};

}  // namespace

bool can_write_other_trees(const Graph& graph) {
  constexpr int kOtherOperator = 5;  // the version from which the domain has TreeEnsemble in place of the two
  if (graph.model()) {
    const auto version = graph.model()->opsets.find(std::string(kLearned));
    if (version != graph.model()->opsets.end() && version->second >= kOtherOperator) return false;
  }
  const auto is_of_floats = [&](ValueId v) { return graph.value(v).type.type == DataType::kFloat; };
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) {
    return !is_trees(node) || (is_of_floats(node->inputs.at(0)) && is_of_floats(node->outputs.at(0)));
  });
}

Graph with_tree_calls(const Graph& graph) {
  Graph result = graph;
  if (!graph.model()) return result;
  // Each ensemble becomes a call once.
  for (auto left = std::count_if(graph.nodes().begin(), graph.nodes().end(), is_trees); left > 0; --left) {
    auto next = TreeCalls(result).next();
    if (!next) break;
    result = std::move(*next);
  }
  return result;
}

}  // namespace rewright::graph
