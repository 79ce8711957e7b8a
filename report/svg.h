// A graph as one image.
#pragma once

#include <string>

#include "graph/graph.h"

namespace rewright::report {

// report/drawing.h's drawing as an SVG document, regions one below the other: boxes with the operator and the shape of the
// result; pointing at one shows its attributes. Nodes that `before` (may be null) lacks are marked. Throws Error(kMissing) if
// graphs cannot be laid out.
std::string graph_svg(const Graph& graph, const Graph* before = nullptr);

}  // namespace rewright::report
