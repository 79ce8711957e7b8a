// Import: from ONNX's bytes to a graph. Values, and the order of reading.
#include <algorithm>
#include <unordered_set>

#include "graph/gradients/differentiate.h"
#include "graph/onnx/import/importer.h"

namespace rewright::graph {

Graph Importer::run() {
  parts_ = split_model(model_->source.text());
  model_->skeleton = std::move(parts_.skeleton);
  model_->opsets = parts_.opsets;
  give_sizes(*model_->skeleton.mutable_graph());
  embed_external_data();
  check_function_calls(model_->skeleton);
  index_functions(*model_);
  declared_.emplace(model_->skeleton.graph(), options_, model_->size_scope);
  model_->sizes_given = !options_.input_sizes.empty();
  read_initializers();
  read_inputs();
  as_graphs_ = options_.procedures_as_graphs || std::any_of(parts_.nodes.begin(), parts_.nodes.end(), [](const auto& node) {
                 return !differentiated_names(node).empty();
               });
  order_ = order_nodes(parts_, [&](const std::string& name) { return names_.contains(name); });
  for (const auto& output : model_->skeleton.graph().output())
    if (order_.read_names.insert(output.name()).second) unread_outputs_.insert(output.name());
  for (std::size_t i : order_.order) import_node(i);
  read_outputs();
  for (auto& initializer : model_->initializers) initializer.is_unused = !order_.read_names.contains(initializer.name);
  for (auto& initializer : model_->sparse_initializers) initializer.is_unused = !order_.read_names.contains(initializer.name);
  graph_.set_model(std::move(model_));
  return std::move(graph_);
}

void Importer::embed_external_data() {
  for (auto& function : *model_->skeleton.mutable_functions())
    for (auto& node : *function.mutable_node()) embed_external(node, external_);
  for (std::size_t i = 0; i < parts_.nodes.size(); ++i) {
    try {
      if (embed_external(parts_.nodes[i], external_)) parts_.node_bytes[i] = embedded_.emplace_back(serialize(parts_.nodes[i]));
    } catch (const Error& error) {
      throw error.within(where_of(parts_.nodes[i]));
    }
  }
}

void Importer::define(const std::string& name, ValueId id, const std::string& by) {
  if (name.empty()) throw Error(ErrorCode::kBadInput, "has no name", by);
  const auto [at, is_new] = names_.emplace(name, id);
  if (!is_new) throw Error(ErrorCode::kBadInput, "is defined twice, the second time by " + by, "tensor " + in_quotes(name));
}

ValueId Importer::id_of(const std::string& name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) throw Error(ErrorCode::kBadInput, "its input " + in_quotes(name) + " is not defined");
  return found->second;
}

void Importer::read_initializers() {
  for (std::string_view bytes : parts_.initializer_bytes) {
    std::string where = "an initializer";
    ImportedModel::Initializer initializer;
    try {
      initializer = read_initializer(bytes, where);
    } catch (const Error& error) {
      throw error.within(where);
    }
    if (!initializer.is_default) define(initializer.name, initializer.value, where);
    model_->initializers.push_back(std::move(initializer));
  }
  for (const auto& [name, weight] : given_.weights)
    if (weight.is_external && std::none_of(model_->initializers.begin(), model_->initializers.end(),
                                           [&wanted = name](const auto& initializer) { return initializer.name == wanted; }))
      throw Error(ErrorCode::kBadInput,
                  "data are given for initializer " + in_quotes(name) + ", which the model does not have");
  for (const auto& sparse : model_->skeleton.graph().sparse_initializer()) read_sparse_initializer(sparse);
}

void Importer::read_sparse_initializer(const onnx::SparseTensorProto& proto) {
  const std::string& name = proto.values().name();
  const std::string where = "sparse initializer " + in_quotes(name);
  ImportedModel::SparseInitializer initializer{name, kNoValue, {}};
  try {
    constexpr std::size_t kMostBytes = std::size_t{1} << 31;  // Protobuf's limit for a dense tensor in a file
    initializer.tensor = to_tensor(proto, external_, std::min(kMostBytes, options_.max_bytes - initializer_bytes_));
    initializer_bytes_ += initializer.tensor.byte_count();
    initializer.value = graph_.add_constant(initializer.tensor, name);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw error.within(where);
    initializer.value = add_unread(name, data_type_of(proto.values().data_type()), {proto.dims().begin(), proto.dims().end()});
  }
  define(name, initializer.value, where);
  model_->sparse_initializers.push_back(std::move(initializer));
}

ImportedModel::Initializer Importer::read_initializer(std::string_view bytes, std::string& where) {
  const TensorParts parts = split_tensor(bytes);
  ImportedModel::Initializer initializer;
  initializer.proto = bytes;
  initializer.name = parts.header.name();
  where = "initializer " + in_quotes(initializer.name);
  initializer.is_external = parts.header.data_location() == onnx::TensorProto::EXTERNAL;
  const auto given = given_.weights.find(initializer.name);
  try {
    if (given != given_.weights.end()) {
      initializer.tensor = given_weight(given->second, parts.header);
      initializer.is_external = true;
    } else {
      initializer.tensor = to_tensor(parts, model_->source.owner, external_);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
  }
  if (!initializer.tensor) {
    initializer.value = add_unread(initializer.name, data_type_of(parts.header.data_type()),
                                   {parts.header.dims().begin(), parts.header.dims().end()});
    return initializer;
  }
  initializer_bytes_ += initializer.tensor.byte_count();
  if (initializer_bytes_ > options_.max_bytes)
    throw Error(ErrorCode::kMissing, "the weights take more than " + std::to_string(options_.max_bytes) + " bytes");
  declared_->check(initializer.name, {initializer.tensor.type(), to_indices(initializer.tensor.sizes())});
  initializer.is_default = is_overridden(initializer.name);
  if (initializer.is_default) return initializer;
  initializer.value = graph_.add_constant(initializer.tensor, initializer.name);
  return initializer;
}

ValueId Importer::add_unread(const std::string& name, std::optional<DataType> type, const Sizes& sizes) {
  Value value;
  value.name = name;
  value.type = {type.value_or(DataType::kUndefined), to_indices(sizes)};
  value.shape_known = type.has_value();
  return graph_.add_value(std::move(value));
}

bool Importer::is_overridden(const std::string& name) const {
  const auto& inputs = model_->skeleton.graph().input();
  return overridden_.contains(name) && model_->skeleton.ir_version() >= kWeightsNeedNoInput &&
         std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) { return input.name() == name; });
}

void Importer::read_inputs() {
  std::unordered_map<std::string, ImportedModel::Initializer*> defaults;
  for (auto& initializer : model_->initializers)
    if (initializer.is_default && !defaults.emplace(initializer.name, &initializer).second)
      throw Error(ErrorCode::kBadInput, "is defined twice", "initializer " + in_quotes(initializer.name));
  std::unordered_set<std::string> seen;
  for (const auto& input : model_->skeleton.graph().input()) {
    if (!seen.insert(input.name()).second)
      throw Error(ErrorCode::kBadInput, "is declared twice", "input " + in_quotes(input.name()));
    // An input with an initializer is a weight that callers could override. Neither sessions nor graphs list it as an input.
    if (names_.contains(input.name())) continue;
    if (const auto outer = options_.outer_constants.find(input.name()); outer != options_.outer_constants.end()) {
      const ValueId id = graph_.add_constant(outer->second, input.name());
      model_->outer_constants.emplace_back(id, outer->second);
      define(input.name(), id, "a constant of an outer graph");
      continue;
    }
    const auto of_default = defaults.find(input.name());
    DeclaredType type = declared_->of_input(input.name());
    if (of_default != defaults.end() && !type.is_complete()) {
      const Tensor& tensor = of_default->second->tensor;
      type = {{tensor.type(), to_indices(tensor.sizes())}, true};
    }
    const ValueId id = graph_.add_input(input.name(), type.type);
    if (of_default != defaults.end()) of_default->second->value = id;
    Value value = graph_.value(id);
    value.shape_known = type.is_complete();
    if (const auto given = options_.input_values.find(input.name()); given != options_.input_values.end())
      give_value(id, value, given->second);
    graph_.set_value(id, std::move(value));
    define(input.name(), id, "an input of the model");
  }
  for (const auto& [name, unused] : options_.input_sizes)
    if (!seen.contains(name))
      throw Error(ErrorCode::kUsage, "a size is given for input " + in_quotes(name) + ", which the model does not have");
}

void Importer::give_value(ValueId id, Value& value, const Tensor& tensor) {
  constexpr std::int64_t kSmall = 1024;  // the most elements from which shapes and parameters are computed
  if (tensor.size() > kSmall) return;
  if (is_integer(tensor.type()) || tensor.type() == DataType::kBool) value.contents = to_indices(tensor.integers());
  known_[id] = tensor;
}

void Importer::read_outputs() {
  std::vector<GraphOutput> outputs;
  std::unordered_set<std::string> seen;
  for (const auto& output : model_->skeleton.graph().output()) {
    const auto found = names_.find(output.name());
    if (found == names_.end()) throw Error(ErrorCode::kBadInput, "nothing defines it", "output " + in_quotes(output.name()));
    if (!seen.insert(output.name()).second)
      throw Error(ErrorCode::kBadInput, "is declared twice", "output " + in_quotes(output.name()));
    const Value& value = graph_.value(found->second);
    if (value.shape_known) {
      outputs.push_back({output.name(), found->second, value.type, true});
    } else {
      const DeclaredType type = declared_->of_value(output.name());
      outputs.push_back({output.name(), found->second, type.type, type.is_complete()});
    }
  }
  graph_.set_outputs(std::move(outputs));
}

const Tensor* Importer::known_tensor(ValueId id) const {
  if (const Value& value = graph_.value(id); value.constant) return &value.constant;
  const auto known = known_.find(id);
  return known == known_.end() ? nullptr : &known->second;
}

namespace {

Graph import_source(FileBytes source, ExternalData external, const std::string& name, const ImportOptions& options,
                    const GivenParts& given, std::string size_scope = {}, std::set<std::string> overridden = {}) {
  try {
    if (source.bytes.empty()) throw Error(ErrorCode::kBadInput, "is empty");
    return Importer(std::move(source), std::move(external), options, given, std::move(size_scope), std::move(overridden)).run();
  } catch (const Error& error) {
    throw error.within(name);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kMissing, "not enough memory to read it", name);
  }
}

FileBytes copied_bytes(std::string_view bytes) {
  auto copy = std::make_shared<const std::string>(bytes);
  const auto span = std::as_bytes(std::span(copy->data(), copy->size()));
  return {std::move(copy), span};
}

}  // namespace

Graph import_onnx(const std::filesystem::path& file, const ImportOptions& options, const GivenParts& given) {
  const FileBytes source = map_file(file);
  Graph graph = import_source(source, ExternalData(file, given.external_files), file.string(), options, given);
  release_pages(source);  // most weights were copied since the file does not align them
  return graph;
}

Graph import_onnx_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options,
                        const GivenParts& given) {
  return import_source(copied_bytes(bytes), ExternalData(given.external_files), name, options, given);
}

Graph import_onnx(const std::filesystem::path& file, const ImportOptions& options) { return import_onnx(file, options, {}); }

Graph import_onnx_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options) {
  return import_onnx_bytes(bytes, name, options, {});
}

Graph import_inner_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options,
                         std::string size_scope) {
  return import_source(copied_bytes(bytes), ExternalData(), name, options, {}, std::move(size_scope));
}

Graph import_overridden(std::string_view bytes, const std::string& name, const ImportOptions& options,
                        std::set<std::string> overridden) {
  return import_source(copied_bytes(bytes), ExternalData(), name, options, {}, {}, std::move(overridden));
}

}  // namespace rewright::graph
