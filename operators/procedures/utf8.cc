#include "operators/procedures/utf8.h"

namespace rewright::operators {

namespace {

constexpr std::uint32_t kLastCode = 0x10FFFF;

}  // namespace

CodePoint code_point_at(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t width = first >= 0xf8 ? 0 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (width == 0 || text.size() < width) return {};
  std::uint32_t code = first & (0x7fU >> width);
  for (std::size_t i = 1; i < width; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[width] || code > kLastCode || (code >= 0xd800 && code < 0xe000)) return {};
  return {code, width};
}

bool is_utf8(std::string_view text, std::size_t& count) {
  count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) {
    const std::size_t width = code_point_at(text.substr(at)).width;
    if (width == 0) return false;
    at += width;
  }
  return true;
}

std::size_t utf8_width(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}

}  // namespace rewright::operators
