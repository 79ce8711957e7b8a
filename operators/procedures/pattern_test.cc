#include "operators/procedures/pattern.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>

namespace rewright::operators {

TEST_CASE("runs of characters are found where the regular expression is") {
  std::mt19937 random(3);
  const std::string letters = "abzAZ09_ .-,\t\xc3\xa4";
  // A group around it gives the same expression a form that is not recognized.
  for (const std::string expression :
       {"[a-zA-Z0-9_]+", "\\w+", "\\w\\w+", "\\b\\w\\w+\\b", "\\b\\w+\\b", "[a-z][a-z]+", "[ab.]+", "[0-9]+"}) {
    REQUIRE(Runs::of(expression).has_value());
    REQUIRE_FALSE(Runs::of("(?:" + expression + ")").has_value());
    const Pattern fast(expression), slow("(?:" + expression + ")");
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (std::size_t n = random() % 24; n-- > 0;) text += letters[random() % letters.size()];
      if (text.find('\xc3') != std::string::npos || text.find('\xa4') != std::string::npos) {
        for (char& c : text)  // halves of a character are no text
          if (static_cast<unsigned char>(c) >= 0x80) c = ' ';
        text += "\xc3\xa4" + text;
      }
      for (std::size_t from = 0; from <= text.size(); ++from) {
        if (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80) continue;  // in a character's middle
        INFO(expression << " in \"" << text << "\" from " << from);
        const auto a = fast.find(text, from), b = slow.find(text, from);
        REQUIRE(a.has_value() == b.has_value());
        if (a) CHECK((a->begin == b->begin && a->end == b->end));
      }
    }
  }
}

TEST_CASE("other expressions are no runs") {
  for (const std::string expression :
       {"",       "+",      "a+",           "[a-z]",        "[^a]+",   "[a-z]*",  "[]a]+",   "[[:alpha:]]+",
        "[\\d]+", "[z-a]+", "[a-z]+[0-9]+", "\\b[a-z]+\\b", "\\b\\w+", "\\w+\\b", "[a-z]+x", "[a-z]++",
        "\\W+",   "[-a]+",  "[a-]+",        "[a-c-e]+"})
    CHECK_FALSE(Runs::of(expression).has_value());
}

}  // namespace rewright::operators
