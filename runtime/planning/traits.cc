#include "runtime/planning/traits.h"

#include <algorithm>

#include "expressions/free_variables.h"
#include "operators/readings/operation_count.h"

namespace rewright::planning {

namespace {

using Kind = ElementNode::Kind;

bool is_limited(const Element& e) {
  if (e->kind != Kind::kConvert || e->scalar != Scalar::kInteger) return false;
  const auto limits = [](const Element& x, Kind kind) { return x->kind == kind && x->arguments[1]->kind == Kind::kConstant; };
  const Element& high = e->arguments[0];
  return limits(high, Kind::kMinimum) && limits(high->arguments[0], Kind::kMaximum);
}

bool sums_products(const Element& given) {
  const ElementNode* e = given.get();
  while (e->kind == Kind::kReduce && e->reduction == Reduction::kSum) e = e->arguments[0].get();
  return e != given.get() && e->kind == Kind::kMultiply;
}

bool has_guard(const Element& e) {
  const bool here = e->kind == Kind::kRead ? e->zero_outside : !e->conditions.empty();
  return here || std::any_of(e->arguments.begin(), e->arguments.end(), has_guard);
}

}  // namespace

bool has_reduction(const Element& e) {
  if (e->kind == Kind::kReduce) return true;
  return std::any_of(e->arguments.begin(), e->arguments.end(), has_reduction);
}

bool has_position(const ElementNode& element) {
  bool found = false;
  for_each_index(element, [&](const Index& index) {
    for_each_atom(index, [&](const Atom& atom) { found = found || atom.kind == Atom::Kind::kPosition; });
  });
  return found ||
         std::any_of(element.arguments.begin(), element.arguments.end(), [](const Element& e) { return has_position(*e); });
}

Traits traits_of(const Definition& definition) {
  constexpr double kMany = 1000;  // operations, where their number depends on sizes
  Traits t;
  t.has_denotation = !definition.outputs().empty() && definition.has_denotation();
  if (!t.has_denotation) return t;
  const Element& element = definition.outputs()[0].element;
  t.reduces = has_reduction(element);
  t.sums_products = sums_products(element);
  t.has_position = has_position(*element);
  t.has_guard = has_guard(element);
  t.is_limited = is_limited(element);
  t.only_reads = element->kind == Kind::kRead;
  if (t.only_reads && !element->zero_outside) t.moved = element->operand;
  if (!t.reduces) t.operations = static_cast<double>(operation_count(element).constant().value_or(kMany));
  return t;
}

}  // namespace rewright::planning
