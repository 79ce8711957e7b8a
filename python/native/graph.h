// rewright.graph: graphs, read, walked, built and written.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "graph/graph.h"

namespace rewright::python {

// A graph, and its name in messages.
struct NamedGraph {
  Graph graph;
  std::string name = "graph";
};

void bind_graph(nanobind::module_& m);

}  // namespace rewright::python
