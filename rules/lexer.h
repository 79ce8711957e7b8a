// Tokens of the algebra that rules are written in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rewright::internal {

struct Token {
  enum class Kind { kName, kNumber, kText, kSymbol, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;  // a name; a number as written; a text without its quotes; one of the symbols
  int line = 0;
};

// Comments run from # to the end of the line. The last token is kEnd. Throws Error(kBadInput) at "name:line".
std::vector<Token> tokenize(std::string_view text, const std::string& name);

}  // namespace rewright::internal
