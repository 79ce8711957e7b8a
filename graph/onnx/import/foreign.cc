#include "graph/onnx/attributes.h"
#include "graph/onnx/model.h"

namespace rewright::graph {

const Procedure* find_procedure(const ImportedModel& model, const std::string& domain, const std::string& type) {
  const Procedure* const foreign = model.foreign ? model.foreign->find(domain, type) : nullptr;
  return foreign != nullptr ? foreign : operators::find_procedure(domain, type);
}

std::unordered_map<std::string, onnx::TypeProto> infer_foreign(const Procedure& procedure, const onnx::NodeProto& node,
                                                               const std::function<const Value*(const std::string&)>& value) {
  Procedure::KnownTypes inputs;
  for (const std::string& name : node.input()) {
    const Value* const given = name.empty() ? nullptr : value(name);
    auto& type = inputs.emplace_back();
    if (given == nullptr || !given->shape_known || given->type.type == DataType::kUndefined) continue;
    type.emplace();
    type->type = given->type.type;
    for (const Index& size : given->type.shape) type->sizes.push_back(size.constant().value_or(-1));
  }
  const Procedure::KnownTypes outputs =
      procedure.infer(PlainAttributes(node), inputs, static_cast<std::size_t>(node.output_size()));
  std::unordered_map<std::string, onnx::TypeProto> types;
  for (int i = 0; i < node.output_size(); ++i) {
    const auto& known = outputs.at(static_cast<std::size_t>(i));
    if (!known || node.output(i).empty()) continue;
    onnx::TypeProto_Tensor& type = *types[node.output(i)].mutable_tensor_type();
    type.set_elem_type(static_cast<int>(known->type));
    type.mutable_shape();
    for (const std::int64_t size : known->sizes) {
      auto* dim = type.mutable_shape()->add_dim();
      if (size >= 0) dim->set_dim_value(size);
    }
  }
  return types;
}

}  // namespace rewright::graph
