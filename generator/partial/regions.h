// The positions at which two values agree, read off their elements for several sizes and stated as functions of the sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "generator/enumeration/forms.h"

namespace rewright::generator {

// A place along an axis: `halves` halves of its size, and `offset` elements more.
struct Cut {
  int halves = 0;
  std::int64_t offset = 0;
  friend bool operator==(const Cut&, const Cut&) = default;
};

// The place for a size; nullopt if that cannot be halved as an expression.
std::optional<Index> place(const Cut& cut, const Index& size);

// Cells of a grid. Both values are equal in some cells, and are not in the others.
struct Regions {
  std::vector<std::vector<Cut>> cuts;  // of each axis: 0, ..., its size
  std::vector<bool> wrong;             // of each cell, the last axis first
  double share = 0;                    // of wrong elements, for the last assignment of sizes

  std::size_t cells(std::size_t axis) const { return cuts[axis].size() - 1; }
  bool everywhere() const { return wrong.size() == 1 && !wrong[0]; }
};

// nullopt if fewer than half of the elements agree for some assignment of sizes, or if where they do is no function of the
// sizes that cuts can state.
std::optional<Regions> regions(const KnownType& type, std::span<const Residue> source, std::span<const Residue> target);

}  // namespace rewright::generator
