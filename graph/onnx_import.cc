// From ONNX's bytes to a graph: the values of a model, and the order of what is read.
#include <unordered_set>

#include "graph/differentiate.h"
#include "graph/onnx_importer.h"

namespace rewright {

Graph Importer::run() {
  parts_ = split_model(model_->source.text());
  model_->skeleton = std::move(parts_.skeleton);
  model_->opsets = parts_.opsets;
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
  graph_.set_model(std::move(model_));
  return std::move(graph_);
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
    define(initializer.name, initializer.value, where);
    model_->initializers.push_back(std::move(initializer));
  }
  for (const auto& sparse : model_->skeleton.graph().sparse_initializer()) {
    const std::string& name = sparse.values().name();
    define(name, add_unread(name, data_type_of(sparse.values().data_type()), {sparse.dims().begin(), sparse.dims().end()}),
           "sparse initializer " + in_quotes(name));
  }
}

ImportedModel::Initializer Importer::read_initializer(std::string_view bytes, std::string& where) {
  const TensorParts parts = split_tensor(bytes);
  ImportedModel::Initializer initializer;
  initializer.proto = bytes;
  initializer.name = parts.header.name();
  where = "initializer " + in_quotes(initializer.name);
  initializer.is_external = parts.header.data_location() == onnx::TensorProto::EXTERNAL;
  try {
    initializer.tensor = to_tensor(parts, model_->source.owner, external_);
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

void Importer::read_inputs() {
  std::unordered_set<std::string> seen;
  for (const auto& input : model_->skeleton.graph().input()) {
    if (!seen.insert(input.name()).second)
      throw Error(ErrorCode::kBadInput, "is declared twice", "input " + in_quotes(input.name()));
    // An input with an initializer is a weight that callers could override; sessions do not list it, and neither do graphs.
    if (names_.contains(input.name())) continue;
    if (const auto outer = options_.outer_constants.find(input.name()); outer != options_.outer_constants.end()) {
      const ValueId id = graph_.add_constant(outer->second, input.name());
      model_->outer_constants.emplace_back(id, outer->second);
      define(input.name(), id, "a constant of an outer graph");
      continue;
    }
    const DeclaredType& type = declared_->of_input(input.name());
    const ValueId id = graph_.add_input(input.name(), type.type);
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
  constexpr std::int64_t kSmall = 1024;  // what shapes and parameters are made of
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
                    std::string size_scope = {}) {
  try {
    if (source.bytes.empty()) throw Error(ErrorCode::kBadInput, "is empty");
    return Importer(std::move(source), std::move(external), options, std::move(size_scope)).run();
  } catch (const Error& error) {
    throw error.within(name);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kMissing, "not enough memory to read it", name);
  }
}

}  // namespace

Graph import_onnx(const std::filesystem::path& file, const ImportOptions& options) {
  const FileBytes source = map_file(file);
  Graph graph = import_source(source, ExternalData(file.parent_path()), file.string(), options);
  release_pages(source);  // most weights were copied, because they were not aligned in the file
  return graph;
}

Graph import_onnx_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options) {
  return import_inner_bytes(bytes, name, options, {});
}

Graph import_inner_bytes(std::string_view bytes, const std::string& name, const ImportOptions& options,
                         std::string size_scope) {
  auto copy = std::make_shared<const std::string>(bytes);
  const auto span = std::as_bytes(std::span(copy->data(), copy->size()));
  return import_source({std::move(copy), span}, ExternalData(), name, options, std::move(size_scope));
}

}  // namespace rewright
