#include "graph/onnx/types.h"

namespace rewright::graph {

namespace {

const onnx::TypeProto::Tensor* tensor_type(const onnx::TypeProto& type) {
  return type.has_tensor_type() ? &type.tensor_type() : nullptr;
}

// Exporters write "?" for every unknown size, so it is not a name.
bool is_named(const onnx::TensorShapeProto::Dimension& dim) { return !dim.dim_param().empty() && dim.dim_param() != "?"; }

void add_size_names(const onnx::TypeProto& type, std::set<std::string>& names) {
  const auto* tensor = tensor_type(type);
  if (tensor == nullptr) return;
  for (const auto& dim : tensor->shape().dim())
    if (is_named(dim)) names.insert(dim.dim_param());
}

std::string text_of(const Sizes& sizes) { return to_string(to_indices(sizes)); }

}  // namespace

DeclaredType read_type(const onnx::TypeProto& type, const SizeOfDim& size_of) {
  DeclaredType result;
  const auto* tensor = tensor_type(type);
  if (tensor == nullptr) return result;
  result.type.type = data_type_of(tensor->elem_type()).value_or(DataType::kUndefined);
  result.has_shape = tensor->has_shape();
  for (int axis = 0; axis < tensor->shape().dim_size(); ++axis) {
    const auto& dim = tensor->shape().dim(axis);
    const bool is_number = dim.has_dim_value() && dim.dim_value() >= 0;
    result.type.shape.push_back(is_number ? Index(dim.dim_value()) : size_of(dim, static_cast<std::size_t>(axis)));
  }
  return result;
}

DeclaredTypes::DeclaredTypes(const onnx::GraphProto& graph, const ImportOptions& options, const std::string& size_scope)
    : scope_(size_scope) {
  for (const auto* list : {&graph.input(), &graph.output(), &graph.value_info()})
    for (const onnx::ValueInfoProto& info : *list) add_size_names(info.type(), taken_);
  for (const onnx::ValueInfoProto& input : graph.input()) add_size_names(input.type(), input_size_names_);
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const auto given = options.input_sizes.find(input.name());
    if (given != options.input_sizes.end()) give_size(input, given->second);
  }
  for (const onnx::ValueInfoProto& output : graph.output()) outputs_.insert(output.name());
  for (const auto* list : {&graph.value_info(), &graph.output()})
    for (const onnx::ValueInfoProto& info : *list)
      if (info.has_type()) values_[info.name()] = &info.type();
  for (const onnx::ValueInfoProto& input : graph.input()) {
    DeclaredType type = read(input.name(), input.type());
    if (const auto given = given_.find(input.name()); given != given_.end()) {
      type.type.shape = to_indices(*given->second);
      type.has_shape = true;
    }
    for (const Index& size : type.type.shape)
      if (const Atom* atom = size.as_atom()) input_size_symbols_.insert(atom->name);
    values_.try_emplace(input.name(), &input.type());
    inputs_.emplace(input.name(), std::move(type));
  }
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

Index DeclaredTypes::own_size(const std::string& value, std::size_t axis) {
  const auto [own, is_new] = own_sizes_.try_emplace({value, axis});
  std::string& symbol = own->second;
  if (is_new) {
    symbol = scope_ + value + "_" + std::to_string(axis);
    // Names in the bodies of functions contain control characters.
    std::erase_if(symbol, [](char c) { return static_cast<unsigned char>(c) < ' '; });
    while (!taken_.insert(symbol).second) symbol += "_";
  }
  return Index::symbol(symbol);
}

DeclaredType DeclaredTypes::of_value(const std::string& name) {
  const auto found = values_.find(name);
  return found == values_.end() ? DeclaredType{} : read(name, *found->second);
}

DeclaredType DeclaredTypes::read(const std::string& name, const onnx::TypeProto& type) {
  return read_type(type, [&](const onnx::TensorShapeProto::Dimension& dim, std::size_t axis) {
    if (!is_named(dim) || !input_size_names_.contains(dim.dim_param()) || outputs_.contains(name)) return own_size(name, axis);
    const auto given = sizes_.find(dim.dim_param());
    return given != sizes_.end() ? Index(given->second) : Index::symbol(dim.dim_param());
  });
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

}  // namespace rewright::graph
