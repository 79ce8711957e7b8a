#include "rules/algebra/lexer.h"

#include <array>

#include "base/error.h"

namespace rewright::rules::internal {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Longest first, since the first match wins.
constexpr std::array<std::string_view, 29> kSymbols = {"<=>", "...", "=>", "==", "!=", "<=", ">=", "(", ")", "[",
                                                       "]",   "{",   "}",  ",",  ";",  ":",  "?",  "=", "<", ">",
                                                       "+",   "-",   "*",  "/",  ".",  "&",  "|",  "^", "@"};

// Rules are stored in Protobuf, which requires UTF-8.
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = c < 0x80                ? 1
                               : c >= 0xc2 && c < 0xe0 ? 2
                               : c >= 0xe0 && c < 0xf0 ? 3
                               : c >= 0xf0 && c < 0xf5 ? 4
                                                       : 0;
    if (length == 0 || i + length > text.size() || c < 0x20) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    // Rejects overlong forms, surrogates, and code points beyond the last.
    const auto second = length > 1 ? static_cast<unsigned char>(text[i + 1]) : 0;
    if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) || (c == 0xf0 && second < 0x90) ||
        (c == 0xf4 && second > 0x8f))
      return false;
    i += length;
  }
  return true;
}

// The length of the number that the text begins with: digits, then a fraction, then an exponent.
std::size_t number_length(std::string_view text) {
  std::size_t n = 0;
  const auto is_digit_at = [&](std::size_t i) { return i < text.size() && is_digit(text[i]); };
  const auto skip_digits = [&] {
    while (is_digit_at(n)) ++n;
  };
  skip_digits();
  if (n < text.size() && text[n] == '.' && is_digit_at(n + 1)) {
    ++n;
    skip_digits();
  }
  if (n < text.size() && (text[n] == 'e' || text[n] == 'E')) {
    const bool is_signed = n + 1 < text.size() && (text[n + 1] == '-' || text[n + 1] == '+');
    if (const std::size_t first = n + (is_signed ? 2 : 1); is_digit_at(first)) {
      n = first;
      skip_digits();
    }
  }
  return n;
}

}  // namespace

std::vector<Token> tokenize(std::string_view text, const std::string& name, bool keep_errors) {
  std::vector<Token> tokens;
  int line = 1;
  std::size_t i = 0;
  const auto fail = [&](const std::string& what) {
    if (!keep_errors) throw Error(ErrorCode::kBadInput, what, name + ":" + std::to_string(line));
    tokens.push_back({Token::Kind::kError, what, line});
    i = std::min(text.find('\n', i), text.size());
  };
  const auto take = [&](Token::Kind kind, std::size_t length) {
    tokens.push_back({kind, std::string(text.substr(i, length)), line});
    i += length;
  };
  while (i < text.size()) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      ++i;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++i;
    } else if (c == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (is_letter(c)) {
      std::size_t n = 1;
      while (i + n < text.size() && (is_letter(text[i + n]) || is_digit(text[i + n]))) ++n;
      take(Token::Kind::kName, n);
    } else if (is_digit(c)) {
      take(Token::Kind::kNumber, number_length(text.substr(i)));
    } else if (c == '"') {
      const std::size_t end = text.find_first_of("\"\n", i + 1);
      if (end == std::string_view::npos || text[end] == '\n') {
        fail("a text is not closed by \" on its line");
      } else if (const std::string_view inside = text.substr(i + 1, end - i - 1); !is_utf8(inside)) {
        fail("a text is not UTF-8 or has control characters");
      } else {
        tokens.push_back({Token::Kind::kText, std::string(inside), line});
        i = end + 1;
      }
    } else {
      bool found = false;
      for (std::string_view symbol : kSymbols)
        if (text.substr(i, symbol.size()) == symbol) {
          take(Token::Kind::kSymbol, symbol.size());
          found = true;
          break;
        }
      if (!found) fail(c > ' ' && c < 127 ? std::string("unexpected character '") + c + "'" : std::string("unexpected byte"));
    }
  }
  tokens.push_back({Token::Kind::kEnd, "", line});
  return tokens;
}

}  // namespace rewright::rules::internal
