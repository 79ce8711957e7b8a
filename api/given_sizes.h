// The named sizes that --shape gives a model.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/graph.h"

namespace rewright::api {

// The values of the symbolic sizes of the graph's inputs that follow from the given sizes. Throws Error(kBadInput) if these
// contradict the model or each other.
std::map<std::string, std::int64_t> given_sizes(const Graph& graph, const std::map<std::string, Sizes>& shapes);

}  // namespace rewright::api
