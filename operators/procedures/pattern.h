// Regular expressions of models, by RE2, as ONNX Runtime has them: found in time linear in the text, whatever the expression.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace re2 {
class RE2;
}

namespace rewright::operators {

// Expressions for runs of some ASCII characters, such as "[a-zA-Z0-9_]+" and "\\b\\w\\w+\\b": most expressions of words are of
// this form, and are found by looking at each byte once.
class Runs {
 public:
  // nullopt: the expression has another form.
  static std::optional<Runs> of(std::string_view expression);
  // As Pattern::find; an empty place at the text's end: there is none.
  std::pair<std::size_t, std::size_t> find(std::string_view text, std::size_t from) const;

 private:
  bool has(char c) const { return members_[static_cast<unsigned char>(c)]; }
  std::array<bool, 256> members_{};
  std::size_t least_ = 0;  // characters
  bool whole_ = false;     // nothing of the run may lie before
};

// A compiled expression, which several threads may use at once.
class Pattern {
 public:
  // Throws Error(kUnsupported) for an expression that RE2 does not accept.
  explicit Pattern(std::string_view expression);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  struct Place {
    std::size_t begin, end;
  };
  // The first place from `from` on where the expression is found, and of those that begin there the longest. What stands before
  // `from` counts for tests of words and of the text's beginning.
  std::optional<Place> find(std::string_view text, std::size_t from) const;
  // Is it all of the text?
  bool is_whole(std::string_view text) const;

 private:
  std::unique_ptr<re2::RE2> compiled_;
  std::optional<Runs> runs_;  // a faster form of it
};

}  // namespace rewright::operators
