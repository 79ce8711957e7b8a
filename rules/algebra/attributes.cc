// Attributes, lists and index expressions of rules in algebra.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "rules/algebra/parser.h"

namespace rewright::rules::internal {

namespace {

constexpr std::size_t kMaximumTerms = 1000;  // of an index expression

std::size_t term_count(const Index& index) { return 1 + (index.polynomial() ? index.polynomial()->monomials.size() : 0); }

}  // namespace

bool AlgebraParser::at_list() const {
  if (at("[")) return true;
  if (peek().kind != Token::Kind::kName) return false;
  if (at("(", 1)) {
    const RuleFunction* f = find_rule_function(peek().text);
    return f && f->result == RuleFunction::Result::kIndices;
  }
  const auto sort = sorts_.find(peek().text);
  return sort != sorts_.end() && sort->second == Sort::kList;
}

Expression AlgebraParser::parse_attribute(const AttributeValue& kind) {
  const Nesting nesting(*this);
  if (std::holds_alternative<Index>(kind)) return Expression::literal(parse_sum_index());
  if (std::holds_alternative<Indices>(kind)) return parse_list();
  if (std::holds_alternative<Real>(kind)) return parse_real();
  if (std::holds_alternative<bool>(kind)) {
    if (accept("true")) return Expression::literal(true);
    if (accept("false")) return Expression::literal(false);
    const std::string name = expect_name("true, false or a variable");
    require_sort(name, Sort::kBool);
    return Expression::variable(name);
  }
  if (std::holds_alternative<std::string>(kind)) {
    if (peek().kind == Token::Kind::kText) return Expression::literal(tokens_[next_++].text);
    const std::string name = expect_name("a text or a variable");
    require_sort(name, Sort::kText);
    return Expression::variable(name);
  }
  if (std::holds_alternative<DataType>(kind)) {
    const std::string name = expect_name("an element type or a variable");
    if (const auto type = data_type_from_name(name); type && !sorts_.count(name)) return Expression::literal(*type);
    require_sort(name, Sort::kType);
    return Expression::variable(name);
  }
  fail("this attribute cannot be given in a rule");
}

Expression AlgebraParser::parse_list() {
  const Nesting nesting(*this);
  if (at("[")) return parse_list_literal();
  if (at("(", 1)) {
    const RuleFunction* f = peek().kind == Token::Kind::kName ? find_rule_function(peek().text) : nullptr;
    if (!f || f->result != RuleFunction::Result::kIndices) fail("\"" + peek().text + "\" does not give a list");
    return parse_call();
  }
  const std::string name = expect_name("a list");
  require_sort(name, Sort::kList);
  return Expression::variable(name);
}

Expression AlgebraParser::parse_list_literal() {
  Indices elements;
  expect("[");
  if (!at("]")) {
    do elements.push_back(parse_sum_index());
    while (accept(","));
  }
  expect("]");
  return Expression::literal(std::move(elements));
}

Expression AlgebraParser::parse_real() {
  const Nesting nesting(*this);
  const bool negative = accept("-");
  if (peek().kind == Token::Kind::kNumber) {
    const double value = to_double(tokens_[next_++].text);
    return Expression::literal(Real(negative ? -value : value));
  }
  if (at_name("infinity") || at_name("nan")) {
    const double value = accept("infinity") ? HUGE_VAL : (accept("nan"), std::nan(""));
    return Expression::literal(Real(negative ? -value : value));
  }
  if (negative) fail("expected a number after \"-\"");
  if (at("(", 1)) {
    const RuleFunction* f = peek().kind == Token::Kind::kName ? find_rule_function(peek().text) : nullptr;
    if (!f || f->result != RuleFunction::Result::kReal) fail("\"" + peek().text + "\" does not give a real number");
    return parse_call();
  }
  const std::string name = expect_name("a real number");
  require_sort(name, Sort::kReal);
  return Expression::literal(Real::unknown(name));
}

Expression AlgebraParser::parse_call() {
  const Nesting nesting(*this);
  const std::string name = expect_name("a function");
  const RuleFunction* f = find_rule_function(name);
  if (!f) fail("there is no function \"" + name + "\"");
  std::vector<Expression> arguments;
  expect("(");
  for (std::size_t i = 0; i < f->arguments.size(); ++i) {
    if (i) expect(",");
    switch (f->arguments[i]) {
      case 'x': {
        const std::string input = expect_name("an input");
        (void)input_number(input);
        arguments.push_back(Expression::variable(input));
        break;
      }
      case 'i':
        arguments.push_back(Expression::literal(parse_sum_index()));
        break;
      case 'l':
        arguments.push_back(parse_list());
        break;
      default:
        arguments.push_back(parse_real());
        break;
    }
  }
  expect(")");
  return Expression::call(name, std::move(arguments));
}

// ---- Index expressions

Index AlgebraParser::parse_sum_index() {
  const Nesting nesting(*this);
  Index left = accept("-") ? -parse_product_index() : parse_product_index();
  while (at("+") || at("-")) {
    const bool plus = accept("+") || !accept("-");
    const Index right = parse_product_index();
    left = plus ? left + right : left - right;
    if (term_count(left) > kMaximumTerms) fail("an index expression has too many terms");
  }
  return left;
}

Index AlgebraParser::parse_product_index() {
  Index left = parse_factor_index();
  for (;;) {
    if (accept("*")) {
      const Index right = parse_factor_index();
      if (term_count(left) * term_count(right) > kMaximumTerms) fail("an index expression has too many terms");
      left *= right;
    } else if (accept("div")) {
      left = floor_div(left, parse_factor_index());
    } else if (accept("mod")) {
      left = mod(left, parse_factor_index());
    } else {
      return left;
    }
  }
}

Index AlgebraParser::parse_factor_index() {
  const Nesting nesting(*this);
  if (accept("(")) {
    Index inner = parse_sum_index();
    expect(")");
    return inner;
  }
  if (accept("-")) return -parse_factor_index();
  if (peek().kind == Token::Kind::kNumber) {
    const std::string& text = tokens_[next_].text;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail("expected an integer, found \"" + text + "\"");
    ++next_;
    return value;
  }
  if (peek().kind != Token::Kind::kName) fail("expected an index expression");
  if (at("(", 1)) {
    const std::string name = peek().text;
    if (name == "min" || name == "max") {
      next_ += 2;
      const Index a = parse_sum_index();
      expect(",");
      const Index b = parse_sum_index();
      expect(")");
      return name == "min" ? min(a, b) : max(a, b);
    }
    const RuleFunction* f = find_rule_function(name);
    if (plain_index_ || !f || f->result != RuleFunction::Result::kIndex) fail("\"" + name + "\" does not give an index");
    return quantity(parse_call());
  }
  const std::string name = expect_name("an index");
  if (!plain_index_) require_sort(name, Sort::kIndex);
  return Index::symbol(name);
}

// A call inside of an index expression becomes a quantity with a name.
Index AlgebraParser::quantity(Expression call) {
  auto& quantities = result_.rule.quantities;
  for (const Quantity& q : quantities)
    if (q.value == call) return Index::symbol(q.name);
  const std::string fresh = "q" + std::to_string(quantities.size() + 1);
  if (sorts_.count(fresh) || terms_.count(fresh)) fail("the name \"" + fresh + "\" is needed for a call");
  require_sort(fresh, Sort::kIndex);
  quantities.push_back({fresh, std::move(call)});
  return Index::symbol(fresh);
}

}  // namespace rewright::rules::internal
