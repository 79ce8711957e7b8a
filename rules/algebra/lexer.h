// Tokens of the algebra that rules are written in.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace rewright::rules::internal {

struct Token {
  enum class Kind { kName, kNumber, kText, kSymbol, kError, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;  // a name; a number as written; a text without its quotes; one of the symbols; what is wrong
  int line = 0;
};

// The value of a token that is a number.
inline double to_double(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

// Comments run from # to the end of the line. The last token is kEnd. Invalid text throws Error(kBadInput) at "name:line"; with
// `keep_errors` the rest of its line becomes one kError token.
std::vector<Token> tokenize(std::string_view text, const std::string& name, bool keep_errors = false);

}  // namespace rewright::rules::internal
