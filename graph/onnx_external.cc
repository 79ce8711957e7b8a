#include "graph/onnx_external.h"

#include <set>

#include "graph/file.h"
#include "graph/onnx_parts.h"

namespace rewright {

namespace {

void add(const onnx::TensorProto& tensor, std::set<std::string>& files) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
  for (const auto& entry : tensor.external_data())
    if (entry.key() == "location") files.insert(entry.value());
}

void add(const onnx::NodeProto& node, std::set<std::string>& files);

void add(const onnx::GraphProto& graph, std::set<std::string>& files) {
  for (const auto& tensor : graph.initializer()) add(tensor, files);
  for (const auto& sparse : graph.sparse_initializer()) {
    add(sparse.values(), files);
    add(sparse.indices(), files);
  }
  for (const auto& node : graph.node()) add(node, files);
}

void add(const onnx::NodeProto& node, std::set<std::string>& files) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_t()) add(attribute.t(), files);
    if (attribute.has_g()) add(attribute.g(), files);
    for (const auto& tensor : attribute.tensors()) add(tensor, files);
    for (const auto& graph : attribute.graphs()) add(graph, files);
  }
}

}  // namespace

std::vector<std::string> external_files(const std::filesystem::path& file) {
  const FileBytes content = map_file(file);
  std::set<std::string> files;
  try {
    const ModelParts parts = split_model(content.text());
    add(parts.skeleton.graph(), files);
    for (const auto& function : parts.skeleton.functions())
      for (const auto& node : function.node()) add(node, files);
    for (const auto& node : parts.nodes) add(node, files);
    for (const std::string_view bytes : parts.initializer_bytes) add(split_tensor(bytes).header, files);
  } catch (const Error& error) {
    throw error.within(file.string());
  }
  return {files.begin(), files.end()};
}

}  // namespace rewright
