#include "expressions/free_variables.h"

namespace rewright {

const std::set<std::uint64_t>& FreeVariables::of(const ElementNode& e) {
  if (const auto found = known_.find(&e); found != known_.end()) return found->second;
  std::set<std::uint64_t> variables;
  const auto add = [&](const ElementNode& inside) {
    const auto& its = of(inside);
    variables.insert(its.begin(), its.end());
  };
  for_each_index(e, [&](const Index& index) {
    for_each_atom(index, [&](const Atom& atom) {
      if (atom.kind == Atom::Kind::kBound) variables.insert(atom.id);
      if (atom.kind == Atom::Kind::kLoad) add(*atom.element);
    });
  });
  for (const Element& argument : e.arguments) add(*argument);
  if (e.kind == ElementNode::Kind::kReduce) variables.erase(e.index.as_atom()->id);
  return known_.emplace(&e, std::move(variables)).first->second;
}

}  // namespace rewright
