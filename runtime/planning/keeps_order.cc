#include "runtime/planning/keeps_order.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/planning/affine.h"

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

}  // namespace

bool keeps_order(const Element& element, const Indices& position, const Sizes& sizes, const Sizes& operand_sizes) {
  if (element->kind != ElementNode::Kind::kRead || element->zero_outside || element->operand != 0) return false;
  if (element_count(sizes) != element_count(operand_sizes)) return false;
  // Positions with quotients and remainders are evaluated at the corners of the output and at random positions.
  std::uint64_t state = 1;
  const std::int64_t count = element_count(sizes);
  VariableValues at(sizes.size());
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    const Atom* const atom = position[a].as_atom();
    if (atom == nullptr) return false;
    at[a].first = atom->id;
  }
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

}  // namespace rewright::planning
