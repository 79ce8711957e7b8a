// Tokenizer, an operator of ONNX Runtime's domain com.microsoft: texts divided into words, as rows of equal length.
#include <algorithm>

#include "operators/procedures/pattern.h"
#include "operators/procedures/procedures.h"
#include "operators/procedures/utf8.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

struct Splitting {
  bool by_separators = false, by_characters = false;
  std::size_t shortest = 1;  // of a word, in code points
  std::vector<Pattern> patterns;
};

Splitting splitting_of(const Call& call) {
  Splitting result;
  const std::int64_t shortest = call.integer("mincharnum", 1);
  if (shortest <= 0) throw Error(ErrorCode::kBadInput, "mincharnum must be positive");
  result.shortest = static_cast<std::size_t>(shortest);
  result.by_separators = call.has("separators");
  std::vector<std::string> expressions = call.texts("separators");
  if (result.by_separators ? expressions.empty() : call.text("tokenexp", "").empty())
    throw Error(ErrorCode::kBadInput, "it has neither separators nor an expression of its words");
  if (!result.by_separators) expressions = {call.text("tokenexp", "")};
  result.by_characters = expressions.size() == 1 && expressions[0] == (result.by_separators ? "" : ".");
  if (result.by_characters && shortest > 1)
    throw Error(ErrorCode::kBadInput, "mincharnum is more than 1, but its words are single characters");
  if (!result.by_characters)
    for (const std::string& expression : expressions) result.patterns.emplace_back(expression);
  return result;
}

using Words = std::vector<std::string_view>;

std::size_t length_of(std::string_view text) {
  std::size_t count = 0;
  is_utf8(text, count);
  return count;
}

void append_characters(std::string_view text, Words& words) {
  for (std::size_t at = 0; at < text.size(); at += utf8_width(text[at])) words.push_back(text.substr(at, utf8_width(text[at])));
}

std::size_t behind_character(std::string_view text, std::size_t at) {
  return at < text.size() ? at + utf8_width(text[at]) : at + 1;
}

void append_found(std::string_view text, const Pattern& pattern, std::size_t shortest, Words& words) {
  std::size_t at = 0;
  while (at <= text.size()) {
    const auto place = pattern.find(text, at);
    if (!place) return;
    const std::string_view word = text.substr(place->begin, place->end - place->begin);
    if (!word.empty() && (shortest == 1 || length_of(word) >= shortest)) {
      words.push_back(word);
      at = place->end;
    } else {
      at = behind_character(text, place->begin);  // another word may begin in the middle of one that is too short
    }
  }
}

void append_between(std::string_view text, const Pattern& pattern, std::size_t shortest, Words& words) {
  std::size_t at = 0;
  const auto append = [&](std::size_t end) {
    if (length_of(text.substr(at, end - at)) >= shortest) words.push_back(text.substr(at, end - at));
  };
  while (at <= text.size()) {
    const auto place = pattern.find(text, at);
    append(place ? place->begin : text.size());
    if (!place) return;
    at = place->end > place->begin ? place->end : behind_character(text, place->begin);
  }
}

void append_words(std::string_view text, const Splitting& how, Words& words) {
  if (how.by_characters) return append_characters(text, words);
  if (!how.by_separators) return append_found(text, how.patterns[0], how.shortest, words);
  Words own = {text};
  for (const Pattern& pattern : how.patterns) {
    Words parts;
    for (const std::string_view part : own) append_between(part, pattern, how.shortest, parts);
    own = std::move(parts);
  }
  words.insert(words.end(), own.begin(), own.end());
}

void run_tokenizer(Call& call) {
  const Tensor& x = call.tensor(0);
  if (x.type() != DataType::kString) throw Error(ErrorCode::kBadInput, "its input must be texts");
  if (x.sizes().empty() || x.sizes().size() > 2) throw Error(ErrorCode::kBadInput, "its input must have shape [C] or [N, C]");
  const auto how = call.kept<Splitting>([&] { return splitting_of(call); });
  std::vector<std::size_t> ends;  // of each text's words
  Words words;
  std::size_t longest = 0;
  for (const std::string& text : x.strings()) {
    call.checkpoint();
    std::size_t count = 0;
    if (!is_utf8(text, count)) throw Error(ErrorCode::kBadInput, "a text is no UTF-8");
    const std::size_t before = words.size();
    append_words(text, *how, words);
    longest = std::max(longest, words.size() - before);
    ends.push_back(words.size());
  }
  const bool marked = call.integer("mark", 0) != 0;
  const std::size_t width = longest == 0 ? 0 : longest + (marked ? 2 : 0);
  Sizes sizes = x.sizes();
  sizes.push_back(static_cast<std::int64_t>(width));
  if (width > 0 && ends.size() > static_cast<std::size_t>(kMostElements) / width)
    throw Error(ErrorCode::kMissing, "not enough memory for the words of its texts");
  std::vector<std::string> result;
  result.reserve(ends.size() * width);
  const std::string padding = call.text("pad_value", "");
  std::size_t at = 0;
  for (std::size_t row = 0; row < ends.size() && width > 0; ++row) {
    if (marked) result.emplace_back("\x02");
    for (; at < ends[row]; ++at) result.emplace_back(words[at]);
    if (marked) result.emplace_back("\x03");
    result.resize((row + 1) * width, padding);
  }
  call.give(Tensor::from_strings(std::move(sizes), std::move(result)));
}

Procedure::KnownTypes infer_tokenizer(const OnnxAttributes&, const Procedure::KnownTypes& inputs, std::size_t) {
  if (inputs.empty() || !inputs[0]) return {std::nullopt};
  Sizes sizes = inputs[0]->sizes;
  sizes.push_back(-1);
  return {{{DataType::kString, std::move(sizes)}}};
}

}  // namespace

void register_tokenizer(Procedures& p) {
  p.add_foreign("com.microsoft", "Tokenizer", {.run = run_tokenizer, .infer = infer_tokenizer});
}

}  // namespace rewright::operators
