#include "operators/procedures/pattern.h"

#include <re2/re2.h>

#include "base/error.h"

namespace rewright::operators {

namespace {

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

re2::RE2::Options options() {
  re2::RE2::Options result;
  result.set_log_errors(false);
  result.set_longest_match(true);
  return result;
}

}  // namespace

Pattern::Pattern(std::string_view expression) : compiled_(std::make_unique<re2::RE2>(piece(expression), options())) {
  if (!compiled_->ok()) throw Error(ErrorCode::kUnsupported, "its pattern is not understood: " + compiled_->error());
}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

std::optional<Pattern::Place> Pattern::find(std::string_view text, std::size_t from) const {
  re2::StringPiece found;
  if (!compiled_->Match(piece(text), from, text.size(), re2::RE2::UNANCHORED, &found, 1)) return std::nullopt;
  const auto begin = static_cast<std::size_t>(found.data() - text.data());
  return Place{begin, begin + found.size()};
}

bool Pattern::is_whole(std::string_view text) const {
  return compiled_->Match(piece(text), 0, text.size(), re2::RE2::ANCHOR_BOTH, nullptr, 0);
}

}  // namespace rewright::operators
