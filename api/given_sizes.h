// The named sizes that --shape gives a model.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/graph.h"

namespace rewright::api {

// Binds the symbolic sizes of the graph's inputs to the sizes that are given for inputs. Throws Error(kBadInput) where they
// contradict the model, or one another.
std::map<std::string, std::int64_t> given_sizes(const Graph& graph, const std::map<std::string, Sizes>& shapes);

}  // namespace rewright::api
