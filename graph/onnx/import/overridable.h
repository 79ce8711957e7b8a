// Weights that a model lists among its inputs as well: from IR version 4 on they are defaults, and a caller may give other
// values. (Before, all weights had to be listed.) A graph has them as constants; with_inputs() makes inputs of them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/interface.h"

namespace rewright::graph {

// Those that are constants of the graph, in the order of the model's inputs, as the model declares them.
std::vector<Declaration> overridable_initializers(const Graph& graph);

// The graph with these of them as inputs, at their places among the model's inputs; default_of() still knows their values. What
// was computed from them (shapes, parameters of nodes) is open again. `values`: as ImportOptions::input_values. Throws
// Error(kUnsupported) if the graph cannot be written.
Graph with_inputs(const Graph& graph, const std::set<std::string>& names, std::map<std::string, Tensor> values = {});

// The graph with inputs that have a default as constants again. The same graph if there are none.
Graph with_defaults(const Graph& graph);

// The graph without the right to override: they are constants, and no longer listed among the inputs when it is written.
Graph with_fixed_inputs(const Graph& graph);

// The value that an input has where none is given; null if it has none.
const Tensor* default_of(const Graph& graph, ValueId input);

}  // namespace rewright::graph
