#include "runtime/planning/strided_read.h"

#include <utility>

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

// The address as an affine function of variables; nullopt if it is none, or is outside of the operand somewhere.
std::optional<Affine> affine_address(const Indices& position, const Sizes& operand_sizes, const Variables& variables) {
  Affine address;
  std::int64_t stride = 1;
  for (std::size_t a = position.size(); a-- > 0;) {
    const auto p = variables.affine(position[a]);
    if (!p || variables.lowest(*p) < 0 || variables.highest(*p) >= operand_sizes[a]) return std::nullopt;
    address.add(*p, stride);
    stride *= operand_sizes[a];
  }
  address.coefficients.resize(variables.count());
  return address;
}

// With the axis split into two, of which the inner one is the last variable.
std::optional<Affine> split_address(const ElementNode& read, const Indices& position, const Sizes& sizes,
                                    const Sizes& operand_sizes, std::size_t axis, std::int64_t inner) {
  const Index outer = Index::fresh("o"), rest = Index::fresh("r");
  Variables variables;
  for (std::size_t a = 0; a < position.size(); ++a)
    variables.add((a == axis ? outer : position[a]).as_atom()->id, {0, a == axis ? sizes[a] / inner : sizes[a]});
  variables.add(rest.as_atom()->id, {0, inner});
  const std::uint64_t id = position[axis].as_atom()->id;
  const Indices split = substitute(read.position, [&](const Atom& atom) -> std::optional<Index> {
    if (atom.kind != Atom::Kind::kBound || atom.id != id) return std::nullopt;
    return outer * Index(inner) + rest;
  });
  return affine_address(split, operand_sizes, variables);
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
  return affine_address(read.position, operand_sizes, variables);
}

std::optional<SplitStrides> read_split_strides(const ElementNode& read, const Indices& position, const Sizes& sizes,
                                               const Sizes& operand_sizes) {
  for (const Index& axis : position)
    if (axis.as_atom() == nullptr) return std::nullopt;
  // Axes of an operand that are repeated have a divisor of the result's size.
  for (std::size_t axis = 0; axis < position.size(); ++axis)
    for (const std::int64_t size : operand_sizes) {
      if (size <= 1 || size >= sizes[axis] || sizes[axis] % size != 0) continue;
      for (const std::int64_t inner : {sizes[axis] / size, size}) {  // each so many times, or all again and again
        auto address = split_address(read, position, sizes, operand_sizes, axis, inner);
        if (!address) continue;
        SplitStrides result{std::move(*address), axis, inner};
        result.outer_stride = std::exchange(result.address.coefficients[axis], 0);
        result.inner_stride = result.address.coefficients.back();
        result.address.coefficients.pop_back();
        return result;
      }
    }
  return std::nullopt;
}

}  // namespace rewright::planning
