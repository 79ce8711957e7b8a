// Import of nodes that stay as they are, and the types of their outputs.
#include <set>

#include "graph/onnx_importer.h"
#include "operators/procedure.h"

namespace rewright {

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

DeclaredType Importer::opaque_type(const Source& source, std::uint64_t number, const std::string& name) {
  DeclaredType type = declared_->of_value(name);
  if (type.is_complete()) return type;
  if (inferred_for_ != number) infer_outputs(source);
  inferred_for_ = number;
  const auto found = inferred_.find(name);
  if (found == inferred_.end()) return type;
  DeclaredType better = declared_->read(name, found->second);
  return better.is_complete() || type.type.type == DataType::kUndefined ? better : type;
}

void Importer::infer_outputs(const Source& source) {
  const onnx::NodeProto& proto = source.proto;
  const Procedure* const procedure = find_procedure(*model_, canonical_domain(proto.domain()), proto.op_type());
  if (procedure != nullptr && procedure->infer) {
    inferred_.merge(infer_foreign(*procedure, proto, [&](const std::string& name) { return &graph_.value(id_of(name)); }));
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
    *model.mutable_functions() = model_->skeleton.functions();
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::NodeProto& node = *graph.add_node();
  node = proto;
  // With their defaults: that of STFT, for one, is another in its inference than in its description.
  const std::string domain = canonical_domain(proto.domain());
  if (const auto opset = opsets_of(source).find(domain); opset != opsets_of(source).end())
    add_default_attributes(node, domain, opset->second);
  std::set<std::string> inputs(proto.input().begin(), proto.input().end());
  inputs.insert(source.captured.begin(), source.captured.end());
  inputs.erase("");
  for (const std::string& name : inputs)
    if (!add_for_inference(name, graph)) return;
  inferred_.merge(infer_types(std::move(model)));
}

bool Importer::add_for_inference(const std::string& name, onnx::GraphProto& graph) const {
  const ValueId id = id_of(name);
  const Value& value = graph_.value(id);
  if (const Tensor* tensor = known_tensor(id)) {
    constexpr std::size_t kReadByInference = 8192;  // bytes: shapes, axes, scales
    *graph.add_initializer() =
        tensor->byte_count() <= kReadByInference ? to_tensor_proto(*tensor, name) : tensor_header(*tensor, name);
  } else if (value.type.type != DataType::kUndefined) {
    *graph.add_input() = value_info(name, value.type, value.shape_known);
  } else if (const auto other = inferred_.find(name); other != inferred_.end()) {
    onnx::ValueInfoProto& info = *graph.add_input();
    info.set_name(name);
    *info.mutable_type() = other->second;
  } else {
    return false;
  }
  return true;
}

}  // namespace rewright
