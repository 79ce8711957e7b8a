// Well-known networks, built through the public graph API: random weights with plausible statistics, batch norms unfused.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace rewright::models {

struct Model {
  std::string_view name;
  std::string_view description;
  Graph (*build)(std::uint64_t seed);
};

std::span<const Model> models();

// Throws Error(kUsage) that lists the names if there is no such model. Equal seeds give equal weights.
Graph build_model(std::string_view name, std::uint64_t seed = 0);

}  // namespace rewright::models
