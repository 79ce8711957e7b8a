#include "operators/readings/divisors.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

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

namespace {

// The reals below and above all that a cast turns into an integer of the type.
std::pair<double, double> limits_of_cast(DataType type) {
  const bool is_unsigned = name(type).starts_with("uint");
  const double above = std::ldexp(1.0, packed_bits(type) - (is_unsigned ? 0 : 1));
  return {is_unsigned ? -1 : -above - 1, above};
}

}  // namespace

bool makes_undefined_integers(const Operator& op, std::span<const DataType> outputs, std::span<const Tensor> operands) {
  if (std::none_of(outputs.begin(), outputs.end(), is_integer)) return false;
  const bool is_cast = op.name() == "Cast";
  const auto [below, above] = is_cast ? limits_of_cast(outputs[0]) : std::pair(-HUGE_VAL, HUGE_VAL);
  return std::any_of(operands.begin(), operands.end(), [&, low = below, high = above](const Tensor& operand) {
    if (!operand || !is_real(operand.type())) return false;
    const std::vector<double> elements = operand.reals();
    return std::any_of(elements.begin(), elements.end(),
                       [&](double x) { return std::isnan(x) || (is_cast && !(x > low && x < high)); });
  });
}

}  // namespace rewright::operators
