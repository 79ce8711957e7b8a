#include "runtime/cuda/planning/grouping.h"

#include "runtime/cuda/planning/attention.h"
#include "runtime/cuda/planning/float8.h"
#include "runtime/cuda/planning/library_facts.h"
#include "runtime/cuda/planning/splitting.h"
#include "runtime/planning/composer.h"
#include "runtime/planning/grouping.h"

namespace rewright::cuda {

std::vector<Group> make_groups(GraphFacts& facts) {
  LibraryFacts with_libraries(facts);
  const std::vector<std::int32_t> producers = facts.graph().producers();
  std::vector<Group> groups;
  for (planning::Group& from : planning::make_groups(with_libraries)) {
    Group& group = groups.emplace_back();
    group.nodes = from.nodes;
    group.result = from.result;
    group.view = from.view;
    if (from.taken) {
      group.library = std::move(static_cast<TakenNode&>(*from.taken).node);
      from.chain = planning::compose(with_libraries, producers, from.nodes, kNoValue, false);
    }
    if (!from.chain) continue;
    group.element = from.chain->element;
    group.position = from.chain->position;
    group.operands = from.chain->operands;
  }
  join_attention(facts, groups);
  multiply_in_float8(facts, groups);
  split_at_libraries(facts, groups);
  return groups;
}

}  // namespace rewright::cuda
