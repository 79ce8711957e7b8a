#include "graph/onnx/import/specialize.h"

#include <algorithm>
#include <set>

#include "graph/onnx/import/importer.h"
#include "graph/onnx/import/overridable.h"
#include "graph/onnx/onnx.h"

namespace rewright::graph {

namespace {

bool is_whole(const Graph& graph) {
  return std::none_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) { return node->op == nullptr; });
}

}  // namespace

Graph read_again(const Graph& graph, std::span<const Tensor> inputs) {
  ExportOptions write;
  write.check = false;  // it was checked when it was read
  ImportOptions read;
  read.for_execution = true;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) read.input_sizes.emplace(graph.value(graph.inputs()[i]).name, inputs[i].sizes());
  std::set<std::string> given;  // weights that are inputs of this graph
  for (const ValueId id : graph.inputs())
    if (default_of(graph, id) != nullptr) given.insert(graph.value(id).name);
  return import_overridden(export_onnx_bytes(graph, write), "the model with known sizes", read, std::move(given));
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
