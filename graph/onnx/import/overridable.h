// Weights that a model also lists among its inputs. From IR version 4 on they are defaults that a caller may override; before,
// all weights had to be listed. In a graph they are constants; with_inputs() turns them into inputs.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/interface.h"

namespace rewright::graph {

// The overridable weights that are constants of the graph, as the model declares them, in the order of its inputs.
std::vector<Declaration> overridable_initializers(const Graph& graph);

// The graph with these weights as inputs, at their places among the model's inputs; default_of() still gives their values.
// Shapes and parameters of nodes that were computed from them are unknown again. `values`: as ImportOptions::input_values.
// Throws Error(kUnsupported) if the graph cannot be exported.
Graph with_inputs(const Graph& graph, const std::set<std::string>& names, std::map<std::string, Tensor> values = {});

// The graph with all inputs that have a default as constants again.
Graph with_defaults(const Graph& graph);

// The graph without overridable weights: they are constants, and export does not list them among the inputs.
Graph with_fixed_inputs(const Graph& graph);

// The default of an input; null if it has none.
const Tensor* default_of(const Graph& graph, ValueId input);

}  // namespace rewright::graph
