#include "runtime/cuda/planning/splitting.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/planning/composer.h"

namespace rewright::cuda {

namespace {

class Splitting {
 public:
  explicit Splitting(GraphFacts& facts) : facts_(facts), producers_(facts.graph().producers()) {}

  void split(Group& group) {
    if (group.library || !group.element || !group.alternatives.empty()) return;
    for (const int n : group.nodes) {
      auto library = library_node(facts_, *facts_.graph().nodes()[static_cast<std::size_t>(n)]);
      if (!library) continue;
      std::vector<Group> apart = split_at(group, n, std::move(*library));
      const Group whole = group;
      group.alternatives = {{whole}, std::move(apart)};
      return;
    }
  }

 private:
  // Groups: those that compute the node's operands, the node by the library, and the rest of the group.
  std::vector<Group> split_at(const Group& group, int n, LibraryNode library) {
    std::vector<Group> parts;
    std::set<int> before;
    for (const ValueId v : library.inputs) {
      if (!made_in(group, v)) continue;
      const std::vector<int> nodes = sources(group, v);
      if (std::none_of(parts.begin(), parts.end(), [&](const Group& g) { return g.result == v; }))
        parts.push_back(composed(nodes));
      before.insert(nodes.begin(), nodes.end());
    }
    Group& middle = parts.emplace_back();
    middle.nodes = {n};
    middle.result = facts_.graph().nodes()[static_cast<std::size_t>(n)]->outputs[0];
    middle.library = std::move(library);
    std::vector<int> behind;
    for (const int m : group.nodes)
      if (m != n && !before.contains(m)) behind.push_back(m);
    if (!behind.empty()) parts.push_back(composed(behind));
    return parts;
  }

  bool made_in(const Group& group, ValueId value) const {
    return producers_[value] >= 0 && std::binary_search(group.nodes.begin(), group.nodes.end(), producers_[value]);
  }

  // The group's nodes that a value depends on.
  std::vector<int> sources(const Group& group, ValueId value) const {
    std::set<int> found{producers_[value]};
    for (auto n = group.nodes.rbegin(); n != group.nodes.rend(); ++n) {
      if (!found.contains(*n)) continue;
      for (const ValueId v : facts_.graph().nodes()[static_cast<std::size_t>(*n)]->inputs)
        if (v != kNoValue && made_in(group, v)) found.insert(producers_[v]);
    }
    return {found.begin(), found.end()};
  }

  Group composed(const std::vector<int>& nodes) {
    const Chain chain = planning::compose(facts_, producers_, nodes, kNoValue, false);
    Group group;
    group.nodes = nodes;
    group.result = chain.result;
    group.element = chain.element();
    group.position = chain.position();
    group.operands = chain.operands();
    return group;
  }

  GraphFacts& facts_;
  const std::vector<std::int32_t> producers_;
};

}  // namespace

void split_at_libraries(GraphFacts& facts, std::vector<Group>& groups) {
  Splitting splitting(facts);
  for (Group& group : groups) splitting.split(group);
}

}  // namespace rewright::cuda
