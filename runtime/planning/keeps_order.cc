#include "runtime/planning/keeps_order.h"

#include <cstdint>
#include <map>
#include <optional>

namespace rewright::planning {

bool keeps_order(const Element& element, const Indices& position, const Sizes& sizes, const Sizes& operand_sizes) {
  if (element->kind != ElementNode::Kind::kRead || element->zero_outside || element->operand != 0) return false;
  if (element_count(sizes) != element_count(operand_sizes)) return false;
  const auto is_sum_of_quotients = [](const Index& index) {
    bool good = true;
    for_each_atom(index, [&](const Atom& a) {
      good = good && (a.kind == Atom::Kind::kBound || a.kind == Atom::Kind::kFloorDiv || a.kind == Atom::Kind::kMod);
    });
    return good;
  };
  // Positions with quotients and remainders are evaluated at the corners of the output and at random positions.
  std::uint64_t state = 1;
  std::int64_t count = element_count(sizes);
  for (const Index& i : element->position)
    if (!is_sum_of_quotients(i)) return false;
  for (int sample = 0; sample < 64 && count > 0; ++sample) {
    std::map<std::uint64_t, std::int64_t> at;
    std::int64_t number = 0;
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto random = static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(sizes[a]));
      const std::int64_t v = sample < 16 ? ((sample >> (a % 4)) & 1 ? sizes[a] - 1 : 0) : random;
      const Atom* atom = position[a].as_atom();
      if (atom == nullptr) return false;
      at[atom->id] = v;
      number = number * sizes[a] + v;
    }
    std::int64_t address = 0;
    for (std::size_t a = 0; a < element->position.size(); ++a) {
      const Index p = substitute(element->position[a], [&](const Atom& atom) -> std::optional<Index> {
        const auto found = atom.kind == Atom::Kind::kBound ? at.find(atom.id) : at.end();
        return found == at.end() ? std::nullopt : std::optional<Index>(found->second);
      });
      if (!p.is_constant()) return false;
      address = address * operand_sizes[a] + p.constant_term();
    }
    if (address != number) return false;
  }
  return true;
}

}  // namespace rewright::planning
