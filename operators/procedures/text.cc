// Strings: joining, splitting, normalizing, matching, and counting n-grams.
#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "operators/procedures/pattern.h"
#include "operators/procedures/procedures.h"
#include "operators/procedures/utf8.h"
#include "operators/tensor_parts.h"

namespace rewright::operators {

namespace {

Sizes broadcast_sizes(const Sizes& a, const Sizes& b) {
  Sizes result(std::max(a.size(), b.size()), 1);
  for (const Sizes* s : {&a, &b})
    for (std::size_t i = 0; i < s->size(); ++i) {
      std::int64_t& size = result[result.size() - s->size() + i];
      if ((*s)[i] == 1) continue;
      if (size != 1 && size != (*s)[i]) throw Error(ErrorCode::kBadInput, "the shapes cannot be broadcast together");
      size = (*s)[i];
    }
  return result;
}

// For each element of the result, the position of the element that broadcasting reads.
std::vector<std::int64_t> broadcast_places(const Sizes& from, const Sizes& to) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(element_count(to)));
  for (std::size_t n = 0; n < places.size(); ++n) {
    auto rest = static_cast<std::int64_t>(n);
    std::int64_t place = 0, stride = 1;
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::int64_t position = rest % to[to.size() - 1 - i];
      rest /= to[to.size() - 1 - i];
      if (i >= from.size()) continue;
      const std::int64_t size = from[from.size() - 1 - i];
      place += (size == 1 ? 0 : position) * stride;
      stride *= size;
    }
    places[n] = place;
  }
  return places;
}

void run_string_concat(Call& call) {
  const Sizes sizes = broadcast_sizes(call.tensor(0).sizes(), call.tensor(1).sizes());
  const Tensor a = picked(call.tensor(0), sizes, broadcast_places(call.tensor(0).sizes(), sizes));
  const Tensor b = picked(call.tensor(1), sizes, broadcast_places(call.tensor(1).sizes(), sizes));
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < a.strings().size(); ++i) joined.push_back(a.strings()[i] + b.strings()[i]);
  call.give(Tensor::from_strings(sizes, std::move(joined)));
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Splits at the delimiter, or at runs of white space if it is empty. At most `most` cuts (negative: any number).
std::vector<std::string> parts_of(const std::string& text, const std::string& delimiter, std::int64_t most) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  if (!delimiter.empty()) {
    for (std::size_t next; (next = text.find(delimiter, at)) != std::string::npos && most != 0; --most) {
      parts.push_back(text.substr(at, next - at));
      at = next + delimiter.size();
    }
    parts.push_back(text.substr(at));
    return parts;
  }
  while (true) {
    while (at < text.size() && is_space(text[at])) ++at;
    if (at == text.size()) return parts;
    std::size_t end = at;
    if (most-- == 0) {
      end = text.size();
      while (is_space(text[end - 1])) --end;
      parts.push_back(text.substr(at, end - at));
      return parts;
    }
    while (end < text.size() && !is_space(text[end])) ++end;
    parts.push_back(text.substr(at, end - at));
    at = end;
  }
}

void run_string_split(Call& call) {
  const Tensor& x = call.tensor(0);
  std::vector<std::vector<std::string>> all;
  std::size_t longest = 0;
  for (const std::string& text : x.strings()) {
    all.push_back(parts_of(text, call.text("delimiter", ""), call.integer("maxsplit", -1)));
    longest = std::max(longest, all.back().size());
  }
  if (all.size() > 0 && longest > (std::size_t{1} << 32) / all.size())
    throw Error(ErrorCode::kMissing, "not enough memory for the parts of its strings");
  std::vector<std::string> parts;
  std::vector<std::int64_t> counts;
  for (auto& p : all) {
    counts.push_back(static_cast<std::int64_t>(p.size()));
    p.resize(longest);
    std::move(p.begin(), p.end(), std::back_inserter(parts));
  }
  Sizes sizes = x.sizes();
  sizes.push_back(static_cast<std::int64_t>(longest));
  call.give(Tensor::from_strings(std::move(sizes), std::move(parts)));
  call.give(Tensor::from_integers(DataType::kInt64, x.sizes(), counts));
}

// The C library's table of Unicode's letters, whatever locales are installed; null without it.
locale_t letters() {
  static const locale_t made = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return made;
}

void append_code(std::string& text, std::uint32_t code) {
  constexpr std::uint32_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  text += static_cast<char>(kFirst[more] | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (code >> (6 * i) & 0x3f));
}

// Each code point in its lower or upper form. Bytes that are no UTF-8 stay.
std::string in_case(std::string text, bool upper) {
  const char low = upper ? 'a' : 'A', high = upper ? 'z' : 'Z';
  bool is_plain = true;
  for (char& c : text) {
    if (c >= low && c <= high) c = static_cast<char>(c ^ 0x20);
    is_plain &= static_cast<unsigned char>(c) < 0x80;
  }
  if (is_plain || letters() == nullptr) return text;
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint found = code_point_at(std::string_view(text).substr(at));
    if (found.width < 2) {
      result += text[at++];
      continue;
    }
    append_code(result,
                static_cast<std::uint32_t>(upper ? towupper_l(found.code, letters()) : towlower_l(found.code, letters())));
    at += found.width;
  }
  return result;
}

void run_string_normalizer(Call& call) {
  const Tensor& x = call.tensor(0);
  const std::string action = call.text("case_change_action", "NONE");
  const bool exact = call.integer("is_case_sensitive", 0) != 0;
  const auto stopwords = call.kept<std::unordered_set<std::string>>([&] {
    std::unordered_set<std::string> words;
    for (const std::string& word : call.texts("stopwords")) words.insert(exact ? word : in_case(word, false));
    return words;
  });
  std::vector<std::string> kept;
  kept.reserve(x.strings().size());
  for (const std::string& text : x.strings()) {
    if (!stopwords->empty() && stopwords->contains(exact ? text : in_case(text, false))) continue;
    kept.push_back(action == "LOWER" ? in_case(text, false) : action == "UPPER" ? in_case(text, true) : text);
  }
  if (kept.empty()) kept.emplace_back();
  Sizes sizes = x.sizes();
  if (sizes.empty() || sizes.size() > 2 || (sizes.size() == 2 && sizes[0] != 1))
    throw Error(ErrorCode::kBadInput, "its input must have shape [C] or [1, C]");
  sizes.back() = static_cast<std::int64_t>(kept.size());
  call.give(Tensor::from_strings(std::move(sizes), std::move(kept)));
}

void run_regex(Call& call) {
  const Tensor& x = call.tensor(0);
  const std::string pattern = call.text("pattern", "");
  const Pattern compiled(pattern);
  std::vector<std::int64_t> matches;
  for (const std::string& text : x.strings()) {
    call.checkpoint();
    matches.push_back(compiled.is_whole(text));
  }
  call.give(Tensor::from_integers(DataType::kBool, x.sizes(), matches));
}

// The n-grams of a TfIdfVectorizer as a tree: a path of items from its root is an n-gram, or the beginning of some. The pool
// has a part for each length; each n-gram has a position in the result.
template <class Item>
struct Grams {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Gram {
    std::int64_t place = -1;  // -1: no n-gram ends here
    std::size_t number = 0;
  };
  std::unordered_map<Item, std::uint32_t> items;  // numbers of the pool's items
  std::unordered_map<std::uint64_t, std::uint32_t> steps;
  std::vector<Gram> nodes{Gram()};
  std::int64_t width = 0;
  std::vector<double> weights;

  Grams(Call& call, const std::vector<Item>& pool) : weights(call.reals("weights")) {
    const std::vector<std::int64_t> starts = call.integers("ngram_counts"), places = call.integers("ngram_indexes");
    width = places.empty() ? 0 : *std::max_element(places.begin(), places.end()) + 1;
    std::size_t number = 0;
    for (std::size_t n = 0; n < starts.size(); ++n) {
      const auto end = static_cast<std::size_t>(n + 1 < starts.size() ? starts[n + 1] : static_cast<std::int64_t>(pool.size()));
      for (auto at = static_cast<std::size_t>(starts[n]); at + n < end && end <= pool.size(); at += n + 1, ++number) {
        if (number >= places.size() || places[number] < 0) throw Error(ErrorCode::kBadInput, "ngram_indexes are wrong");
        std::uint32_t node = 0;
        for (std::size_t k = at; k <= at + n; ++k) node = add(node, pool[k]);
        nodes[node] = {places[number], number};
      }
    }
  }

  std::uint32_t number_of(const Item& item) const {
    const auto found = items.find(item);
    return found == items.end() ? kNone : found->second;
  }
  std::uint32_t next(std::uint32_t node, std::uint32_t item) const {
    if (item == kNone) return kNone;
    const auto found = steps.find(step(node, item));
    return found == steps.end() ? kNone : found->second;
  }

 private:
  static std::uint64_t step(std::uint32_t node, std::uint32_t item) { return std::uint64_t{node} << 32 | item; }
  std::uint32_t add(std::uint32_t node, const Item& item) {
    const std::uint32_t number = items.try_emplace(item, static_cast<std::uint32_t>(items.size())).first->second;
    const auto [found, is_new] = steps.try_emplace(step(node, number), static_cast<std::uint32_t>(nodes.size()));
    if (is_new) nodes.emplace_back();
    return found->second;
  }
};

template <class Item>
void count_grams(Call& call, std::span<const Item> items, const std::function<std::vector<Item>()>& pool) {
  const Sizes& sizes = call.tensor(0).sizes();
  if (sizes.empty() || sizes.size() > 2) throw Error(ErrorCode::kBadInput, "its input must have shape [C] or [N, C]");
  const auto kept = call.kept<Grams<Item>>([&] { return Grams<Item>(call, pool()); });
  const Grams<Item>& grams = *kept;
  const std::int64_t shortest = call.integer("min_gram_length", 1), longest = call.integer("max_gram_length", 1);
  const std::int64_t skips = call.integer("max_skip_count", 0);
  const std::int64_t rows = sizes.size() == 2 ? sizes[0] : 1, length = sizes.back(), width = grams.width;
  require_few(rows);
  if (width > 0 && rows > kMostElements / width) require_few(kMostElements + 1);
  Tensor result(DataType::kFloat, sizes.size() == 2 ? Sizes{rows, width} : Sizes{width});
  const auto elements = result.mutable_data<float>();
  std::fill(elements.begin(), elements.end(), 0.0F);
  const std::string mode = call.text("mode", "TF");
  const bool is_tf = mode == "TF", is_idf = mode == "IDF";
  std::vector<std::uint32_t> row_items(static_cast<std::size_t>(length));
  std::vector<std::size_t> last(static_cast<std::size_t>(width));  // by position: the number of the last n-gram that was found
  for (std::int64_t row = 0; row < rows && !elements.empty(); ++row) {
    for (std::int64_t at = 0; at < length; ++at)
      row_items[static_cast<std::size_t>(at)] = grams.number_of(items[static_cast<std::size_t>(row * length + at)]);
    float* const counts = elements.data() + row * width;
    for (std::int64_t n = std::max<std::int64_t>(shortest, 1); n <= std::min(longest, length); ++n)
      for (std::int64_t step = 1; step <= (n == 1 ? 1 : std::min(skips + 1, length)); ++step) {
        call.checkpoint();
        for (std::int64_t at = 0; at + (n - 1) * step < length; ++at) {
          std::uint32_t node = 0;
          for (std::int64_t k = 0; k < n && node != Grams<Item>::kNone; ++k)
            node = grams.next(node, row_items[static_cast<std::size_t>(at + k * step)]);
          if (node == Grams<Item>::kNone || grams.nodes[node].place < 0) continue;
          counts[grams.nodes[node].place] += 1;
          last[static_cast<std::size_t>(grams.nodes[node].place)] = grams.nodes[node].number;
        }
      }
    for (std::int64_t place = 0; place < width; ++place) {
      if (counts[place] == 0) continue;
      const std::size_t number = last[static_cast<std::size_t>(place)];
      const double weight = is_tf || number >= grams.weights.size() ? 1 : grams.weights[number];
      counts[place] = static_cast<float>((is_idf ? 1 : counts[place]) * weight);
    }
  }
  call.give(std::move(result));
}

void run_tfidf(Call& call) {
  const Tensor& x = call.tensor(0);
  if (x.type() == DataType::kString)
    return count_grams<std::string>(call, x.strings(), [&] { return call.texts("pool_strings"); });
  const std::vector<std::int64_t> items = x.integers();
  count_grams<std::int64_t>(call, items, [&] { return call.integers("pool_int64s"); });
}

}  // namespace

void register_text(Procedures& p) {
  p.add("StringConcat", run_string_concat);
  p.add("StringSplit", run_string_split);
  p.add("StringNormalizer", run_string_normalizer);
  p.add("RegexFullMatch", run_regex);
  p.add("TfIdfVectorizer", run_tfidf);
}

}  // namespace rewright::operators
