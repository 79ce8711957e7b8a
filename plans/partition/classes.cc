#include "plans/partition/classes.h"

#include <algorithm>
#include <map>

#include "base/hash_mix.h"

namespace rewright::plans {

namespace {

std::size_t number(const std::vector<std::uint64_t>& hashes, std::vector<std::uint32_t>& numbers) {
  std::map<std::uint64_t, std::uint32_t> known;
  for (const std::uint64_t h : hashes)
    numbers.push_back(known.try_emplace(h, static_cast<std::uint32_t>(known.size())).first->second);
  return known.size();
}

}  // namespace

Classes classes_of(const Graph& graph, int distance) {
  const auto nodes = graph.nodes();
  const auto users = graph.users();
  std::vector<std::uint64_t> own(nodes.size()), now, value(graph.value_count());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    std::uint64_t h = hash_text(nodes[n]->op ? nodes[n]->op->name() : nodes[n]->opaque_reason);
    h = hash_mix(h, hash(nodes[n]->attributes));
    for (const auto& type : graph.operand_types(*nodes[n])) h = hash_mix(h, type ? hash_text(to_string(*type)) : 0);
    own[n] = h;
  }
  const auto producers = graph.producers();
  std::vector<std::uint64_t> leaf(graph.value_count());
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (producers[v] < 0) leaf[v] = hash_mix(hash_text(to_string(graph.value(v).type)), graph.is_constant(v) ? 2 : 1);
  for (std::size_t o = 0; o < graph.outputs().size(); ++o) {
    std::uint64_t& h = leaf[graph.outputs()[o].value];
    h = hash_mix(h, 3);
  }
  now = own;
  for (int round = 0; round <= distance; ++round) {
    // Values by what computes them, then by what reads them.
    for (ValueId v = 0; v < graph.value_count(); ++v) {
      std::uint64_t h = leaf[v];
      if (producers[v] >= 0) {
        const Node& node = *nodes[static_cast<std::size_t>(producers[v])];
        const auto port = std::find(node.outputs.begin(), node.outputs.end(), v) - node.outputs.begin();
        h = hash_mix(hash_mix(h, now[static_cast<std::size_t>(producers[v])]), static_cast<std::uint64_t>(port));
      }
      std::uint64_t readers = 0;
      for (const std::int32_t user : users[v]) {
        const Node& node = *nodes[static_cast<std::size_t>(user)];
        for (std::size_t k = 0; k < node.inputs.size(); ++k)
          if (node.inputs[k] == v) readers += hash_mix(now[static_cast<std::size_t>(user)], k);  // in any order
      }
      value[v] = hash_mix(h, readers);
    }
    if (round == distance) break;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      std::uint64_t h = own[n];
      for (const ValueId v : nodes[n]->inputs) h = hash_mix(h, v == kNoValue ? 0 : value[v]);
      for (const ValueId v : nodes[n]->outputs) h = hash_mix(h, v == kNoValue ? 0 : value[v]);
      now[n] = h;
    }
  }
  Classes result;
  result.nodes = number(now, result.of_node);
  result.values = number(value, result.of_value);
  return result;
}

}  // namespace rewright::plans
