#include "graph/onnx/import/specialize.h"

#include <algorithm>
#include <set>

#include "graph/onnx/body.h"
#include "graph/onnx/import/importer.h"
#include "graph/onnx/import/overridable.h"
#include "graph/onnx/onnx.h"

namespace rewright::graph {

namespace {

bool is_whole(const Graph& graph) {
  return std::none_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) { return node->op == nullptr; });
}

// Exports the graph and imports it.
Graph imported_again(const Graph& graph, ImportOptions options) {
  ExportOptions write;
  write.check = false;  // it was checked when it was read
  options.for_execution = true;
  std::set<std::string> given;  // weights that are inputs of this graph
  for (const ValueId id : graph.inputs())
    if (default_of(graph, id) != nullptr) given.insert(graph.value(id).name);
  return import_overridden(export_onnx_bytes(graph, write), "the model with known sizes", options, std::move(given));
}

constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of constants that are copied

std::size_t constant_bytes(const Graph& graph) {
  std::size_t bytes = 0;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.value_count()); ++id)
    if (graph.is_constant(id)) bytes += graph.value(id).constant.byte_count();
  return bytes;
}

// Is the node opaque, and executed as a graph of operators?
bool is_executed_as_graph(const Node& node) {
  if (node.op != nullptr || !node.origin) return false;
  const Procedure* const procedure = operators::find_procedure("", onnx_operator(node));
  return procedure != nullptr && procedure->graph && !procedure->run;
}

auto count_of_opaque(const Graph& graph) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) { return node->op == nullptr; });
}

}  // namespace

Graph read_again(const Graph& graph, std::span<const Tensor> inputs) {
  ImportOptions read;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) read.input_sizes.emplace(graph.value(graph.inputs()[i]).name, inputs[i].sizes());
  return imported_again(graph, std::move(read));
}

Graph written_out(const Graph& graph) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) { return is_executed_as_graph(*node); }) ||
      !graph.model() || constant_bytes(graph) > kMostBytes)
    return graph;
  for (const ValueId id : graph.inputs())
    if (!graph.value(id).shape_known || !all_constant(graph.value(id).type.shape)) return graph;
  ImportOptions read;
  read.procedures_as_graphs = true;
  read.foreign = graph.model()->foreign;
  try {
    Graph written = imported_again(graph, std::move(read));
    return count_of_opaque(written) < count_of_opaque(graph) ? written : graph;
  } catch (const Error&) {  // execution reports what is wrong with a node
    return graph;
  }
}

bool is_open_and_empty(const Graph& graph, std::span<const Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    if (inputs[i] && inputs[i].size() == 0 && !(value.shape_known && all_constant(value.type.shape))) return true;
  }
  return false;
}

namespace {

template <class WithSizes, class Again>
Graph specialized(const Graph& graph, std::span<const Tensor> inputs, const WithSizes& with, const Again& read) {
  const Substitution sizes = bind_sizes(graph, inputs);
  if (is_open_and_empty(graph, inputs)) return read();
  try {
    return with(sizes);
  } catch (const Error& contradiction) {
    if (contradiction.code() != ErrorCode::kBadInput) throw;
    Graph again = read();
    if (is_whole(graph) && !is_whole(again)) throw;
    return again;
  }
}

}  // namespace

Graph specialized(const Graph& graph, std::span<const Tensor> inputs) {
  return specialized(
      graph, inputs, [&](const Substitution& sizes) { return with_sizes(graph, sizes); },
      [&] { return read_again(graph, inputs); });
}

Graph specialized(const OpenGraph& graph, std::span<const Tensor> inputs) {
  return specialized(graph, graph.graph(), {}, inputs);
}

Graph specialized(const OpenGraph& graph, const Graph& written, const std::function<Graph(const Graph&)>& form,
                  std::span<const Tensor> inputs) {
  return specialized(
      graph.graph(), inputs, [&](const Substitution& sizes) { return graph.with_sizes(sizes); },
      [&] {
        Graph again = read_again(written, inputs);
        return form ? form(again) : again;
      });
}

}  // namespace rewright::graph
