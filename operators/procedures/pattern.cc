#include "operators/procedures/pattern.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>

#include "base/error.h"

namespace rewright::operators {

namespace {

constexpr std::uint32_t kLastCode = 0x10FFFF, kUnknown = ~std::uint32_t{0};
constexpr std::size_t kMostInstructions = 20000, kMostStates = 2000,
                      kLongest = 1000;  // the last limits how deep an expression nests
constexpr int kMostRepeats = 1000;

}  // namespace

CodePoint code_point_at(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t width = first >= 0xf8 ? 0 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (width == 0 || text.size() < width) return {};
  std::uint32_t code = first & (0x7fU >> width);
  for (std::size_t i = 1; i < width; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[width] || code > kLastCode || (code >= 0xd800 && code < 0xe000)) return {};
  return {code, width};
}

bool is_utf8(std::string_view text, std::size_t& count) {
  count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) {
    const std::size_t width = code_point_at(text.substr(at)).width;
    if (width == 0) return false;
    at += width;
  }
  return true;
}

std::size_t utf8_width(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}

struct PatternCompiler {
  using Range = std::pair<std::uint32_t, std::uint32_t>;
  using Ranges = std::vector<Range>;
  struct Piece {
    enum class Kind { kChars, kTest, kSequence, kChoice, kRepeat } kind = Kind::kSequence;
    Ranges chars = {};
    Pattern::Test test = Pattern::Test::kTextBegin;
    std::vector<Piece> parts = {};
    int least = 0, most = -1;  // -1: any number
  };
  struct Named {
    const char* name;
    Ranges ranges;
  };

  Pattern& pattern;
  std::string_view rest;
  std::vector<Ranges> sets = {};
  std::map<const Piece*, std::uint32_t> set_of = {};  // a piece that is repeated has one set
  std::size_t emitted = 0;

  [[noreturn]] static void refuse(const std::string& why) {
    throw Error(ErrorCode::kUnsupported, "its pattern is not understood: " + why);
  }
  [[noreturn]] static void refuse_large() { throw Error(ErrorCode::kUnsupported, "its pattern is too large"); }
  char next() {
    if (rest.empty()) refuse("it ends early");
    const char c = rest.front();
    rest.remove_prefix(1);
    return c;
  }
  bool take(std::string_view text) {
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
    return true;
  }
  std::uint32_t next_code() {
    const CodePoint found = code_point_at(rest);
    if (found.width == 0) refuse(rest.empty() ? "it ends early" : "it is no UTF-8");
    rest.remove_prefix(found.width);
    return found.code;
  }

  static Ranges negated(Ranges ranges) {
    std::sort(ranges.begin(), ranges.end());
    Ranges result;
    std::uint32_t from = 0;
    for (const auto& [low, high] : ranges) {
      if (low > from) result.emplace_back(from, low - 1);
      from = std::max(from, high + 1);
    }
    if (from <= kLastCode) result.emplace_back(from, kLastCode);
    return result;
  }
  static Ranges words() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
  // A class that a letter behind a backslash names; empty if it names none.
  static Ranges class_named(char letter) {
    const auto small = static_cast<char>(letter | 0x20);
    Ranges result = small == 'd'   ? Ranges{{'0', '9'}}
                    : small == 'w' ? words()
                    : small == 's' ? Ranges{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}
                                   : Ranges();
    return result.empty() || letter == small ? result : negated(result);
  }
  // The code point behind a backslash.
  std::uint32_t escaped() {
    const std::string_view letters = "afnrtv", meant = "\a\f\n\r\t\v";
    if (const std::size_t at = rest.empty() ? rest.npos : letters.find(rest.front()); at != letters.npos) {
      next();
      return static_cast<std::uint32_t>(meant[at]);
    }
    if (take("x")) {
      const bool braced = take("{");
      const std::size_t count = braced ? std::min(rest.find('}'), rest.size()) : std::min<std::size_t>(2, rest.size());
      std::uint32_t code = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + count, code, 16);
      if (count == 0 || error != std::errc() || end != rest.data() + count || code > kLastCode) refuse("a code is none");
      rest.remove_prefix(count);
      if (braced && !take("}")) refuse("a brace is not closed");
      return code;
    }
    const auto code = next_code();
    if (code >= 0x80 || (code >= '0' && code <= '9') || ((code | 0x20) >= 'a' && (code | 0x20) <= 'z'))
      refuse("what stands behind a backslash");
    return code;
  }

  Ranges named_class() {
    static const std::vector<Named> kNamed{{"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
                                           {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
                                           {"ascii", {{0, 0x7f}}},
                                           {"blank", {{'\t', '\t'}, {' ', ' '}}},
                                           {"cntrl", {{0, 0x1f}, {0x7f, 0x7f}}},
                                           {"digit", {{'0', '9'}}},
                                           {"graph", {{'!', '~'}}},
                                           {"lower", {{'a', 'z'}}},
                                           {"print", {{' ', '~'}}},
                                           {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
                                           {"space", {{'\t', '\r'}, {' ', ' '}}},
                                           {"upper", {{'A', 'Z'}}},
                                           {"word", words()},
                                           {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}};
    const bool outside = take("^");
    for (const auto& [name, ranges] : kNamed)
      if (take(std::string(name) + ":]")) return outside ? negated(ranges) : ranges;
    refuse("a class of that name");
  }

  Ranges bracketed() {
    const bool outside = take("^");
    Ranges ranges;
    for (bool first = true; first || !rest.starts_with("]"); first = false) {
      if (take("[:")) {
        const Ranges more = named_class();
        ranges.insert(ranges.end(), more.begin(), more.end());
        continue;
      }
      if (rest.size() > 1 && rest[0] == '\\') {
        if (const Ranges more = class_named(rest[1]); !more.empty()) {
          rest.remove_prefix(2);
          ranges.insert(ranges.end(), more.begin(), more.end());
          continue;
        }
      }
      const std::uint32_t low = take("\\") ? escaped() : next_code();
      std::uint32_t high = low;
      if (rest.size() > 1 && rest[0] == '-' && rest[1] != ']') {
        next();
        high = take("\\") ? escaped() : next_code();
        if (high < low) refuse("a range that ends before it begins");
      }
      ranges.emplace_back(low, high);
    }
    next();
    return outside ? negated(ranges) : ranges;
  }

  static Piece chars(Ranges ranges) { return {.kind = Piece::Kind::kChars, .chars = std::move(ranges)}; }
  static Piece test(Pattern::Test test) { return {.kind = Piece::Kind::kTest, .test = test}; }

  Piece atom() {
    if (take("(")) {
      if (take("?") && !take(":")) {
        if (!take("P<")) refuse("flags");
        const std::size_t end = rest.find('>');
        if (end == rest.npos) refuse("a name that does not end");
        rest.remove_prefix(end + 1);
      }
      Piece inner = choice();
      if (!take(")")) refuse("a parenthesis is not closed");
      return inner;
    }
    if (take("[")) return chars(bracketed());
    if (take(".")) return chars(negated({{'\n', '\n'}}));
    if (take("^") || take("\\A")) return test(Pattern::Test::kTextBegin);
    if (take("$") || take("\\z")) return test(Pattern::Test::kTextEnd);
    if (take("\\b")) return test(Pattern::Test::kWordEdge);
    if (take("\\B")) return test(Pattern::Test::kNoWordEdge);
    if (rest.find_first_of("*+?") == 0) refuse("a repetition of nothing");
    if (take("\\")) {
      if (!rest.empty())
        if (const Ranges named = class_named(rest.front()); !named.empty()) return next(), chars(named);
      const std::uint32_t code = escaped();
      return chars({{code, code}});
    }
    const std::uint32_t code = next_code();
    return chars({{code, code}});
  }

  // How often what stands before is repeated; no counts in braces are no repetition.
  bool repetition(int& least, int& most) {
    if (take("*")) return least = 0, most = -1, true;
    if (take("+")) return least = 1, most = -1, true;
    if (take("?")) return least = 0, most = 1, true;
    if (!rest.starts_with("{")) return false;
    const char *at = rest.data() + 1, *const end = rest.data() + rest.size();
    auto found = std::from_chars(at, end, least);
    if (found.ec != std::errc() || found.ptr == end) return false;
    most = least;
    if (*found.ptr == ',') {
      at = found.ptr + 1;
      most = -1;
      if (at < end && *at != '}') {
        found = std::from_chars(at, end, most);
        if (found.ec != std::errc()) return false;
        at = found.ptr;
      }
      found.ptr = at;
    }
    if (found.ptr == end || *found.ptr != '}') return false;
    if (least < 0 || least > kMostRepeats || most > kMostRepeats || (most >= 0 && most < least))
      refuse("a count of repetitions");
    rest.remove_prefix(static_cast<std::size_t>(found.ptr + 1 - rest.data()));
    return true;
  }

  Piece sequence() {
    Piece result{.kind = Piece::Kind::kSequence};
    while (!rest.empty() && rest.front() != '|' && rest.front() != ')') {
      Piece piece = atom();
      for (int least = 0, most = 0; repetition(least, most);) {
        take("?");  // the longest place is sought all the same
        Piece repeated{.kind = Piece::Kind::kRepeat, .least = least, .most = most};
        repeated.parts.push_back(std::move(piece));
        piece = std::move(repeated);
      }
      result.parts.push_back(std::move(piece));
    }
    return result;
  }

  Piece choice() {
    Piece result{.kind = Piece::Kind::kChoice};
    do result.parts.push_back(sequence());
    while (take("|"));
    return result;
  }

  std::uint32_t add(Pattern::Instruction instruction) {
    if (pattern.code_.size() >= kMostInstructions) refuse_large();
    pattern.code_.push_back(std::move(instruction));
    return static_cast<std::uint32_t>(pattern.code_.size() - 1);
  }

  // Instructions for a piece that is followed by those at `after`; their first one.
  std::uint32_t emit(const Piece& piece, std::uint32_t after) {
    using Kind = Pattern::Instruction::Kind;
    if (++emitted > kMostInstructions) refuse_large();  // repetitions of nothing add no instruction
    switch (piece.kind) {
      case Piece::Kind::kChars:
        if (set_of.try_emplace(&piece, static_cast<std::uint32_t>(sets.size())).second) sets.push_back(piece.chars);
        return add({.kind = Kind::kChars, .next = after, .other = set_of.at(&piece)});
      case Piece::Kind::kTest:
        return add({.kind = Kind::kTest, .next = after, .test = piece.test});
      case Piece::Kind::kSequence:
        for (auto part = piece.parts.rbegin(); part != piece.parts.rend(); ++part) after = emit(*part, after);
        return after;
      case Piece::Kind::kChoice: {
        std::uint32_t first = emit(piece.parts.front(), after);
        for (std::size_t i = 1; i < piece.parts.size(); ++i)
          first = add({.kind = Kind::kSplit, .next = first, .other = emit(piece.parts[i], after)});
        return first;
      }
      case Piece::Kind::kRepeat:
        break;
    }
    std::uint32_t first = after;
    if (piece.most < 0) {
      first = add({.kind = Kind::kSplit, .other = after});
      const std::uint32_t body = emit(piece.parts[0], first);
      pattern.code_[first].next = body;
    }
    for (int i = piece.least; i < piece.most; ++i)
      first = add({.kind = Kind::kSplit, .next = emit(piece.parts[0], first), .other = after});
    for (int i = 0; i < piece.least; ++i) first = emit(piece.parts[0], first);
    return first;
  }

  // Code points that no set of the expression tells apart are one class.
  void make_classes() {
    std::vector<std::uint32_t> begins{0};
    sets.push_back(words());
    for (const Ranges& ranges : sets)
      for (const auto& [low, high] : ranges) begins.push_back(low), begins.push_back(high + 1);
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    std::vector<std::vector<bool>> members;
    for (const Ranges& ranges : sets) {
      std::vector<bool>& inside = members.emplace_back(begins.size());
      for (std::size_t i = 0; i < begins.size(); ++i)
        inside[i] = std::any_of(ranges.begin(), ranges.end(),
                                [&](const Range& r) { return r.first <= begins[i] && begins[i] <= r.second; });
    }
    for (auto& instruction : pattern.code_)
      if (instruction.kind == Pattern::Instruction::Kind::kChars) instruction.classes = members[instruction.other];
    pattern.is_word_class_ = members.back();
    for (std::uint32_t code = 0; code < 128; ++code)
      pattern.ascii_[code] =
          static_cast<std::uint32_t>(std::upper_bound(begins.begin(), begins.end(), code) - begins.begin() - 1);
    pattern.first_of_class_ = std::move(begins);
  }
};

Pattern::Pattern(std::string_view expression) {
  if (expression.size() > kLongest)
    throw Error(ErrorCode::kUnsupported, "its pattern is longer than " + std::to_string(kLongest));
  PatternCompiler compiler{*this, expression};
  const PatternCompiler::Piece piece = compiler.choice();
  if (!compiler.rest.empty()) PatternCompiler::refuse("a parenthesis is not opened");
  code_.emplace_back();  // the end
  entry_ = compiler.emit(piece, 0);
  compiler.make_classes();
}

std::uint32_t Pattern::class_of(std::string_view text, std::size_t at) const {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return ascii_[byte];
  const std::uint32_t code = code_point_at(text.substr(at)).code;
  return static_cast<std::uint32_t>(std::upper_bound(first_of_class_.begin(), first_of_class_.end(), code) -
                                    first_of_class_.begin() - 1);
}

std::uint32_t Pattern::state(State state) {
  const auto [found, is_new] = numbers_.try_emplace(std::move(state), static_cast<std::uint32_t>(states_.size()));
  if (is_new) {
    states_.push_back(&found->first);
    steps_.resize(states_.size() * (first_of_class_.size() + 1), kUnknown);
  }
  return found->second;
}

std::uint32_t Pattern::step(std::uint32_t from, std::uint32_t symbol) {
  const std::size_t place = from * (first_of_class_.size() + 1) + symbol;
  if (steps_[place] == kUnknown) {
    const std::uint32_t found = computed(from, symbol);
    steps_[place] = found;
  }
  return steps_[place];
}

std::uint32_t Pattern::computed(std::uint32_t from, std::uint32_t symbol) {
  const bool at_end = symbol == first_of_class_.size(), is_word = !at_end && is_word_class_[symbol];
  const Before before = states_[from]->before;
  std::vector<std::uint32_t> open = states_[from]->threads;
  std::vector<bool> seen(code_.size());
  State after{{}, is_word ? Before::kWord : Before::kOther};
  bool ends = false;
  const auto holds = [&](Test test) {
    if (test == Test::kTextBegin) return before == Before::kNothing;
    if (test == Test::kTextEnd) return at_end;
    return ((before == Before::kWord) != is_word) == (test == Test::kWordEdge);
  };
  while (!open.empty()) {
    const std::uint32_t number = open.back();
    open.pop_back();
    if (seen[number]) continue;
    seen[number] = true;
    const Instruction& instruction = code_[number];
    switch (instruction.kind) {
      case Instruction::Kind::kEnd:
        ends = true;
        break;
      case Instruction::Kind::kSplit:
        open.push_back(instruction.next), open.push_back(instruction.other);
        break;
      case Instruction::Kind::kTest:
        if (holds(instruction.test)) open.push_back(instruction.next);
        break;
      case Instruction::Kind::kChars:
        if (!at_end && instruction.classes[symbol]) after.threads.push_back(instruction.next);
        break;
    }
  }
  std::sort(after.threads.begin(), after.threads.end());
  after.threads.erase(std::unique(after.threads.begin(), after.threads.end()), after.threads.end());
  return 2 * state(std::move(after)) + ends;
}

std::optional<std::size_t> Pattern::longest_end(std::string_view text, std::size_t from) {
  const auto is_word = [&](char c) {
    return static_cast<unsigned char>(c) < 0x80 && is_word_class_[ascii_[static_cast<unsigned char>(c)]];
  };
  const Before before = from == 0 ? Before::kNothing : is_word(text[from - 1]) ? Before::kWord : Before::kOther;
  std::uint32_t& start = starts_[static_cast<std::size_t>(before)];
  if (start == kUnknown) start = state({{entry_}, before});
  std::uint32_t at_state = start;
  std::optional<std::size_t> end;
  for (std::size_t at = from; !states_[at_state]->threads.empty(); at += utf8_width(text[at])) {
    const std::uint32_t found =
        step(at_state, at < text.size() ? class_of(text, at) : static_cast<std::uint32_t>(first_of_class_.size()));
    if (found & 1) end = at;
    if (at >= text.size()) break;
    at_state = found >> 1;
    if (states_.size() > kMostStates) {
      State reached = *states_[at_state];
      numbers_.clear(), states_.clear(), steps_.clear();
      std::fill(std::begin(starts_), std::end(starts_), kUnknown);
      at_state = state(std::move(reached));
    }
  }
  return end;
}

std::optional<Pattern::Place> Pattern::find(std::string_view text, std::size_t from) {
  for (std::size_t begin = from; begin <= text.size(); begin += begin < text.size() ? utf8_width(text[begin]) : 1)
    if (const auto end = longest_end(text, begin)) return Place{begin, *end};
  return std::nullopt;
}

bool Pattern::is_whole(std::string_view text) { return longest_end(text, 0) == text.size(); }

}  // namespace rewright::operators
