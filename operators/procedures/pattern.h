// Regular expressions of models, by RE2, as ONNX Runtime has them: found in time linear in the text, whatever the expression.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

namespace re2 {
class RE2;
}

namespace rewright::operators {

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
};

}  // namespace rewright::operators
