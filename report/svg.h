// A graph as one image.
#pragma once

#include <string>

#include "graph/graph.h"

namespace rewright::report {

// The drawing of report/drawing.h as a document of SVG, regions one below the other: boxes with the operator and the shape of
// the result, and attributes on pointing at it. Nodes that `before` (may be null) does not have are marked. Throws
// Error(kMissing) if graphs cannot be laid out.
std::string graph_svg(const Graph& graph, const Graph* before = nullptr);

}  // namespace rewright::report
