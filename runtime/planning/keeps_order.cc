#include "runtime/planning/keeps_order.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/planning/affine.h"
#include "runtime/planning/facts.h"

namespace rewright::planning {

namespace {

// Variables by their atoms' ids.
using VariableValues = std::vector<std::pair<std::uint64_t, std::int64_t>>;

std::optional<std::int64_t> value_of(const Index& index, const VariableValues& values);

std::optional<std::int64_t> value_of(const Atom& atom, const VariableValues& values) {
  if (atom.kind == Atom::Kind::kBound) {
    const auto at = std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == atom.id; });
    return at == values.end() ? std::nullopt : std::optional(at->second);
  }
  if (atom.kind != Atom::Kind::kFloorDiv && atom.kind != Atom::Kind::kMod) return std::nullopt;
  const auto a = value_of(atom.arguments[0], values), b = value_of(atom.arguments[1], values);
  if (!a || !b || *b < 1) return std::nullopt;
  const std::int64_t quotient = floor_quotient(*a, *b);
  return atom.kind == Atom::Kind::kFloorDiv ? quotient : *a - quotient * *b;
}

// A sum of products of variables, quotients and remainders; nullopt for other expressions.
std::optional<std::int64_t> value_of(const Index& index, const VariableValues& values) {
  std::int64_t sum = index.constant_term();
  if (index.is_constant()) return sum;
  for (const Monomial& monomial : index.polynomial()->monomials) {
    std::int64_t term = monomial.coefficient;
    for (const AtomPointer& factor : monomial.factors) {
      const auto f = value_of(*factor, values);
      if (!f) return std::nullopt;
      term *= *f;
    }
    sum += term;
  }
  return sum;
}

// The answer where each position of the operand is a variable or a number; nullopt for others.
std::optional<bool> axes_keep_order(const Indices& position, const VariableValues& variables, const Sizes& sizes,
                                    const Sizes& operand_sizes) {
  Sizes strides(sizes.size());  // with which the operand is read
  std::int64_t first = 0, stride = 1;
  for (std::size_t a = position.size(); a-- > 0; stride *= operand_sizes[a]) {
    const Index& p = position[a];
    if (p.is_constant()) {
      first += p.value() * stride;
      continue;
    }
    const Atom* const atom = p.as_atom();
    const auto is_it = [&](const auto& v) { return v.first == atom->id; };
    const auto variable = atom == nullptr ? variables.end() : std::find_if(variables.begin(), variables.end(), is_it);
    if (variable == variables.end()) return std::nullopt;
    strides[static_cast<std::size_t>(variable - variables.begin())] += stride;
  }
  if (element_count(sizes) == 0) return true;
  stride = 1;
  for (std::size_t a = sizes.size(); a-- > 0; stride *= sizes[a])
    if (sizes[a] > 1 && strides[a] != stride) return false;
  return first == 0;
}

}  // namespace

bool keeps_order(const Element& element, const Indices& position, const Sizes& sizes, const Sizes& operand_sizes) {
  if (element->kind != ElementNode::Kind::kRead || element->zero_outside || element->operand != 0) return false;
  if (element_count(sizes) != element_count(operand_sizes)) return false;
  std::uint64_t state = 1;
  const std::int64_t count = element_count(sizes);
  VariableValues at(sizes.size());
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    const Atom* const atom = position[a].as_atom();
    if (atom == nullptr) return false;
    at[a].first = atom->id;
  }
  if (const auto known = axes_keep_order(element->position, at, sizes, operand_sizes)) return *known;
  // Positions with quotients and remainders are evaluated at the corners of the output and at random positions.
  for (int sample = 0; sample < 64 && count > 0; ++sample) {
    std::int64_t number = 0;
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto random = static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(sizes[a]));
      const std::int64_t v = sample < 16 ? ((sample >> (a % 4)) & 1 ? sizes[a] - 1 : 0) : random;
      at[a].second = v;
      number = number * sizes[a] + v;
    }
    std::int64_t address = 0;
    for (std::size_t a = 0; a < element->position.size(); ++a) {
      const auto p = value_of(element->position[a], at);
      if (!p) return false;
      address = address * operand_sizes[a] + *p;
    }
    if (address != number) return false;
  }
  return true;
}

Movement movement_of(const Definition& definition, const Sizes& result, const Sizes& operand) {
  const Output& output = definition.outputs()[0];
  const auto is_along = [](const Index& i) { return i.is_constant() || i.as_atom() != nullptr; };
  Movement movement;
  if (!output.element || output.element->kind != ElementNode::Kind::kRead) return movement;
  movement.along_axes = std::all_of(output.element->position.begin(), output.element->position.end(), is_along);
  movement.in_order = keeps_order(output.element, output.position, result, operand);
  return movement;
}

}  // namespace rewright::planning
