// Operators that tools write in two ways, in one of them.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace rewright::equivalence {

// The graph with HardSwish as its two operators, with the zeros that absent inputs of recurrent nodes stand for, and with
// channels in blocks joined before they are put into blocks.
Graph with_one_form(const Graph& graph);

// The node that makes a value, or one that is equal, if it is an operator of this name; else null.
using Maker = std::function<const Node*(ValueId id, std::string_view op)>;
// Channels in blocks that are joined and taken out of the blocks by a Reshape: what was put into blocks, whose Concat along
// axis 1 that is. Parts are whole blocks, so that a Reshape that keeps the first axis and what stands behind the second one of
// all parts is one of each part. nullopt for others.
std::optional<std::vector<ValueId>> joined_channels(const Graph& graph, const Maker& made_by, const Node& last);

// Is one permutation undone by the other one?
bool is_inverse(const Indices& forth, const Indices& back);

}  // namespace rewright::equivalence
