#include "graph/onnx/wire.h"

#include "base/error.h"

namespace rewright::graph::wire {

namespace {

[[noreturn]] void broken(const char* what) { throw Error(ErrorCode::kBadInput, what); }

}  // namespace

std::uint64_t Reader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) broken("is not a Protobuf message: it ends within a number");
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
  broken("is not a Protobuf message: a number has more than 64 bits");
}

std::string_view Reader::take(std::uint64_t count) {
  if (count > rest_.size()) broken("is not a whole Protobuf message: a field is longer than what is there");
  std::string_view taken = rest_.substr(0, static_cast<std::size_t>(count));
  rest_.remove_prefix(static_cast<std::size_t>(count));
  return taken;
}

std::optional<Field> Reader::next() {
  if (rest_.empty()) return std::nullopt;
  const char* start = rest_.data();
  const std::uint64_t tag = varint();
  Field field{};
  if ((tag >> 3) == 0 || (tag >> 3) > 0x1fffffff) broken("is not a Protobuf message: a field has no valid number");
  field.number = static_cast<std::uint32_t>(tag >> 3);
  switch (tag & 7) {
    case 0: {
      const char* value = rest_.data();
      varint();
      field.type = Type::kVarint;
      field.content = {value, static_cast<std::size_t>(rest_.data() - value)};
      break;
    }
    case 1:
      field.type = Type::kFixed64;
      field.content = take(8);
      break;
    case 2:
      field.type = Type::kBytes;
      field.content = take(varint());
      break;
    case 5:
      field.type = Type::kFixed32;
      field.content = take(4);
      break;
    default:
      broken("is not a Protobuf message: a field has no valid type");
  }
  field.whole = {start, static_cast<std::size_t>(rest_.data() - start)};
  return field;
}

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 128; value >>= 7) to.push_back(static_cast<char>(value | 128));
  to.push_back(static_cast<char>(value));
}

std::string bytes_prefix(std::uint32_t number, std::uint64_t size) {
  std::string prefix;
  append_varint(prefix, static_cast<std::uint64_t>(number) << 3 | 2);
  append_varint(prefix, size);
  return prefix;
}

std::uint64_t decode_varint(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i]) & 127) << (7 * i);
  return value;
}

}  // namespace rewright::graph::wire
