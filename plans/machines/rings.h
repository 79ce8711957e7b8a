// Rings over the cables of a network, for collectives that go around several of them at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plans/machines/network.h"

namespace rewright::plans {

struct Ring {
  std::vector<std::uint32_t> order;  // every member once; the last one is joined to the first
  double bytes_per_second = 0;       // of its slowest link
};

// Rings whose members are joined directly, and that share no link: both directions of each Hamiltonian cycle that is found. Few
// cycles are missed where cables have a regular pattern; a network with switches has none. The same on every call.
//
// Cycles that go so many members on at each step are seen directly; others are looked for by rotations and extensions of a path
// (L. Posa, "Hamiltonian circuits in random graphs", Discrete Mathematics 14, 1976).
std::vector<Ring> rings_over(std::span<const Link> links, std::size_t members);

}  // namespace rewright::plans
