// The names of sizes in a graph, and what tells them.
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

// The sizes that no input has, and the position of the first opaque node whose results tell each: it must be executed before
// what has such a size in its attributes, even if that reads none of its results.
std::unordered_map<std::string, std::int32_t> size_tellers(const Graph& graph);

// A value that was computed says the sizes that its type only names. Throws Error(kBadInput), which names both values, if it is
// of another type than the graph says, or contradicts a size that is known: what was concluded from it would be wrong.
void bind_result(const Graph& graph, ValueId id, const Datum& result, BoundSizes& bound);

}  // namespace rewright::graph
