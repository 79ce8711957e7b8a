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

using Members = std::array<bool, 256>;

void add_range(Members& members, char first, char last) {
  for (int c = first; c <= last; ++c) members[static_cast<std::size_t>(c)] = true;
}

bool is_plain(char c) { return c > ' ' && c < 127 && std::string_view("\\[]^-").find(c) == std::string_view::npos; }

// Removes the class of ASCII characters at the beginning of `rest`, "\w" or "[a-z_]"; nullopt: there is none.
std::optional<Members> take_class(std::string_view& rest) {
  Members members{};
  if (rest.starts_with("\\w")) {
    rest.remove_prefix(2);
    add_range(members, 'a', 'z'), add_range(members, 'A', 'Z'), add_range(members, '0', '9'), add_range(members, '_', '_');
    return members;
  }
  if (!rest.starts_with('[')) return std::nullopt;
  const std::size_t end = rest.find(']');
  if (end == std::string_view::npos || end == 1) return std::nullopt;
  for (std::size_t at = 1; at < end; ++at) {
    const char first = rest[at];
    const bool is_range = at + 2 < end && rest[at + 1] == '-';
    if (is_range) at += 2;
    const char last = rest[at];
    if (!is_plain(first) || !is_plain(last) || last < first) return std::nullopt;
    add_range(members, first, last);
  }
  rest.remove_prefix(end + 1);
  return members;
}

}  // namespace

std::optional<Runs> Runs::of(std::string_view expression) {
  constexpr std::string_view kBoundary = "\\b";
  std::string_view word = "\\w";
  const Members word_members = *take_class(word);
  Runs runs;
  runs.whole_ =
      expression.starts_with(kBoundary) && expression.ends_with(kBoundary) && expression.size() > 2 * kBoundary.size();
  if (runs.whole_) expression = expression.substr(kBoundary.size(), expression.size() - 2 * kBoundary.size());
  while (true) {
    const std::optional<Members> members = take_class(expression);
    if (!members || (runs.least_ > 0 && *members != runs.members_)) return std::nullopt;
    runs.members_ = *members;
    ++runs.least_;
    if (expression == "+") break;
  }
  // Inside of a run there are no boundaries if all its characters are those of words.
  if (runs.whole_ && runs.members_ != word_members) return std::nullopt;
  return runs;
}

std::pair<std::size_t, std::size_t> Runs::find(std::string_view text, std::size_t from) const {
  std::size_t begin = from;
  if (whole_ && begin > 0)
    while (begin < text.size() && has(text[begin - 1]) && has(text[begin])) ++begin;
  while (begin < text.size()) {
    while (begin < text.size() && !has(text[begin])) ++begin;
    std::size_t end = begin;
    while (end < text.size() && has(text[end])) ++end;
    if (end > begin && end - begin >= least_) return {begin, end};
    begin = end;
  }
  return {text.size(), text.size()};
}

Pattern::Pattern(std::string_view expression) : compiled_(std::make_unique<re2::RE2>(piece(expression), options())) {
  if (!compiled_->ok()) throw Error(ErrorCode::kUnsupported, "its pattern is not understood: " + compiled_->error());
  runs_ = Runs::of(expression);
}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

std::optional<Pattern::Place> Pattern::find(std::string_view text, std::size_t from) const {
  if (runs_) {
    const auto [begin, end] = runs_->find(text, from);
    return begin == end ? std::nullopt : std::optional(Place{begin, end});
  }
  re2::StringPiece found;
  if (!compiled_->Match(piece(text), from, text.size(), re2::RE2::UNANCHORED, &found, 1)) return std::nullopt;
  const auto begin = static_cast<std::size_t>(found.data() - text.data());
  return Place{begin, begin + found.size()};
}

bool Pattern::is_whole(std::string_view text) const {
  return compiled_->Match(piece(text), 0, text.size(), re2::RE2::ANCHOR_BOTH, nullptr, 0);
}

}  // namespace rewright::operators
