#include "operators/readings/divisors.h"

#include "expressions/division.h"

namespace rewright::operators {

namespace {

using Seen = std::set<const ElementNode*>;

void collect_operands(const Element& e, std::set<std::size_t>& operands, Seen& seen) {
  if (!e || !seen.insert(e.get()).second) return;
  if (e->kind == ElementNode::Kind::kRead) operands.insert(static_cast<std::size_t>(e->operand));
  for (const Element& argument : e->arguments) collect_operands(argument, operands, seen);
}

void collect_divisors(const Element& e, std::set<std::size_t>& operands, Seen& seen) {
  if (!e || !seen.insert(e.get()).second) return;
  Seen inside;
  if (divides(*e) && e->scalar != Scalar::kReal) collect_operands(e->arguments[1], operands, inside);
  for (const Element& argument : e->arguments) collect_divisors(argument, operands, seen);
}

}  // namespace

std::set<std::size_t> integer_divisors(const Definition& definition) {
  std::set<std::size_t> operands;
  Seen seen;
  for (const Output& output : definition.outputs()) collect_divisors(output.element, operands, seen);
  return operands;
}

}  // namespace rewright::operators
