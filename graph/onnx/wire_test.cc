#include "graph/onnx/wire.h"

#include <catch2/catch.hpp>

#include "base/error.h"

namespace rewright::graph::wire {

TEST_CASE("the fields of a message are found where they lie") {
  std::string message;
  append_varint(message, 3 << 3 | 0);
  append_varint(message, 300);
  message += bytes_prefix(7, 3) + "abc";
  Reader reader(message);
  auto number = reader.next();
  REQUIRE(number);
  CHECK(number->number == 3);
  CHECK(number->type == Type::kVarint);
  CHECK(decode_varint(number->content) == 300);
  auto text = reader.next();
  REQUIRE(text);
  CHECK(text->content == "abc");
  CHECK(text->content.data() == message.data() + message.size() - 3);
  CHECK_FALSE(reader.next());
}

TEST_CASE("bytes that are no message are refused") {
  for (const std::string& bytes : {std::string("\x0a\x05"
                                               "ab"),
                                   std::string("\x08"), std::string("\x07"), std::string("\x00\x00", 2),
                                   std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f")}) {
    Reader reader(bytes);
    CHECK_THROWS_AS(reader.next(), Error);
  }
}

}  // namespace rewright::graph::wire
