// Options as people write them: quantities with units, sizes of inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::api {

// "60s", "2m", "1500ms", "1h" -> seconds; "8G", "512M" -> bytes. Throw Error(kUsage).
double parse_seconds(const std::string& text);
std::size_t parse_bytes(const std::string& text);
// Shortest texts that are read as the same.
std::string seconds_text(double seconds);
std::string bytes_text(std::size_t bytes);

// --shape NAME=1x3x224x224, repeatable.
std::map<std::string, Sizes> parse_shapes(const std::vector<std::string>& shapes);
// Binds the symbolic sizes of the graph's inputs to these, and those that are left open to sizes that fit (fitting_sizes): what
// a graph is to be fast on, while it still serves all sizes. Throws Error(kBadInput) where they contradict.
std::map<std::string, std::int64_t> symbol_sizes(const Graph& graph, const std::map<std::string, Sizes>& shapes);

}  // namespace rewright::api
