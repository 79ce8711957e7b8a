// Operators that tools write in two ways, in one of them.
#pragma once

#include "graph/graph.h"

namespace rewright::equivalence {

// The graph with HardSwish as its two operators, with the zeros that absent inputs of recurrent nodes stand for, and with
// channels in blocks joined before they are put into blocks.
Graph with_one_form(const Graph& graph);

// Is one permutation undone by the other one?
bool is_inverse(const Indices& forth, const Indices& back);

}  // namespace rewright::equivalence
