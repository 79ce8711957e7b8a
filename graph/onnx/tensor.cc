// ONNX's tensors in all their encodings.
#include <algorithm>
#include <cstring>

#include <onnx/onnx-data.pb.h>
#include <onnx/onnx_pb.h>

#include "base/only_copy.h"
#include "graph/onnx/model.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/wire.h"
#include "operators/tensor_parts.h"

namespace rewright::graph {

namespace {

template <class To, class From>
void copy_elements(const From& from, Tensor& tensor, std::size_t per_element = 1) {
  if (static_cast<std::size_t>(from.size()) != static_cast<std::size_t>(tensor.size()) * per_element)
    throw Error(ErrorCode::kBadInput, "has " + std::to_string(from.size()) + " values for " + std::to_string(tensor.size()) +
                                          " elements of type " + std::string(name(tensor.type())));
  To* to = reinterpret_cast<To*>(tensor.mutable_bytes().data());
  for (const auto& value : from) *to++ = static_cast<To>(value);
}

// The bytes of `count` elements as ONNX packs them.
std::uint64_t packed_byte_count(DataType type, std::uint64_t count) {
  if (count > (std::uint64_t{1} << 60)) throw Error(ErrorCode::kBadInput, "has " + std::to_string(count) + " elements");
  const auto bits = static_cast<std::uint64_t>(packed_bits(type));
  return bits < 8 ? (count * bits + 7) / 8 : count * (bits / 8);
}

// Unpacks elements of less than 8 bits. The first one is in the lowest bits of a byte.
Tensor unpacked(std::span<const std::byte> bytes, DataType type, Sizes sizes) {
  const auto count = static_cast<std::uint64_t>(element_count(sizes));
  if (bytes.size() != packed_byte_count(type, count))
    throw Error(ErrorCode::kBadInput, "has " + std::to_string(bytes.size()) + " bytes for " + std::to_string(count) +
                                          " elements of type " + std::string(name(type)));
  Tensor tensor(type, std::move(sizes));
  const auto elements = tensor.mutable_bytes();
  const auto bits = static_cast<unsigned>(packed_bits(type));
  const unsigned mask = (1u << bits) - 1, sign = type == DataType::kInt4 || type == DataType::kInt2 ? 1u << (bits - 1) : 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const unsigned low = (static_cast<unsigned>(bytes[i * bits / 8]) >> (i * bits % 8)) & mask;
    elements[i] = static_cast<std::byte>((low ^ sign) - sign);
  }
  return tensor;
}

Tensor from_typed_fields(const onnx::TensorProto& proto, DataType type, Sizes sizes) {
  if (type == DataType::kString) {
    const std::int64_t count = element_count(sizes);
    if (count != proto.string_data_size())
      throw Error(ErrorCode::kBadInput,
                  "has " + std::to_string(proto.string_data_size()) + " strings for " + std::to_string(count) + " elements");
    return Tensor::from_strings(std::move(sizes), {proto.string_data().begin(), proto.string_data().end()});
  }
  if (packed_bits(type) < 8) {
    std::vector<std::byte> bytes;
    for (const std::int32_t value : proto.int32_data()) bytes.push_back(static_cast<std::byte>(value));
    return unpacked(bytes, type, std::move(sizes));
  }
  // Checked before allocation, so that a wrong dimension costs no memory.
  const std::int64_t values = std::int64_t{0} + proto.float_data_size() + proto.int32_data_size() + proto.int64_data_size() +
                              proto.double_data_size() + proto.uint64_data_size();
  const std::int64_t count = element_count(sizes);
  if (count > 0 && values == 0) throw Error(ErrorCode::kBadInput, "has no data for its " + std::to_string(count) + " elements");
  if (count > values)
    throw Error(ErrorCode::kBadInput, "has " + std::to_string(values) + " values for " + std::to_string(count) + " elements");
  Tensor tensor(type, std::move(sizes));
  switch (type) {
    case DataType::kFloat:
      copy_elements<float>(proto.float_data(), tensor);
      break;
    case DataType::kComplex64:
      copy_elements<float>(proto.float_data(), tensor, 2);
      break;
    case DataType::kDouble:
      copy_elements<double>(proto.double_data(), tensor);
      break;
    case DataType::kComplex128:
      copy_elements<double>(proto.double_data(), tensor, 2);
      break;
    case DataType::kInt64:
      copy_elements<std::int64_t>(proto.int64_data(), tensor);
      break;
    case DataType::kUint32:
      copy_elements<std::uint32_t>(proto.uint64_data(), tensor);
      break;
    case DataType::kUint64:
      copy_elements<std::uint64_t>(proto.uint64_data(), tensor);
      break;
    case DataType::kInt32:
      copy_elements<std::int32_t>(proto.int32_data(), tensor);
      break;
    case DataType::kInt16:
      copy_elements<std::int16_t>(proto.int32_data(), tensor);
      break;
    case DataType::kInt8:
      copy_elements<std::int8_t>(proto.int32_data(), tensor);
      break;
    case DataType::kUint8:
    case DataType::kFloat8e4m3fn:
    case DataType::kFloat8e4m3fnuz:
    case DataType::kFloat8e5m2:
    case DataType::kFloat8e5m2fnuz:
    case DataType::kFloat8e8m0:
      copy_elements<std::uint8_t>(proto.int32_data(), tensor);
      break;
    case DataType::kBool:
      copy_elements<std::uint8_t>(proto.int32_data(), tensor);
      break;
    default:
      copy_elements<std::uint16_t>(proto.int32_data(), tensor);
      break;  // uint16, half and bfloat16 as bits
  }
  return tensor;
}

Tensor from_bytes(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner, DataType type, Sizes sizes) {
  if (packed_bits(type) < 8) return unpacked(bytes, type, std::move(sizes));
  const auto expected = static_cast<std::uint64_t>(element_count(sizes));
  const std::size_t width = byte_size(type);
  if (bytes.size() % width != 0 || bytes.size() / width != expected)
    throw Error(ErrorCode::kBadInput, "has " + std::to_string(bytes.size()) + " bytes for " + std::to_string(expected) +
                                          " elements of type " + std::string(name(type)));
  if (owner && reinterpret_cast<std::uintptr_t>(bytes.data()) % width == 0)
    return Tensor(type, std::move(sizes), owner, bytes.data());
  // Copied, because elements must be aligned: once for all graphs in the process that were read from the same file.
  if (const std::shared_ptr<std::byte> known = known_copy(bytes)) return Tensor(type, std::move(sizes), known, known.get());
  Tensor tensor(type, sizes);
  if (bytes.empty()) return tensor;
  std::byte* const copy = tensor.mutable_bytes().data();
  std::memcpy(copy, bytes.data(), bytes.size());
  const std::shared_ptr<std::byte> shared = only_copy({std::make_shared<const Tensor>(std::move(tensor)), copy}, bytes.size());
  return Tensor(type, std::move(sizes), shared, shared.get());
}

}  // namespace

std::optional<DataType> data_type_of(int onnx_type) {
  if (onnx_type <= 0 || onnx_type > static_cast<int>(DataType::kInt2)) return std::nullopt;
  return static_cast<DataType>(onnx_type);
}

TensorParts split_tensor(std::string_view proto) {
  TensorParts parts;
  std::string rest;
  wire::Reader reader(proto);
  while (auto field = reader.next()) {
    if (field->number == field::kTensorRawData && field->type == wire::Type::kBytes)
      parts.raw = field->content;
    else
      rest += field->whole;
  }
  if (!parts.header.ParseFromString(rest)) throw Error(ErrorCode::kBadInput, "is not a tensor");
  return parts;
}

Tensor to_tensor(const TensorParts& parts, const std::shared_ptr<const void>& owner, ExternalData& external) {
  const onnx::TensorProto& proto = parts.header;
  const auto type = data_type_of(proto.data_type());
  if (!type)
    throw Error(ErrorCode::kUnsupported, "elements of ONNX type " + std::to_string(proto.data_type()) + " are not read");
  if (proto.has_segment()) throw Error(ErrorCode::kUnsupported, "tensors in segments are not read");
  Sizes sizes(proto.dims().begin(), proto.dims().end());
  const auto count = static_cast<std::uint64_t>(element_count(sizes));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    if (*type == DataType::kString) throw Error(ErrorCode::kBadInput, "strings cannot be external data");
    const FileBytes found = external.find(proto, packed_byte_count(*type, count));
    return from_bytes(found.bytes, found.owner, *type, std::move(sizes));
  }
  if (parts.raw && *type == DataType::kString) throw Error(ErrorCode::kBadInput, "strings cannot be raw data");
  if (parts.raw && !(parts.raw->empty() && count > 0))
    return from_bytes(std::as_bytes(std::span(parts.raw->data(), parts.raw->size())), owner, *type, std::move(sizes));
  return from_typed_fields(proto, *type, std::move(sizes));
}

Tensor to_tensor(const onnx::TensorProto& proto) {
  TensorParts parts;
  parts.header = proto;
  if (proto.has_raw_data()) parts.raw = proto.raw_data();
  ExternalData none;
  return to_tensor(parts, nullptr, none);
}

Tensor packed(const Tensor& tensor) {
  const auto bits = static_cast<unsigned>(packed_bits(tensor.type()));
  if (bits == 0 || bits >= 8) return tensor;
  const auto elements = tensor.bytes();
  Tensor result(DataType::kUint8, {static_cast<std::int64_t>((elements.size() * bits + 7) / 8)});
  const auto bytes = result.mutable_bytes();
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  for (std::size_t i = 0; i < elements.size(); ++i)
    bytes[i * bits / 8] |= (elements[i] & static_cast<std::byte>((1u << bits) - 1)) << (i * bits % 8);
  return result;
}

onnx::TensorProto tensor_header(const Tensor& tensor, const std::string& name) {
  onnx::TensorProto proto;
  for (std::int64_t size : tensor.sizes()) proto.add_dims(size);
  proto.set_data_type(static_cast<int>(tensor.type()));
  if (!name.empty()) proto.set_name(name);
  return proto;
}

onnx::TensorProto to_tensor_proto(const Tensor& tensor, const std::string& name) {
  onnx::TensorProto proto = tensor_header(tensor, name);
  if (tensor.type() == DataType::kString) {
    for (const std::string& text : tensor.strings()) proto.add_string_data(text);
  } else {
    const Tensor stored = packed(tensor);
    proto.set_raw_data(stored.bytes().data(), stored.bytes().size());
  }
  return proto;
}

Tensor read_tensor_proto(const std::filesystem::path& file) {
  const FileBytes content = map_file(file);
  try {
    ExternalData external(file, {});
    return to_tensor(split_tensor(content.text()), content.owner, external);
  } catch (const Error& error) {
    throw error.within(file.string());
  }
}

namespace {

Datum to_datum(const onnx::SequenceProto& proto);

// A map's values are tensors of one element each.
Datum to_datum(const onnx::MapProto& proto) {
  const bool texts = proto.key_type() == onnx::TensorProto::STRING;
  const Sizes sizes{texts ? proto.string_keys_size() : proto.keys_size()};
  Tensor keys = texts ? Tensor::from_strings(sizes, {proto.string_keys().begin(), proto.string_keys().end()})
                      : Tensor::from_integers(data_type_of(proto.key_type()).value_or(DataType::kUndefined), sizes,
                                              std::vector<std::int64_t>(proto.keys().begin(), proto.keys().end()));
  std::vector<Tensor> values;
  for (const auto& tensor : proto.values().tensor_values()) {
    values.push_back(to_tensor(tensor));
    if (values.back().size() != 1) throw Error(ErrorCode::kUnsupported, "is a map to tensors of several elements");
    values.back() = values.back().reshaped({1});
  }
  Tensor joined = values.empty() ? Tensor(DataType::kFloat, {0}) : operators::concatenated(values, 0);
  return Datum::map(std::make_shared<const Tensor>(std::move(keys)), std::move(joined));
}

Datum to_datum(const onnx::OptionalProto& proto) {
  switch (proto.elem_type()) {
    case onnx::OptionalProto::TENSOR:
      return to_tensor(proto.tensor_value());
    case onnx::OptionalProto::SEQUENCE:
      return to_datum(proto.sequence_value());
    case onnx::OptionalProto::MAP:
      return to_datum(proto.map_value());
    case onnx::OptionalProto::OPTIONAL:
      return to_datum(proto.optional_value());
    default:
      return {};
  }
}

// Recursion is safe: Protobuf bounds the depth of nesting.
Datum to_datum(const onnx::SequenceProto& proto) {
  std::vector<Datum> elements;
  for (const auto& tensor : proto.tensor_values()) elements.emplace_back(to_tensor(tensor));
  for (const auto& sequence : proto.sequence_values()) elements.push_back(to_datum(sequence));
  for (const auto& map : proto.map_values()) elements.push_back(to_datum(map));
  for (const auto& optional : proto.optional_values()) elements.push_back(to_datum(optional));
  return Datum::sequence(std::move(elements));
}

template <class Proto>
Datum read_as(const std::filesystem::path& file) {
  const FileBytes content = map_file(file);
  Proto proto;
  try {
    if (!proto.ParseFromArray(content.text().data(), static_cast<int>(content.text().size())))
      throw Error(ErrorCode::kBadInput, "is not of the type that the model declares");
    return to_datum(proto);
  } catch (const Error& error) {
    throw error.within(file.string());
  }
}

Datum read_declared(const onnx::ValueInfoProto* info, const std::filesystem::path& file) {
  if (info != nullptr && info->type().has_sequence_type()) return read_as<onnx::SequenceProto>(file);
  if (info != nullptr && info->type().has_optional_type()) return read_as<onnx::OptionalProto>(file);
  if (info != nullptr && info->type().has_map_type()) return read_as<onnx::MapProto>(file);
  return read_tensor_proto(file);
}

template <class List>
const onnx::ValueInfoProto* declared(const List& list, const std::string& name) {
  for (const auto& info : list)
    if (info.name() == name) return &info;
  return nullptr;
}

}  // namespace

Datum read_input(const Graph& graph, std::size_t input, const std::filesystem::path& file) {
  const std::string& name = graph.value(graph.inputs()[input]).name;
  return read_declared(graph.model() ? declared(graph.model()->skeleton.graph().input(), name) : nullptr, file);
}

Datum read_output(const Graph& graph, std::size_t output, const std::filesystem::path& file) {
  const std::string& name = graph.outputs()[output].name;
  return read_declared(graph.model() ? declared(graph.model()->skeleton.graph().output(), name) : nullptr, file);
}

namespace {

onnx::SequenceProto to_sequence_proto(const Datum& datum);

onnx::MapProto to_map_proto(const Datum& datum) {
  onnx::MapProto proto;
  const Tensor& keys = *datum.keys();
  const Tensor& values = datum.values();
  proto.set_key_type(static_cast<int>(keys.type()));
  if (keys.type() == DataType::kString)
    for (const std::string& key : keys.strings()) proto.add_string_keys(key);
  else
    for (const std::int64_t key : keys.integers()) proto.add_keys(key);
  proto.mutable_values()->set_elem_type(onnx::SequenceProto::TENSOR);
  for (std::int64_t i = 0; i < values.size(); ++i)
    *proto.mutable_values()->add_tensor_values() = to_tensor_proto(operators::entry_of(values, 0, i), "");
  return proto;
}

onnx::OptionalProto to_optional_proto(const Datum& datum) {
  onnx::OptionalProto proto;
  proto.set_elem_type(onnx::OptionalProto::UNDEFINED);
  if (datum.is_sequence()) {
    proto.set_elem_type(onnx::OptionalProto::SEQUENCE);
    *proto.mutable_sequence_value() = to_sequence_proto(datum);
  } else if (datum.is_map()) {
    proto.set_elem_type(onnx::OptionalProto::MAP);
    *proto.mutable_map_value() = to_map_proto(datum);
  } else if (!datum.empty()) {
    proto.set_elem_type(onnx::OptionalProto::TENSOR);
    *proto.mutable_tensor_value() = to_tensor_proto(datum.tensor(), "");
  }
  return proto;
}

onnx::SequenceProto to_sequence_proto(const Datum& datum) {
  const std::vector<Datum>& elements = datum.elements();
  const auto all_are = [&](bool (Datum::*kind)() const) {
    return std::all_of(elements.begin(), elements.end(), [&](const Datum& d) { return (d.*kind)(); });
  };
  onnx::SequenceProto proto;
  if (all_are(&Datum::is_tensor)) {
    proto.set_elem_type(onnx::SequenceProto::TENSOR);
    for (const Datum& d : elements) *proto.add_tensor_values() = to_tensor_proto(d.tensor(), "");
  } else if (all_are(&Datum::is_sequence)) {
    proto.set_elem_type(onnx::SequenceProto::SEQUENCE);
    for (const Datum& d : elements) *proto.add_sequence_values() = to_sequence_proto(d);
  } else if (all_are(&Datum::is_map)) {
    proto.set_elem_type(onnx::SequenceProto::MAP);
    for (const Datum& d : elements) *proto.add_map_values() = to_map_proto(d);
  } else {
    proto.set_elem_type(onnx::SequenceProto::OPTIONAL);
    for (const Datum& d : elements) *proto.add_optional_values() = to_optional_proto(d);
  }
  return proto;
}

}  // namespace

void write_output(const Graph& graph, std::size_t output, const Datum& datum, const std::filesystem::path& file) {
  const std::string& name = graph.outputs()[output].name;
  const auto* info = graph.model() ? declared(graph.model()->skeleton.graph().output(), name) : nullptr;
  if (info != nullptr && info->type().has_optional_type())
    write_file(file, serialize(to_optional_proto(datum)));
  else if (datum.is_sequence())
    write_file(file, serialize(to_sequence_proto(datum)));
  else if (datum.is_map())
    write_file(file, serialize(to_map_proto(datum)));
  else
    write_file(file, serialize(to_tensor_proto(datum.tensor(), name)));
}

}  // namespace rewright::graph
