// Texts in UTF-8, by code points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rewright::operators {

// The code point that a text begins with.
struct CodePoint {
  std::uint32_t code = 0;
  std::size_t width = 0;  // in bytes; 0: the text is empty or does not begin as UTF-8
};
CodePoint code_point_at(std::string_view text);
// Is the text UTF-8, without surrogates and overlong forms? `count` gets its code points.
bool is_utf8(std::string_view text, std::size_t& count);
// Bytes of the code point that begins with this byte of an UTF-8 text.
std::size_t utf8_width(char first);

}  // namespace rewright::operators
