// Files of rules in algebra: headers, templates and optional inputs, which are expanded into plain rules.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/error.h"
#include "rules/algebra/parser.h"
#include "rules/io.h"

namespace rewright::rules {

using internal::AlgebraParser;
using internal::Token;

namespace {

constexpr std::size_t kMaximumBytes = std::size_t{4} << 20;
constexpr std::size_t kMaximumTokens = std::size_t{4} << 20;  // of all variants together
constexpr std::size_t kMaximumRules = 100000;
constexpr std::size_t kMaximumVariants = 256;
constexpr std::size_t kMaximumBad = 1000;  // rules in a file

[[noreturn]] void fail(const std::string& what, const std::string& file, int line) {
  throw Error(ErrorCode::kBadInput, what, file + ":" + std::to_string(line));
}

bool is_symbol(const Token& token, std::string_view text) { return token.kind == Token::Kind::kSymbol && token.text == text; }
bool is_name(const Token& token, std::string_view text) { return token.kind == Token::Kind::kName && token.text == text; }

// `for NAME in {value, value, ...}`
struct Template {
  std::string name;
  std::vector<std::vector<Token>> values;
};

class FileReader {
 public:
  // Bad rules are added to `bad`; if it is null, the first one throws.
  FileReader(std::string_view text, const std::string& file, std::vector<BadRule>* bad)
      : file_(file), tokens_(internal::tokenize(text, file, bad != nullptr)), bad_(bad) {}

  std::vector<Rule> read() {
    while (peek().kind != Token::Kind::kEnd) {
      const std::size_t begin = next_;
      tolerantly(peek(1).kind == Token::Kind::kName ? peek(1).text : "", [&] { read_rule(); });
      if (next_ == begin) ++next_;
      while (peek().kind != Token::Kind::kEnd && !is_name(peek(), "rule")) ++next_;
    }
    return std::move(rules_);
  }

 private:
  // Reads a rule; keeps its error where bad rules are collected.
  template <class Read>
  void tolerantly(const std::string name, const Read& read) {
    try {
      read();
    } catch (const Error& e) {
      if (!bad_ || bad_->size() >= kMaximumBad) throw;
      int line = line_;  // of the error, if it contains FILE:LINE
      if (e.where().starts_with(file_ + ":"))
        std::from_chars(e.where().data() + file_.size() + 1, e.where().data() + e.where().size(), line);
      bad_->push_back({name, line, e.text() + (e.hint().empty() ? "" : " (" + e.hint() + ")")});
    }
  }

  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }

  void expect(std::string_view symbol) {
    if (!is_symbol(peek(), symbol)) fail("expected \"" + std::string(symbol) + "\"", file_, peek().line);
    ++next_;
  }

  std::string expect_name(std::string_view what) {
    if (peek().kind != Token::Kind::kName) fail("expected " + std::string(what), file_, peek().line);
    return tokens_[next_++].text;
  }

  void read_rule() {
    line_ = peek().line;
    if (!is_name(peek(), "rule")) fail("expected \"rule\"", file_, line_);
    ++next_;
    name_ = expect_name("the name of a rule");
    expect(":");
    if (peek().kind == Token::Kind::kError) fail(peek().text, file_, peek().line);
    if (peek().kind != Token::Kind::kText) fail("expected a description in quotes", file_, peek().line);
    description_ = tokens_[next_++].text;
    std::vector<Template> templates;
    while (is_name(peek(), "for")) templates.push_back(read_template());
    std::vector<Token> body;
    while (peek().kind != Token::Kind::kEnd && !is_name(peek(), "rule")) {
      if (peek().kind == Token::Kind::kError) fail(peek().text, file_, peek().line);
      body.push_back(tokens_[next_++]);
    }
    std::size_t variants = 1;
    for (const Template& t : templates)
      if ((variants *= t.values.size()) > kMaximumVariants) fail("too many variants of one rule", file_, line_);
    expand(templates, 0, body, name_);
  }

  Template read_template() {
    ++next_;
    Template result;
    result.name = expect_name("the name of a template's variable");
    if (expect_name("\"in\"") != "in") fail("expected \"in\"", file_, peek().line);
    expect("{");
    result.values.emplace_back();
    for (int depth = 0; depth > 0 || !is_symbol(peek(), "}"); ++next_) {
      const Token& token = peek();
      if (token.kind == Token::Kind::kEnd) fail("\"{\" is not closed", file_, token.line);
      if (is_symbol(token, "[") || is_symbol(token, "(") || is_symbol(token, "{")) ++depth;
      if (is_symbol(token, "]") || is_symbol(token, ")") || is_symbol(token, "}")) --depth;
      if (depth == 0 && is_symbol(token, ","))
        result.values.emplace_back();
      else
        result.values.back().push_back(token);
    }
    expect("}");
    return result;
  }

  void expand(const std::vector<Template>& templates, std::size_t next, const std::vector<Token>& body,
              const std::string& name) {
    if (next == templates.size()) return expand_optional(body, name);
    const Template& t = templates[next];
    for (std::size_t v = 0; v < t.values.size(); ++v) {
      std::vector<Token> replaced;
      for (const Token& token : body) {
        if (is_name(token, t.name))
          replaced.insert(replaced.end(), t.values[v].begin(), t.values[v].end());
        else
          replaced.push_back(token);
        if (expanded_ + replaced.size() > kMaximumTokens) fail("too many variants of rules", file_, line_);
      }
      expanded_ += replaced.size();
      const bool plain =
          t.values[v].size() == 1 && (t.values[v][0].kind == Token::Kind::kName ||
                                      (t.values[v][0].kind == Token::Kind::kNumber &&
                                       t.values[v][0].text.find_first_not_of("0123456789") == std::string::npos));
      expand(templates, next + 1, replaced, name + "_" + (plain ? t.values[v][0].text : std::to_string(v + 1)));
    }
  }

  // Expands inputs written as `b?` into one rule for each set of absent ones.
  void expand_optional(std::vector<Token> body, const std::string& name) {
    std::vector<std::string> optional;
    for (std::size_t i = 0; i + 1 < body.size(); ++i)
      if (body[i].kind == Token::Kind::kName && is_symbol(body[i + 1], "?")) optional.push_back(body[i].text);
    if (optional.size() > 6) fail("too many optional inputs", file_, line_);
    body.push_back({Token::Kind::kEnd, "", peek().line});
    for (std::size_t set = 0; set < (std::size_t{1} << optional.size()); ++set) {
      if ((expanded_ += body.size()) > kMaximumTokens) fail("too many variants of rules", file_, line_);
      std::set<std::string> absent;
      std::string suffix;
      for (std::size_t i = 0; i < optional.size(); ++i)
        if (set >> i & 1) {
          absent.insert(optional[i]);
          suffix += "_" + optional[i];
        }
      const std::string full_name = suffix.empty() ? name : name + "_without" + suffix;
      tolerantly(full_name, [&] { add(AlgebraParser(body, file_, absent).parse(), full_name); });
    }
  }

  void add(AlgebraParser::Result parsed, const std::string& name) {
    parsed.rule.name = name;
    parsed.rule.description = description_;
    if (parsed.both_directions) {
      Rule reversed = parsed.rule;
      reversed.name += "_reversed";
      std::swap(reversed.source, reversed.target);
      reversed.math = parsed.reversed_math.value_or(reversed.math);
      tolerantly(parsed.rule.name, [&] { finish(std::move(parsed.rule)); });
      tolerantly(reversed.name, [&] { finish(std::move(reversed)); });
    } else {
      finish(std::move(parsed.rule));
    }
  }

  void finish(Rule rule) {
    try {
      check_rule(rule);
    } catch (const Error& e) {
      throw e.within(file_ + ":" + std::to_string(line_));
    }
    if (!names_.insert(rule.name).second) fail("two rules are called " + rule.name, file_, line_);
    if (rules_.size() >= kMaximumRules) fail("too many rules", file_, line_);
    rules_.push_back(std::move(rule));
  }

  std::string file_;
  std::vector<Token> tokens_;
  std::vector<BadRule>* bad_;
  std::size_t next_ = 0;
  int line_ = 0;              // of the rule being read
  std::size_t expanded_ = 0;  // tokens of all variants so far
  std::string name_, description_;
  std::vector<Rule> rules_;
  std::set<std::string> names_;
};

}  // namespace

namespace {

std::vector<Rule> read_algebra(std::string_view text, const std::string& name, std::vector<BadRule>* bad) {
  if (text.size() > kMaximumBytes) throw Error(ErrorCode::kBadInput, "the file is too large", name);
  return FileReader(text, name, bad).read();
}

}  // namespace

std::vector<Rule> parse_algebra(std::string_view text, const std::string& name) { return read_algebra(text, name, nullptr); }

std::vector<Rule> parse_algebra(std::string_view text, const std::string& name, std::vector<BadRule>& bad) {
  return read_algebra(text, name, &bad);
}

}  // namespace rewright::rules
