#include "graph/onnx/kept_calls.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/onnx/function.h"
#include "graph/onnx/parts.h"
#include "graph/sizes.h"
#include "operators/contrib/contrib.h"

namespace rewright::graph {

namespace {

constexpr std::array<std::string_view, 4> kKept{"GroupQueryAttention", "MatMulNBits", "MoE", "QMoE"};

bool is_kept(const Expansion& expansion) {
  onnx::NodeProto proto;
  return proto.ParseFromString(expansion.node_proto) && canonical_domain(proto.domain()) == operators::kContribDomain &&
         std::find(kKept.begin(), kKept.end(), proto.op_type()) != kKept.end();
}

CallGroups kept_groups(const Graph& graph) {
  const bool any = std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const auto& node) {
    return node->expansion != nullptr && node->expansion_member == 0 && is_kept(*node->expansion);
  });
  if (!any) return {};
  CallGroups groups = intact_groups(graph);
  std::erase_if(groups, [](const auto& entry) {
    const std::vector<const Node*>& members = entry.second.members;
    return !is_kept(*entry.first) ||
           std::any_of(members.begin(), members.end(), [](const Node* node) { return node->op == nullptr; });
  });
  return groups;
}

// Calls as opaque nodes, which are never merged, and back again.
class PackedCalls {
 public:
  explicit PackedCalls(Graph& graph) {
    const CallGroups groups = kept_groups(graph);
    if (groups.empty()) return;
    const auto tellers = size_tellers(graph);
    const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
    for (const auto& node : nodes)
      if (groups.contains(node->expansion.get())) calls_[node->expansion.get()].members.push_back(node);
    graph.drop_nodes_from(0);
    std::map<const Expansion*, std::size_t> seen;
    for (const auto& node : nodes) {
      const auto found = calls_.find(node->expansion.get());
      if (found == calls_.end())
        graph.add_shared(node);
      else if (++seen[found->first] == found->second.members.size())
        graph.add_raw(packed(found->second, *groups.at(found->first).call, tellers, nodes));
    }
  }

  void unpack(Graph& graph) const {
    if (calls_.empty()) return;
    const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
    graph.drop_nodes_from(0);
    for (const auto& node : nodes) {
      const auto found = node->op == nullptr ? calls_.find(node->expansion.get()) : calls_.end();
      if (found == calls_.end())
        graph.add_shared(node);
      else
        add_members(graph, found->second, *node);
    }
  }

 private:
  struct Call {
    std::vector<std::shared_ptr<const Node>> members;
    std::vector<ValueId> read;  // from outside
  };

  static Node packed(Call& call, const IntactCall& intact, const std::unordered_map<std::string, std::int32_t>& tellers,
                     const std::vector<std::shared_ptr<const Node>>& nodes) {
    Node node;
    std::set<ValueId> known{kNoValue};
    for (const auto& member : call.members) known.insert(member->outputs.begin(), member->outputs.end());
    for (const auto& member : call.members) {
      for (const auto* ids : {&member->inputs, &member->parameters})
        for (const ValueId id : *ids)
          if (known.insert(id).second) call.read.push_back(id);
      // Sizes that results of other nodes tell must be known before.
      for (const std::string& symbol : symbols_of(member->attributes))
        if (const auto teller = tellers.find(symbol); teller != tellers.end())
          for (const ValueId id : nodes[static_cast<std::size_t>(teller->second)]->outputs)
            if (id != kNoValue) node.parameters.push_back(id);
    }
    node.inputs = call.read;
    for (const ValueId id : intact.outputs)
      if (id != kNoValue) node.outputs.push_back(id);
    node.expansion = call.members.front()->expansion;
    return node;
  }

  static void add_members(Graph& graph, const Call& call, const Node& packed) {
    std::unordered_map<ValueId, ValueId> moved;
    for (std::size_t i = 0; i < call.read.size(); ++i)
      if (packed.inputs[i] != call.read[i]) moved.emplace(call.read[i], packed.inputs[i]);
    for (const auto& member : call.members) {
      const auto changes = [&](ValueId id) { return moved.contains(id); };
      if (std::none_of(member->inputs.begin(), member->inputs.end(), changes) &&
          std::none_of(member->parameters.begin(), member->parameters.end(), changes)) {
        graph.add_shared(member);
        continue;
      }
      Node copy = *member;
      for (auto* ids : {&copy.inputs, &copy.parameters})
        for (ValueId& id : *ids)
          if (const auto found = moved.find(id); found != moved.end()) id = found->second;
      graph.add_raw(std::move(copy));
    }
  }

  std::map<const Expansion*, Call> calls_;
};

}  // namespace

std::set<const Expansion*> kept_calls(const Graph& graph) {
  std::set<const Expansion*> result;
  for (const auto& [expansion, group] : kept_groups(graph)) result.insert(expansion);
  return result;
}

bool try_tidy_around_calls(Graph& graph) {
  const PackedCalls packed(graph);
  if (!graph.try_tidy()) return false;
  packed.unpack(graph);
  return true;
}

void tidy_around_calls(Graph& graph) {
  const PackedCalls packed(graph);
  graph.tidy();
  packed.unpack(graph);
}

}  // namespace rewright::graph
