// ONNX's sparse tensors, read as dense ones.
#include <cstring>
#include <limits>

#include "graph/onnx/model.h"

namespace rewright::graph {

namespace {

// The place of each value among the dense elements. Indices are linear, or have a coordinate for each axis.
std::vector<std::int64_t> dense_places(const Tensor& indices, std::int64_t count, const Sizes& sizes, std::int64_t elements) {
  const bool linear = indices.sizes() == Sizes{count};
  if (indices.type() != DataType::kInt64 ||
      (!linear && indices.sizes() != Sizes{count, static_cast<std::int64_t>(sizes.size())}))
    throw Error(ErrorCode::kBadInput, "its indices must be int64 of shape [values] or [values, axes]");
  const auto given = indices.data<std::int64_t>();
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    std::int64_t place = linear ? given[i] : 0;
    bool inside = place >= 0 && place < elements;
    for (std::size_t axis = 0; !linear && axis < sizes.size(); ++axis) {
      const std::int64_t at = given[i * sizes.size() + axis];
      inside = inside && at >= 0 && at < sizes[axis];
      place = inside ? place * sizes[axis] + at : 0;
    }
    if (!inside) throw Error(ErrorCode::kBadInput, "its index " + std::to_string(i) + " is outside of its shape");
    found.push_back(place);
  }
  return found;
}

Tensor scattered(const Tensor& values, Sizes sizes, std::span<const std::int64_t> places) {
  if (values.type() == DataType::kString) {
    std::vector<std::string> texts(static_cast<std::size_t>(element_count(sizes)));
    for (std::size_t i = 0; i < places.size(); ++i) texts[static_cast<std::size_t>(places[i])] = values.strings()[i];
    return Tensor::from_strings(std::move(sizes), std::move(texts));
  }
  Tensor dense(values.type(), std::move(sizes));
  const std::size_t width = byte_size(values.type());
  if (dense.byte_count() > 0) std::memset(dense.mutable_bytes().data(), 0, dense.byte_count());
  for (std::size_t i = 0; i < places.size(); ++i)
    std::memcpy(dense.mutable_bytes().data() + static_cast<std::size_t>(places[i]) * width, values.bytes().data() + i * width,
                width);
  return dense;
}

}  // namespace

Tensor to_tensor(const onnx::SparseTensorProto& proto, ExternalData& external, std::size_t max_bytes) {
  const auto part = [&](const onnx::TensorProto& tensor) {
    TensorParts parts;
    parts.header = tensor;
    if (tensor.has_raw_data()) parts.raw = tensor.raw_data();
    return to_tensor(parts, nullptr, external);
  };
  const auto type = data_type_of(proto.values().data_type());
  if (!type)
    throw Error(ErrorCode::kUnsupported,
                "elements of ONNX type " + std::to_string(proto.values().data_type()) + " are not read");
  const Sizes sizes(proto.dims().begin(), proto.dims().end());
  const std::int64_t elements = element_count(sizes);
  const std::size_t width = *type == DataType::kString ? sizeof(std::string) : byte_size(*type);
  if (static_cast<std::uint64_t>(elements) > max_bytes / width)
    throw Error(ErrorCode::kMissing, "has " + std::to_string(elements) + " elements with its zeros, which take more than " +
                                         std::to_string(max_bytes) + " bytes");
  const Tensor values = part(proto.values());
  if (values.sizes().size() != 1) throw Error(ErrorCode::kBadInput, "its values must have one axis");
  return scattered(values, sizes, dense_places(part(proto.indices()), values.size(), sizes, elements));
}

}  // namespace rewright::graph
