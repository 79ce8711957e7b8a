// Regular expressions, as RE2 writes them: found in time linear in the text for each place, whatever the expression, because no
// form needs backtracking. A text is UTF-8; an expression reads code points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

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

// A compiled expression. It remembers what it saw of texts, so one thread uses it at a time.
class Pattern {
 public:
  // Throws Error(kUnsupported): for an expression that is none, one that is too large, and forms that are not known (classes of
  // Unicode, flags).
  explicit Pattern(std::string_view expression);
  Pattern(Pattern&&) = default;
  Pattern& operator=(Pattern&&) = default;

  struct Place {
    std::size_t begin, end;
  };
  // The first place from `from` on where the expression is found, and of those that begin there the longest. What stands before
  // `from` counts for tests of words and of the text's beginning.
  std::optional<Place> find(std::string_view text, std::size_t from);
  // Is it all of the text?
  bool is_whole(std::string_view text);

 private:
  friend struct PatternCompiler;
  enum class Test { kTextBegin, kTextEnd, kWordEdge, kNoWordEdge };
  struct Instruction {
    enum class Kind { kChars, kSplit, kTest, kEnd } kind = Kind::kEnd;
    std::uint32_t next = 0, other = 0;
    Test test = Test::kTextBegin;
    std::vector<bool> classes = {};
  };
  enum class Before { kNothing, kWord, kOther };
  struct State {
    std::vector<std::uint32_t> threads;  // instructions that are reached, before splits and tests are followed
    Before before = Before::kNothing;
    friend auto operator<=>(const State&, const State&) = default;
  };

  std::uint32_t class_of(std::string_view text, std::size_t at) const;
  std::uint32_t state(State state);
  // The state after a class of code points (or the text's end), times two, plus 1 if the expression ends before it.
  std::uint32_t step(std::uint32_t from, std::uint32_t symbol);
  std::uint32_t computed(std::uint32_t from, std::uint32_t symbol);
  std::optional<std::size_t> longest_end(std::string_view text, std::size_t from);

  std::vector<Instruction> code_;
  std::uint32_t entry_ = 0;
  std::vector<std::uint32_t> first_of_class_;  // code points at which classes of equal ones begin
  std::vector<bool> is_word_class_;
  std::uint32_t ascii_[128] = {};
  std::map<State, std::uint32_t> numbers_;
  std::vector<const State*> states_;
  std::vector<std::uint32_t> steps_;
  std::uint32_t starts_[3] = {~0U, ~0U, ~0U};  // states before the first code point, by what stands before it
};

}  // namespace rewright::operators
