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
// The shortest texts with the same value.
std::string seconds_text(double seconds);
std::string bytes_text(std::size_t bytes);

// --shape NAME=1x3x224x224, repeatable.
std::map<std::string, Sizes> parse_shapes(const std::vector<std::string>& shapes);
// Values of the symbolic sizes of the graph's inputs, to measure the graph at: the given ones, and fitting sizes for the others
// (fitting_sizes). Throws Error(kBadInput) if they contradict each other.
std::map<std::string, std::int64_t> symbol_sizes(const Graph& graph, const std::map<std::string, Sizes>& shapes);

}  // namespace rewright::api
