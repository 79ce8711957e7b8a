// Protobuf's wire format: finds the large fields of a message in a mapped file without copying them, and puts a message
// together from parts. Protobuf itself parses the other fields.
//
//   wire::Reader reader(bytes);
//   while (const auto f = reader.next())
//     if (f->number == field::kModelGraph) graph_bytes = f->content;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rewright::graph::wire {

enum class Type { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  std::uint32_t number;
  Type type;
  std::string_view content;  // kBytes: without tag and length; else the encoded value
  std::string_view whole;    // with tag and length
};

// Iterates over the fields of one message. Throws Error(kBadInput) if the bytes are not a message.
class Reader {
 public:
  explicit Reader(std::string_view message) : rest_(message) {}
  std::optional<Field> next();

 private:
  std::uint64_t varint();
  std::string_view take(std::uint64_t count);
  std::string_view rest_;
};

void append_varint(std::string& to, std::uint64_t value);
// The tag and length that precede a field of `size` bytes.
std::string bytes_prefix(std::uint32_t number, std::uint64_t size);
std::uint64_t decode_varint(std::string_view bytes);

}  // namespace rewright::graph::wire
