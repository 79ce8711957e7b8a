// Conclusions from values that are the same number everywhere.
#pragma once

#include "graph/graph.h"

namespace rewright::cpu {

// A choice (Where) whose condition is known is one of its operands, and so is a sum with zeros, unless it changes the sign of a
// zero that is seen; factors of both operands of a product, which are numbers of common size, become one of its result. Sizes
// are known. Only graphs with such choices are changed: ONNX's own Attention is a graph of that kind.
Graph with_known_numbers(Graph graph);

}  // namespace rewright::cpu
