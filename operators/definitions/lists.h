// Checks of attributes with one entry for each axis, and of index operands.
#pragma once

#include <string>
#include <string_view>

#include "operators/definitions/axes.h"
#include "operators/operator.h"

namespace rewright::operators {

// The axis counted from the front, as a number; throws Error(kBadInput) if it is not one of the `rank` axes.
inline std::size_t axis_number(const Index& axis, std::size_t rank) {
  return static_cast<std::size_t>(canonical_axis(axis, rank).value());
}

// Fills an absent list with `value` for every axis.
inline void fill_absent(Indices& list, std::size_t count, const Index& value) {
  if (list.empty()) list.assign(count, value);
}

inline void require_length(Definition& d, const Indices& list, std::size_t length, std::string_view what) {
  d.require(list.size() == length, [&] {
    return std::string(what) + " has " + std::to_string(list.size()) + " entries for " + std::to_string(length) + " axes";
  });
}

inline void require_indices(Definition& d, const Operand& indices) {
  d.require(is_integer(indices.type()),
            [&] { return "indices are " + std::string(name(indices.type())) + ", integers are needed"; });
}

}  // namespace rewright::operators
