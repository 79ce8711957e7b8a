#include "graph/onnx/given.h"

#include <cctype>

#include "graph/onnx/import/importer.h"

namespace rewright::graph {

namespace {

using NamedSizes = std::map<std::string, std::int64_t>;

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::int64_t checked_size(const std::string& name, std::int64_t size) {
  if (size < 0) throw Error(ErrorCode::kBadInput, "the size of " + in_quotes(name) + " cannot be " + std::to_string(size));
  return size;
}

[[noreturn]] void refuse_second(const std::string& what, std::int64_t size, std::int64_t other) {
  throw Error(ErrorCode::kBadInput, what + " is given the size " + std::to_string(size) + ", but is " + std::to_string(other));
}

template <class Visit>
void each_dimension(google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& list, const Visit& visit) {
  for (auto& info : list)
    if (info.type().has_tensor_type() && info.type().tensor_type().has_shape())
      for (auto& dim : *info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) visit(dim);
}

}  // namespace

void Importer::give_sizes(onnx::GraphProto& graph) const {
  NamedSizes named, denoted;
  for (const auto& [name, size] : given_.named_sizes) named.emplace(name, checked_size(name, size));
  for (const auto& [denotation, size] : given_.denoted_sizes)
    denoted.emplace(lower_case(denotation), checked_size(denotation, size));
  if (named.empty() && denoted.empty()) return;
  each_dimension(*graph.mutable_input(), [&](onnx::TensorShapeProto::Dimension& dim) {
    const auto given = dim.denotation().empty() ? denoted.end() : denoted.find(lower_case(dim.denotation()));
    if (given == denoted.end()) return;
    const std::string what = "the dimension denoted " + in_quotes(dim.denotation());
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      if (dim.dim_value() != given->second) refuse_second(what, given->second, dim.dim_value());
    } else if (dim.dim_param().empty()) {
      dim.set_dim_value(given->second);
    } else if (const auto [known, is_new] = named.emplace(dim.dim_param(), given->second);
               !is_new && known->second != given->second) {
      refuse_second(what, given->second, known->second);
    }
  });
  for (auto* list : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()})
    each_dimension(*list, [&](onnx::TensorShapeProto::Dimension& dim) {
      if (const auto given = named.find(dim.dim_param()); !dim.dim_param().empty() && given != named.end())
        dim.set_dim_value(given->second);
    });
}

Tensor Importer::given_weight(const GivenParts::Weight& given, const onnx::TensorProto& model) {
  if (given.is_external && model.data_location() != onnx::TensorProto::EXTERNAL)
    throw Error(ErrorCode::kBadInput, "external data are given for it, but the model has its data itself");
  const Sizes sizes(model.dims().begin(), model.dims().end());
  const auto type = data_type_of(model.data_type());
  if (type != given.tensor.type() || sizes != given.tensor.sizes())
    throw Error(ErrorCode::kBadInput, "what is given for it is of type " + std::string(name(given.tensor.type())) +
                                          " and sizes " + to_string(to_indices(given.tensor.sizes())) +
                                          ", the model's of type " + (type ? std::string(name(*type)) : "unknown") +
                                          " and sizes " + to_string(to_indices(sizes)));
  return given.tensor;
}

}  // namespace rewright::graph
