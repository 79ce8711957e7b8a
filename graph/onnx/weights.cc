#include "graph/onnx/weights.h"

#include "graph/onnx/wire.h"

namespace rewright::graph {

namespace {

void write_external(const Weight& weight, Pieces& graph, ExternalPart& external) {
  constexpr std::size_t kAlignment = 4096;  // pages: the file will be mapped
  Tensor stored = packed(weight.tensor);
  const std::span<const std::byte> bytes = stored.bytes();
  std::size_t offset = (external.size + kAlignment - 1) / kAlignment * kAlignment;
  bool is_new = true;
  if (external.is_shared) {
    const auto [known, added] = external.known.emplace(std::pair(bytes.data(), bytes.size()), offset);
    offset = known->second, is_new = added;
  }
  if (is_new) {
    external.stored.push_back(std::move(stored));
    external.tensors.emplace_back(offset, bytes);
    external.size = offset + bytes.size();
  }
  onnx::TensorProto header = tensor_header(weight.tensor, weight.name);
  header.set_data_location(onnx::TensorProto::EXTERNAL);
  auto entry = [&](const char* key, const std::string& value) {
    auto* added = header.add_external_data();
    added->set_key(key);
    added->set_value(value);
  };
  entry("location", external.location);
  entry("offset", std::to_string(offset));
  entry("length", std::to_string(bytes.size()));
  graph.own_field(field::kGraphInitializer, serialize(header));
}

void write_inside(const Weight& weight, Pieces& graph) {
  if (packed_bits(weight.tensor.type()) < 8) {  // strings and packed types
    graph.own_field(field::kGraphInitializer, serialize(to_tensor_proto(weight.tensor, weight.name)));
    return;
  }
  const auto bytes = weight.tensor.bytes();
  std::string head = serialize(tensor_header(weight.tensor, weight.name));
  head += wire::bytes_prefix(field::kTensorRawData, bytes.size());
  graph.own(wire::bytes_prefix(field::kGraphInitializer, head.size() + bytes.size()) + head);
  graph.borrow({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

void Pieces::borrow(std::string_view bytes) {
  size_ += bytes.size();
  list_.push_back(bytes);
}

void Pieces::own(std::string bytes) {
  owned_.push_back(std::make_unique<const std::string>(std::move(bytes)));
  borrow(*owned_.back());
}

void Pieces::own_field(std::uint32_t number, std::string bytes) {
  own(wire::bytes_prefix(number, bytes.size()));
  own(std::move(bytes));
}

void Pieces::append(Pieces&& other) {
  size_ += other.size_;
  list_.insert(list_.end(), other.list_.begin(), other.list_.end());
  for (auto& bytes : other.owned_) owned_.push_back(std::move(bytes));
}

void write_weights(const std::vector<Weight>& weights, std::size_t external_above, Pieces& graph, ExternalPart& external) {
  constexpr std::size_t kSmall = 1024;  // bytes; smaller weights stay in the model
  std::size_t total = 0;
  for (const Weight& weight : weights) total += weight.tensor ? weight.tensor.byte_count() : weight.proto.size();
  const bool writes_external = total > external_above && !external.location.empty();
  for (const Weight& weight : weights) {
    if (writes_external && weight.tensor && weight.tensor.byte_count() >= kSmall) {
      write_external(weight, graph, external);
    } else if (!weight.proto.empty()) {
      graph.own(wire::bytes_prefix(field::kGraphInitializer, weight.proto.size()));
      graph.borrow(weight.proto);
    } else if (weight.tensor) {
      write_inside(weight, graph);
    } else {
      throw Error(ErrorCode::kUnsupported, "its data are in another file, of a type that is not read: it cannot be moved",
                  "initializer \"" + weight.name + "\"");
    }
  }
}

}  // namespace rewright::graph
