// Import of nodes that stay opaque, and the types of their outputs.
#include <set>

#include "graph/onnx/import/importer.h"
#include "operators/procedure.h"

namespace rewright::graph {

void Importer::import_opaque(const Source& source, std::string reason) {
  const onnx::NodeProto& proto = source.proto;
  Node node;
  node.opaque_reason = std::move(reason);
  auto origin = std::make_shared<Origin>();
  origin->node_proto = source.is_of_model() ? std::string(source.bytes) : serialize(proto);
  origin->opsets = source.opsets;
  origin->name = proto.name();
  origin->computation_hash = computation_hash(proto);
  for (const std::string& name : proto.input()) {
    const bool absent = name.empty();
    origin->inputs.push_back(
        {absent ? Origin::Input::Kind::kAbsent : Origin::Input::Kind::kInput, static_cast<std::uint32_t>(node.inputs.size())});
    node.inputs.push_back(absent ? kNoValue : id_of(name));
  }
  for (const std::string& name : source.captured) node.inputs.push_back(name.empty() ? kNoValue : id_of(name));
  const std::uint64_t number = opaque_nodes_++;
  for (const std::string& name : proto.output()) {
    if (name.empty()) {
      node.outputs.push_back(kNoValue);
      continue;
    }
    const DeclaredType type = opaque_type(source, number, name);
    Value value;
    if (source.is_of_model()) value.name = name;
    value.type = type.type;
    value.shape_known = type.is_complete();
    const ValueId id = graph_.add_value(std::move(value));
    define(name, id, where_of(proto));
    node.outputs.push_back(id);
  }
  node.origin = std::move(origin);
  if (canonical_domain(proto.domain()).empty() && proto.op_type() == "SequenceConstruct" && node.outputs.size() == 1)
    sequences_.emplace(node.outputs[0], node.inputs);
  graph_.add_raw(std::move(node));
}

// Inferred types come first, since they follow from the node. Declared types are used only where inference finds nothing, and
// not for outputs that only callers read: exporters often declare these wrongly, and nothing depends on them.
DeclaredType Importer::opaque_type(const Source& source, std::uint64_t number, const std::string& name) {
  DeclaredType declared = declared_->of_value(name);
  const bool is_declared = declared.is_complete();
  if (unread_outputs_.contains(name)) declared.has_shape = false;
  // Inference follows calls into functions, in exponential time if functions call each other repeatedly.
  if (is_declared && find_local_function(*model_, source.proto) != nullptr) return declared;
  if (inferred_for_ != number) infer_outputs(source);
  inferred_for_ = number;
  DeclaredType inferred;
  if (const auto found = inferred_.find(name); found != inferred_.end())
    inferred = read_type(found->second, [&](const onnx::TensorShapeProto::Dimension& dim, std::size_t axis) {
      const Index* const size = sizes_.find(dim.dim_param());
      return size != nullptr ? *size : declared_->own_size(name, axis);
    });
  if (inferred.is_complete()) return inferred;
  const bool contradicts = inferred.type.type != DataType::kUndefined && inferred.type.type != declared.type.type;
  return contradicts ? inferred : declared;
}

const onnx::ModelProto& Importer::functions_for_inference() {
  if (functions_) return *functions_;
  functions_.emplace();
  *functions_->mutable_functions() = model_->skeleton.functions();
  for (onnx::FunctionProto& function : *functions_->mutable_functions()) {
    for (onnx::ValueInfoProto& info : *function.mutable_value_info()) forget_size_names(*info.mutable_type());
    for (onnx::NodeProto& node : *function.mutable_node()) forget_inner_size_names(node);
  }
  return *functions_;
}

void Importer::infer_outputs(const Source& source) {
  const onnx::NodeProto& proto = source.proto;
  const Procedure* const procedure = find_procedure(*model_, canonical_domain(proto.domain()), proto.op_type());
  if (procedure != nullptr && procedure->infer) {
    take_inferred(proto, infer_foreign(*procedure, proto, [&](const std::string& name) { return &graph_.value(id_of(name)); }));
    return;
  }
  onnx::ModelProto model;
  model.set_ir_version(model_->skeleton.ir_version());
  for (const auto& [domain, version] : opsets_of(source)) {
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  if (find_local_function(*model_, proto) != nullptr || has_subgraphs(proto))
    *model.mutable_functions() = functions_for_inference().functions();
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::NodeProto& node = *graph.add_node();
  node = proto;
  forget_inner_size_names(node);
  // Explicit defaults: for STFT, for example, the default in its inference differs from that in its schema.
  const std::string domain = canonical_domain(proto.domain());
  if (const auto opset = opsets_of(source).find(domain); opset != opsets_of(source).end())
    add_default_attributes(node, domain, opset->second);
  std::set<std::string> inputs(proto.input().begin(), proto.input().end());
  inputs.insert(source.captured.begin(), source.captured.end());
  inputs.erase("");
  for (const std::string& name : inputs)
    if (!add_for_inference(name, graph)) return;
  take_inferred(proto, infer_types(std::move(model)));
}

void Importer::take_inferred(const onnx::NodeProto& proto, const std::unordered_map<std::string, onnx::TypeProto>& types) {
  std::map<std::string, std::string> met;  // inference's names of sizes (unk__0, ...), which are new for each node
  for (const std::string& name : proto.output()) {
    const auto found = types.find(name);
    if (name.empty() || found == types.end()) continue;
    onnx::TypeProto type = found->second;
    // A size within a sequence belongs to some element.
    forget_size_names(type, [&](const std::string& size) { return sizes_.find(size) != nullptr; });
    if (found->second.has_tensor_type()) {
      const auto& dims = found->second.tensor_type().shape().dim();
      for (int axis = 0; axis < dims.size(); ++axis) {
        if (!dims[axis].has_dim_param() || sizes_.find(dims[axis].dim_param()) != nullptr) continue;
        std::string& size = met[dims[axis].dim_param()];
        if (size.empty()) size = sizes_.name_of(declared_->own_size(name, static_cast<std::size_t>(axis)));
        type.mutable_tensor_type()->mutable_shape()->mutable_dim(axis)->set_dim_param(size);
      }
    }
    inferred_.insert_or_assign(name, std::move(type));
  }
}

bool Importer::add_for_inference(const std::string& name, onnx::GraphProto& graph) {
  const ValueId id = id_of(name);
  const Value& value = graph_.value(id);
  if (const Tensor* tensor = known_tensor(id)) {
    constexpr std::size_t kReadByInference = 8192;  // limit in bytes: shapes, axes, scales
    *graph.add_initializer() =
        tensor->byte_count() <= kReadByInference ? to_tensor_proto(*tensor, name) : tensor_header(*tensor, name);
  } else if (value.type.type != DataType::kUndefined) {
    onnx::ValueInfoProto& info = *graph.add_input();
    info = value_info(name, value.type, value.shape_known);
    for (std::size_t axis = 0; value.shape_known && axis < value.type.rank(); ++axis)
      if (const Index& size = value.type.shape[axis]; !size.is_constant())
        info.mutable_type()
            ->mutable_tensor_type()
            ->mutable_shape()
            ->mutable_dim(static_cast<int>(axis))
            ->set_dim_param(sizes_.name_of(size));
  } else if (const auto other = inferred_.find(name); other != inferred_.end()) {
    onnx::ValueInfoProto& info = *graph.add_input();
    info.set_name(name);
    *info.mutable_type() = other->second;
  } else {
    return false;
  }
  return true;
}

const std::string& NamedIndices::name_of(const Index& size) {
  const auto [name, is_new] = names_.try_emplace(size);
  if (is_new) {
    name->second = "size " + std::to_string(names_.size());
    sizes_.emplace(name->second, size);
  }
  return name->second;
}

const Index* NamedIndices::find(const std::string& name) const {
  const auto found = sizes_.find(name);
  return found == sizes_.end() ? nullptr : &found->second;
}

}  // namespace rewright::graph
