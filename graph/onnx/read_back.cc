#include "graph/onnx/read_back.h"

#include "graph/onnx/model.h"
#include "graph/onnx/onnx.h"

namespace rewright::graph {

std::optional<Graph> read_back(const Graph& graph, std::size_t most_bytes) {
  std::size_t bytes = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id) bytes += graph.value(id).constant.byte_count();
  if (bytes > most_bytes) return std::nullopt;
  ExportOptions written = kRewritten;
  written.check = false;
  ImportOptions read;
  if (graph.model()) read.foreign = graph.model()->foreign;
  return import_onnx_bytes(export_onnx_bytes(graph, written), "the written model", read);
}

}  // namespace rewright::graph
