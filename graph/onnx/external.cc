#include "graph/onnx/external.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "graph/file.h"
#include "graph/onnx/parts.h"

namespace rewright::graph {

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

std::uint64_t parse_number(const std::string& text, const char* what) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(ErrorCode::kBadInput, std::string("the ") + what + " of its external data is not a number: " + text);
  return number;
}

// Both paths without links.
bool is_within(const std::filesystem::path& folder, const std::filesystem::path& file) {
  return !folder.empty() && std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

// ---- Contents given in place of files

bool embed(onnx::TensorProto& tensor, ExternalData& external) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL || !data_type_of(tensor.data_type())) return false;
  TensorParts parts;
  parts.header = tensor;
  tensor = to_tensor_proto(to_tensor(parts, nullptr, external), tensor.name());
  return true;
}

bool embed(onnx::SparseTensorProto& sparse, ExternalData& external) {
  const bool values = embed(*sparse.mutable_values(), external);
  return embed(*sparse.mutable_indices(), external) || values;
}

bool embed(onnx::GraphProto& graph, ExternalData& external) {
  bool any = false;
  for (auto& tensor : *graph.mutable_initializer()) any = embed(tensor, external) || any;
  for (auto& sparse : *graph.mutable_sparse_initializer()) any = embed(sparse, external) || any;
  for (auto& node : *graph.mutable_node()) any = embed_external(node, external) || any;
  return any;
}

}  // namespace

bool embed_external(onnx::NodeProto& node, ExternalData& external) {
  bool any = false;
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t()) any = embed(*attribute.mutable_t(), external) || any;
    if (attribute.has_sparse_tensor()) any = embed(*attribute.mutable_sparse_tensor(), external) || any;
    if (attribute.has_g()) any = embed(*attribute.mutable_g(), external) || any;
    for (auto& tensor : *attribute.mutable_tensors()) any = embed(tensor, external) || any;
    for (auto& sparse : *attribute.mutable_sparse_tensors()) any = embed(sparse, external) || any;
    for (auto& graph : *attribute.mutable_graphs()) any = embed(graph, external) || any;
  }
  return any;
}

ExternalData::ExternalData(const std::filesystem::path& model, std::map<std::string, FileBytes> given)
    : given_(std::move(given)), folder_(model.parent_path()) {
  std::error_code unknown;  // without an answer there is only one folder
  const auto real = std::filesystem::canonical(model, unknown);
  if (!unknown) real_folder_ = real.parent_path();
}

std::filesystem::path ExternalData::resolve(const std::string& location) const {
  const std::filesystem::path relative(location);
  const std::string said = "its external data \"" + location + "\" ";
  const char* hint = "weights must lie in the folder of the model";
  if (location.empty() || relative.is_absolute())
    throw Error(ErrorCode::kBadInput, said + "is outside of the model's folder", {}, hint);
  std::error_code error;
  const auto root = std::filesystem::canonical(folder_->empty() ? "." : *folder_, error);
  const auto file = error ? std::filesystem::path() : std::filesystem::weakly_canonical(root / relative, error);
  if (error) throw Error(ErrorCode::kBadInput, said + "cannot be read: " + error.message());
  if (!is_within(root, file) && !is_within(real_folder_, file)) {
    const bool by_name = !is_within(root, (root / relative).lexically_normal());
    throw Error(ErrorCode::kBadInput, said + (by_name ? "is outside of" : "is a link out of") + " the model's folder", {},
                hint);
  }
  if (!std::filesystem::exists(file, error))
    throw Error(
        ErrorCode::kBadInput,
        said + "cannot be read: " + (error ? error : std::make_error_code(std::errc::no_such_file_or_directory)).message());
  return file;
}

const FileBytes& ExternalData::contents(const std::string& location) {
  if (const auto given = given_.find(location); given != given_.end()) return given->second;
  if (!folder_)
    throw Error(ErrorCode::kBadInput, "its data are in a file \"" + location + "\", but the model is not in a folder");
  const auto file = resolve(location);
  const auto mapped = files_.find(file);
  return mapped != files_.end() ? mapped->second : files_.emplace(file, map_file(file)).first->second;
}

FileBytes ExternalData::find(const onnx::TensorProto& tensor, std::size_t expected_bytes) {
  std::string location;
  std::uint64_t offset = 0;
  std::uint64_t length = expected_bytes;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_number(entry.value(), "offset");
    if (entry.key() == "length") length = parse_number(entry.value(), "length");
  }
  const FileBytes& content = contents(location);
  if (length != expected_bytes)
    throw Error(ErrorCode::kBadInput, "its external data have " + std::to_string(length) + " bytes, its type asks for " +
                                          std::to_string(expected_bytes));
  if (offset > content.bytes.size() || length > content.bytes.size() - offset)
    throw Error(ErrorCode::kBadInput, "its external data reach beyond the end of \"" + location + "\" (" +
                                          std::to_string(content.bytes.size()) + " bytes)");
  return {content.owner, content.bytes.subspan(offset, length)};
}

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

}  // namespace rewright::graph
