#include "runtime/cuda/dependence.h"

#include <algorithm>

namespace rewright::cuda {

using Kind = ElementNode::Kind;

void FreeVariables::collect(const Index& index, std::set<std::uint64_t>& atoms) {
  for_each_atom(index, [&](const Atom& atom) {
    if (atom.kind == Atom::Kind::kBound) atoms.insert(atom.id);
    if (atom.kind == Atom::Kind::kLoad) {
      const auto& inside = of(*atom.element);
      atoms.insert(inside.begin(), inside.end());
    }
  });
}

const std::set<std::uint64_t>& FreeVariables::of(const ElementNode& e) {
  if (const auto found = known_.find(&e); found != known_.end()) return found->second;
  std::set<std::uint64_t> atoms;
  for (const Index& i : e.position) collect(i, atoms);
  if (e.kind == Kind::kFromIndex) collect(e.index, atoms);
  if (e.kind == Kind::kReduce) collect(e.bound, atoms);
  for (const Condition& c : e.conditions) {
    collect(c.left, atoms);
    collect(c.right, atoms);
  }
  for (const Element& a : e.arguments) {
    const auto& inside = of(*a);
    atoms.insert(inside.begin(), inside.end());
  }
  if (e.kind == Kind::kReduce) atoms.erase(e.index.as_atom()->id);
  return known_.emplace(&e, std::move(atoms)).first->second;
}

ReductionNest reduction_nest(const ElementNode& reduction) {
  ReductionNest nest;
  const ElementNode* level = &reduction;
  for (;;) {
    nest.variables.push_back(level->index);
    nest.bounds.push_back(level->bound);
    nest.conditions.insert(nest.conditions.end(), level->conditions.begin(), level->conditions.end());
    nest.body = level->arguments[0];
    if (nest.body->kind != Kind::kReduce || nest.body->reduction != reduction.reduction ||
        nest.body->scalar != reduction.scalar)
      break;
    level = nest.body.get();
  }
  if (all_constant(nest.bounds)) {
    nest.steps = 1;
    for (const Index& b : nest.bounds) nest.steps *= std::max<std::int64_t>(b.value(), 0);
  }
  return nest;
}

}  // namespace rewright::cuda
