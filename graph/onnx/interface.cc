#include "graph/onnx/interface.h"

#include <onnx/defs/data_type_utils.h>

#include "graph/onnx/model.h"

namespace rewright::graph {

namespace {

template <class List>
const onnx::ValueInfoProto* find(const List& list, const std::string& name) {
  for (const auto& info : list)
    if (info.name() == name && info.has_type()) return &info;
  return nullptr;
}

std::optional<std::vector<Declaration::Size>> sizes_of(const onnx::TypeProto::Tensor& type) {
  if (!type.has_shape()) return std::nullopt;
  std::vector<Declaration::Size> sizes;
  for (const auto& dim : type.shape().dim()) {
    Declaration::Size& size = sizes.emplace_back();
    if (dim.has_dim_value() && dim.dim_value() >= 0) size.number = dim.dim_value();
    if (dim.has_dim_param()) size.name = dim.dim_param();
  }
  return sizes;
}

Declaration declaration(const onnx::ValueInfoProto& info) {
  Declaration result;
  result.name = info.name();
  result.is_tensor = info.type().has_tensor_type();
  if (result.is_tensor) {
    const auto& tensor = info.type().tensor_type();
    result.elements = data_type_of(tensor.elem_type()).value_or(DataType::kUndefined);
    if (result.elements == DataType::kUndefined) return result;
    result.shape = sizes_of(tensor);
  }
  try {
    result.type = *onnx::Utils::DataTypeUtils::ToType(info.type());
  } catch (const std::exception&) {  // a kind of value unknown to this version of ONNX
  }
  return result;
}

}  // namespace

Declaration declaration_of(const onnx::ValueInfoProto& info) { return declaration(info); }

namespace {

// The declared type, or the inferred one where the model declares none.
template <class List>
Declaration declaration(const Graph& graph, const List* list, const std::string& name, const TensorType& type,
                        bool shape_known) {
  const bool as_declared = list != nullptr && !graph.model()->sizes_given;
  if (const auto* info = as_declared ? find(*list, name) : nullptr) {
    Declaration declared = declaration(*info);
    if (!declared.is_tensor || declared.shape || !shape_known) return declared;
  }
  const std::set<std::string> names = given_size_names(graph);
  Declaration found = declaration(value_info(name, type, shape_known, &names));
  found.is_tensor = type.type != DataType::kUndefined;
  return found;
}

}  // namespace

std::string tensor_type_text(DataType elements) { return declaration(value_info("", {elements, {}}, false)).type; }

std::vector<Declaration> declared_inputs(const Graph& graph) {
  const auto* list = graph.model() ? &graph.model()->skeleton.graph().input() : nullptr;
  std::vector<Declaration> result;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    result.push_back(declaration(graph, list, value.name, value.type, value.shape_known));
  }
  return result;
}

std::vector<Declaration> declared_outputs(const Graph& graph) {
  const auto* list = graph.model() ? &graph.model()->skeleton.graph().output() : nullptr;
  std::vector<Declaration> result;
  for (const GraphOutput& output : graph.outputs())
    result.push_back(declaration(graph, list, output.name, output.type, output.shape_known));
  return result;
}

ModelDescription describe_model(const Graph& graph) {
  ModelDescription result;
  if (!graph.model()) return result;
  const onnx::ModelProto& model = graph.model()->skeleton;
  result = {model.producer_name(), model.producer_version(),   model.domain(),        model.doc_string(),
            model.graph().name(),  model.graph().doc_string(), model.model_version(), {}};
  for (const auto& entry : model.metadata_props()) result.metadata[entry.key()] = entry.value();
  return result;
}

}  // namespace rewright::graph
