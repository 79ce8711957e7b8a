#include "runtime/training/graphs/shared_statistics.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <utility>

namespace rewright::training {

std::vector<ValueId> SharingBuilder::node(const Operator& op, Attributes attributes, std::vector<ValueId> inputs) {
  bool over_examples = false;
  if (op.name() == "ReduceMean")
    for (const Index& axis : std::get<Indices>(attributes.at(op.field("axes").value())))
      over_examples = over_examples || axis == Index(0);
  std::vector<ValueId> outputs = builder_.node(op, std::move(attributes), std::move(inputs));
  if (!over_examples) return outputs;
  const TensorType type = type_of(outputs[0]);
  const ValueId all = builder_.scalar(type.type, static_cast<double>(shards_));
  sums_.push_back({builder_.add("Div", {outputs[0], all}), add_sum(graph_, type)});
  return {sums_.back().sum};
}

ValueId add_sum(Graph& graph, const TensorType& type) {
  Value value;
  value.name = "training.sum." + std::to_string(graph.value_count());
  value.type = type;
  return graph.add_value(std::move(value));
}

void drop_unused(const Graph& graph, std::vector<SharedSum>& sums) {
  std::set<ValueId> read;
  for (const auto& node : graph.nodes()) read.insert(node->inputs.begin(), node->inputs.end());
  std::erase_if(sums, [&](const SharedSum& s) { return !read.contains(s.sum); });
}

void order_by_sums(Graph& graph, std::span<const SharedSum> sums) {
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  const std::vector<std::int32_t> producers = graph.producers();
  std::map<ValueId, ValueId> share_of;
  for (const SharedSum& s : sums) share_of[s.sum] = s.share;
  std::vector<std::size_t> waiting(nodes.size());
  std::vector<std::vector<std::size_t>> followers(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n)
    for (const auto* list : {&nodes[n]->inputs, &nodes[n]->parameters})
      for (ValueId v : *list) {
        if (const auto shared = share_of.find(v); shared != share_of.end()) v = shared->second;
        if (v == kNoValue || producers[v] < 0) continue;
        ++waiting[n];
        followers[static_cast<std::size_t>(producers[v])].push_back(n);
      }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (waiting[n] == 0) ready.push(n);
  graph.drop_nodes_from(0);
  while (!ready.empty()) {
    const std::size_t n = ready.top();
    ready.pop();
    graph.add_shared(nodes[n]);
    for (const std::size_t follower : followers[n])
      if (--waiting[follower] == 0) ready.push(follower);
  }
  if (graph.nodes().size() != nodes.size())
    throw Error(ErrorCode::kUnsupported, "a statistic of the whole batch is computed from itself");
}

}  // namespace rewright::training
