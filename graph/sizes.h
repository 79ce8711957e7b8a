// The named sizes of a graph, and the nodes whose results determine them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>

#include "graph/execute.h"

namespace rewright::graph {

// The named sizes in expressions.
std::set<std::string> symbols_of(const Indices& indices);
std::set<std::string> symbols_of(const Attributes& attributes);

// The named sizes that no input has, each with the position of the first opaque node whose results determine it. That node must
// be executed before any node with such a size in its attributes, even one that reads none of its results.
std::unordered_map<std::string, std::int32_t> size_tellers(const Graph& graph);

// Adds the named sizes in a value's type, once the value was computed. Throws Error(kBadInput), which names both values, if it
// is of another type than the graph declares or contradicts a known size: the rest of the graph relies on both.
void bind_result(const Graph& graph, ValueId id, const Datum& result, BoundSizes& bound);

}  // namespace rewright::graph
