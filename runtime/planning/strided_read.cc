#include "runtime/planning/strided_read.h"

namespace rewright::planning {

namespace {

// The address where each position is a number, or that of an axis of the result; sets `is_other` if one is something else.
std::optional<Affine> read_axes(const ElementNode& read, const Indices& position, const Sizes& sizes,
                                const Sizes& operand_sizes, bool& is_other) {
  Affine address;
  address.coefficients.resize(position.size());
  std::int64_t stride = 1;
  for (std::size_t a = read.position.size(); a-- > 0; stride *= operand_sizes[a]) {
    const Index& p = read.position[a];
    if (const auto number = p.constant()) {
      if (*number < 0 || *number >= operand_sizes[a]) return std::nullopt;
      address.constant += *number * stride;
      continue;
    }
    const Atom* const atom = p.as_atom();
    std::size_t axis = 0;
    while (atom != nullptr && axis < position.size() && position[axis].as_atom()->id != atom->id) ++axis;
    if (atom == nullptr || atom->kind != Atom::Kind::kBound || axis == position.size()) {
      is_other = true;
      return std::nullopt;
    }
    if (sizes[axis] > operand_sizes[a]) return std::nullopt;
    address.coefficients[axis] += stride;
  }
  return address;
}

}  // namespace

std::optional<Affine> read_strides(const ElementNode& read, const Indices& position, const Sizes& sizes,
                                   const Sizes& operand_sizes) {
  for (const Index& axis : position)
    if (axis.as_atom() == nullptr) return std::nullopt;
  bool is_other = false;
  if (auto address = read_axes(read, position, sizes, operand_sizes, is_other); !is_other) return address;
  Variables variables;
  for (std::size_t a = 0; a < position.size(); ++a) variables.add(position[a].as_atom()->id, {0, sizes[a]});
  Affine address;
  address.coefficients.resize(position.size());
  std::int64_t stride = 1;
  for (std::size_t a = read.position.size(); a-- > 0;) {
    const auto p = variables.affine(read.position[a]);
    if (!p || variables.lowest(*p) < 0 || variables.highest(*p) >= operand_sizes[a]) return std::nullopt;
    address.add(*p, stride);
    stride *= operand_sizes[a];
  }
  return address;
}

}  // namespace rewright::planning
