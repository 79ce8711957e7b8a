#include "graph/onnx_types.h"

namespace rewright {

namespace {

const onnx::TypeProto::Tensor* tensor_type(const onnx::TypeProto& type) {
  return type.has_tensor_type() ? &type.tensor_type() : nullptr;
}

// Exporters write "?" for every size that they do not know, so it names none.
bool is_named(const onnx::TensorShapeProto::Dimension& dim) { return !dim.dim_param().empty() && dim.dim_param() != "?"; }

std::string text_of(const Sizes& sizes) { return to_string(to_indices(sizes)); }

}  // namespace

DeclaredTypes::DeclaredTypes(const onnx::GraphProto& graph, const ImportOptions& options) {
  for (const auto* list : {&graph.input(), &graph.output(), &graph.value_info()})
    for (const onnx::ValueInfoProto& info : *list) note_names(info.type());
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const auto given = options.input_sizes.find(input.name());
    if (given != options.input_sizes.end()) give_size(input, given->second);
  }
  for (const auto* list : {&graph.value_info(), &graph.output()})
    for (const onnx::ValueInfoProto& info : *list)
      if (info.has_type()) values_[info.name()] = &info.type();
  for (const onnx::ValueInfoProto& input : graph.input()) {
    DeclaredType type = read(input.name(), input.type());
    if (const auto given = given_.find(input.name()); given != given_.end()) {
      type.type.shape = to_indices(*given->second);
      type.has_shape = true;
    }
    values_.try_emplace(input.name(), &input.type());
    inputs_.emplace(input.name(), std::move(type));
  }
}

void DeclaredTypes::note_names(const onnx::TypeProto& type) {
  const auto* tensor = tensor_type(type);
  if (tensor == nullptr) return;
  for (const auto& dim : tensor->shape().dim())
    if (is_named(dim)) size_names_.insert(dim.dim_param());
}

void DeclaredTypes::give_size(const onnx::ValueInfoProto& input, const Sizes& sizes) {
  const std::string where = "input \"" + input.name() + "\"";
  for (std::int64_t size : sizes)
    if (size < 0) throw Error(ErrorCode::kBadInput, "a size cannot be negative: " + text_of(sizes), where);
  const auto* tensor = tensor_type(input.type());
  if (tensor != nullptr && tensor->has_shape()) {
    if (static_cast<std::size_t>(tensor->shape().dim_size()) != sizes.size())
      throw Error(ErrorCode::kBadInput,
                  "the given size " + text_of(sizes) + " has " + std::to_string(sizes.size()) + " axes, the model declares " +
                      std::to_string(tensor->shape().dim_size()),
                  where);
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      const auto& dim = tensor->shape().dim(static_cast<int>(axis));
      if (dim.has_dim_value() && dim.dim_value() >= 0 && dim.dim_value() != sizes[axis])
        throw Error(ErrorCode::kBadInput,
                    "the given size " + text_of(sizes) + " contradicts the model: axis " + std::to_string(axis) + " is " +
                        std::to_string(dim.dim_value()),
                    where);
      if (!is_named(dim)) continue;
      const auto [known, is_new] = sizes_.emplace(dim.dim_param(), sizes[axis]);
      if (!is_new && known->second != sizes[axis])
        throw Error(ErrorCode::kBadInput,
                    "the given size " + text_of(sizes) + " contradicts another one: \"" + dim.dim_param() + "\" is " +
                        std::to_string(known->second),
                    where);
    }
  }
  given_.emplace(input.name(), &sizes);
}

Index DeclaredTypes::unnamed_size(const std::string& name, std::size_t axis) const {
  std::string symbol = name + "_" + std::to_string(axis);
  while (size_names_.contains(symbol)) symbol += "_";
  return Index::symbol(symbol);
}

DeclaredType DeclaredTypes::of_value(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? DeclaredType{} : read(name, *found->second);
}

DeclaredType DeclaredTypes::read(const std::string& name, const onnx::TypeProto& type) const {
  DeclaredType result;
  const auto* tensor = tensor_type(type);
  if (tensor == nullptr) return result;
  result.type.type = data_type_of(tensor->elem_type()).value_or(DataType::kUndefined);
  result.has_shape = tensor->has_shape();
  for (int axis = 0; axis < tensor->shape().dim_size(); ++axis) {
    const auto& dim = tensor->shape().dim(axis);
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      result.type.shape.emplace_back(dim.dim_value());
    } else if (is_named(dim)) {
      const auto given = sizes_.find(dim.dim_param());
      result.type.shape.push_back(given != sizes_.end() ? Index(given->second) : Index::symbol(dim.dim_param()));
    } else {
      result.type.shape.push_back(unnamed_size(name, static_cast<std::size_t>(axis)));
    }
  }
  return result;
}

void DeclaredTypes::check(const std::string& name, const TensorType& found) const {
  const auto declared = values_.find(name);
  if (declared == values_.end()) return;
  const auto* tensor = tensor_type(*declared->second);
  if (tensor == nullptr || found.type == DataType::kUndefined) return;
  const DataType type = data_type_of(tensor->elem_type()).value_or(DataType::kUndefined);
  if (type != DataType::kUndefined && type != found.type)
    throw Error(ErrorCode::kBadInput, "\"" + name + "\" is " + to_string(found) + ", but the model declares elements of type " +
                                          std::string(rewright::name(type)));
}

}  // namespace rewright
