#include "runtime/cpu/precision.h"

#include <map>

namespace rewright::cpu {

namespace {

bool is_narrow(DataType type) { return is_real(type) && type != DataType::kDouble; }

TensorType widened(TensorType type) {
  if (is_narrow(type.type)) type.type = DataType::kDouble;
  return type;
}

}  // namespace

Tensor widened(const Tensor& tensor) {
  if (!tensor || !is_narrow(tensor.type())) return tensor;
  return Tensor::from_reals(DataType::kDouble, tensor.sizes(), tensor.reals());
}

Tensor narrowed(const Tensor& tensor, DataType type) {
  if (tensor.type() != DataType::kDouble || !is_narrow(type)) return tensor;
  return Tensor::from_reals(type, tensor.sizes(), tensor.reals());
}

Graph in_double(const Graph& graph) {
  Graph wide;
  std::map<ValueId, ValueId> copies{{kNoValue, kNoValue}};
  try {
    for (const ValueId i : graph.inputs()) copies[i] = wide.add_input(graph.value(i).name, widened(graph.value(i).type));
    const auto copy_of = [&](ValueId v) {
      const auto [found, added] = copies.emplace(v, kNoValue);
      if (added) found->second = wide.add_constant(widened(graph.value(v).constant), graph.value(v).name);
      return found->second;
    };
    for (const auto& node : graph.nodes()) {
      if (node->op == nullptr) return graph;
      Attributes attributes = node->attributes;
      for (AttributeValue& a : attributes)
        if (auto* type = std::get_if<DataType>(&a); type != nullptr && is_narrow(*type)) *type = DataType::kDouble;
      for (AttributeValue& a : attributes)
        if (auto* tensor = std::get_if<Tensor>(&a)) *tensor = widened(*tensor);
      std::vector<ValueId> inputs;
      for (const ValueId i : node->inputs) inputs.push_back(copy_of(i));
      const std::vector<ValueId> outputs = wide.add_node(*node->op, std::move(attributes), inputs);
      for (std::size_t o = 0; o < node->outputs.size(); ++o)
        if (node->outputs[o] != kNoValue) copies[node->outputs[o]] = outputs.at(o);
    }
    for (const GraphOutput& o : graph.outputs()) wide.add_output(o.name, copy_of(o.value));
  } catch (const Error&) {
    return graph;
  }
  return wide;
}

}  // namespace rewright::cpu
