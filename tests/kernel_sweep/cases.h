// Random graphs of one kernel and its neighbours, at sizes as in real models.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace rewright::testing {

struct SweepCase {
  std::string family;
  Graph graph;
  std::vector<Tensor> inputs;
};

// Limits of a case.
struct SweepSizes {
  double multiplications, weights, elements;
};
inline constexpr SweepSizes kSmallSweep{2e7, 5e5, 3e5}, kLargeSweep{6e8, 8e6, 4e6};

const std::vector<std::string_view>& sweep_families();

// Deterministic. Without a `family`, any.
SweepCase make_sweep_case(std::uint64_t seed, std::string_view family, const SweepSizes& sizes);

}  // namespace rewright::testing
