#include "rules/algebra/parser.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/error.h"

namespace rewright::rules::internal {

namespace {

constexpr int kMaximumDepth = 100;
constexpr std::size_t kMaximumNodes = 1000;

}  // namespace

AlgebraParser::Nesting::Nesting(AlgebraParser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaximumDepth) {
    --parser_.depth_;
    parser_.fail("expressions are nested too deeply");
  }
}

void AlgebraParser::fail(const std::string& what) const {
  throw Error(ErrorCode::kBadInput, what, file_ + ":" + std::to_string(peek().line));
}

bool AlgebraParser::at(std::string_view symbol, std::size_t ahead) const {
  return peek(ahead).kind == Token::Kind::kSymbol && peek(ahead).text == symbol;
}

bool AlgebraParser::at_name(std::string_view name, std::size_t ahead) const {
  return peek(ahead).kind == Token::Kind::kName && peek(ahead).text == name;
}

bool AlgebraParser::accept(std::string_view text) {
  if (!at(text) && !at_name(text)) return false;
  ++next_;
  return true;
}

void AlgebraParser::expect(std::string_view symbol) {
  if (accept(symbol)) return;
  const std::string found = peek().kind == Token::Kind::kEnd ? "the end of the rule" : "\"" + peek().text + "\"";
  fail("expected \"" + std::string(symbol) + "\", found " + found);
}

std::string AlgebraParser::expect_name(std::string_view what) {
  if (peek().kind != Token::Kind::kName) fail("expected " + std::string(what));
  return tokens_[next_++].text;
}

AlgebraParser::Sort AlgebraParser::require_sort(const std::string& name, Sort sort) {
  static constexpr std::string_view kNames[] = {"an input", "an index",      "a list",         "a real number",
                                                "a text",   "a truth value", "an element type"};
  if (terms_.count(name)) fail("\"" + name + "\" is a tensor");
  const auto [found, inserted] = sorts_.emplace(name, sort);
  if (!inserted && found->second != sort)
    fail("\"" + name + "\" is " + std::string(kNames[static_cast<int>(found->second)]) + ", not " +
         std::string(kNames[static_cast<int>(sort)]));
  return sort;
}

std::uint32_t AlgebraParser::input_number(const std::string& name) const {
  const auto& inputs = result_.rule.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == name) return static_cast<std::uint32_t>(i);
  fail("\"" + name + "\" is not an input");
}

AlgebraParser::Result AlgebraParser::parse() {
  located([&] {
    parse_inputs();
    while (accept("let")) parse_let();
    parse_equation();
    while (peek().kind != Token::Kind::kEnd) {
      if (accept("let"))
        parse_let();
      else if (accept("where"))
        parse_conditions();
      else
        parse_flags();
    }
  });
  return std::move(result_);
}

Index AlgebraParser::parse_index() {
  plain_index_ = true;
  Index index;
  located([&] {
    index = parse_sum_index();
    if (peek().kind != Token::Kind::kEnd) fail("unexpected \"" + peek().text + "\" after an index expression");
  });
  return index;
}

// Adds the place to failures of index arithmetic (overflow, division by zero).
void AlgebraParser::located(const std::function<void()>& parse) const {
  try {
    parse();
  } catch (const Error& e) {
    if (!e.where().empty()) throw;
    fail(e.text());
  }
}

// ---- Inputs

void AlgebraParser::parse_inputs() {
  if (at("let") || (at("(", 1) && registry().find(peek().text))) return;  // a rule of constants has no inputs
  do parse_input();
  while (accept(","));
}

void AlgebraParser::parse_input() {
  PatternInput input;
  input.constant = accept("const");
  input.name = expect_name("the name of an input");
  accept("?");
  if (at("[")) input.shape = parse_shape();
  if (accept(":")) input.type = parse_type();
  if (!input.type.variable.empty()) require_sort(input.type.variable, Sort::kType);
  if (absent_.count(input.name)) return;
  require_sort(input.name, Sort::kInput);
  result_.rule.inputs.push_back(std::move(input));
}

ShapePattern AlgebraParser::parse_shape() {
  ShapePattern shape;
  shape.open = false;
  expect("[");
  if (accept("]")) return shape;
  do {
    if (accept("...")) {
      if (shape.open) fail("a shape has \"...\" twice");
      shape.open = true;
    } else if (peek().kind == Token::Kind::kName && at("...", 1)) {
      if (shape.open) fail("a shape has \"...\" twice");
      shape.middle = expect_name("a list");
      require_sort(shape.middle, Sort::kList);
      expect("...");
      shape.open = true;
    } else {
      (shape.open ? shape.back : shape.front).push_back(parse_sum_index());
    }
  } while (accept(","));
  expect("]");
  return shape;
}

TypePattern AlgebraParser::parse_type() {
  TypePattern type;
  const std::string kind = expect_name("an element type");
  if (kind == "real") {
    type.kind = TypePattern::Kind::kReal;
  } else if (kind == "integer") {
    type.kind = TypePattern::Kind::kInteger;
  } else if (kind == "any") {
    type.kind = TypePattern::Kind::kAny;
  } else if (const auto fixed = data_type_from_name(kind)) {
    type.kind = TypePattern::Kind::kFixed;
    type.fixed = *fixed;
    type.variable.clear();
    return type;
  } else {
    fail("\"" + kind + "\" is not an element type");
  }
  if (accept("(")) {
    type.variable = accept("_") ? "" : expect_name("a type variable");
    expect(")");
  }
  return type;
}

// ---- Statements

void AlgebraParser::parse_let() {
  const std::string name = expect_name("a name");
  if (sorts_.count(name) || terms_.count(name)) fail("\"" + name + "\" is already in use");
  expect("=");
  const RuleFunction* f = peek().kind == Token::Kind::kName ? find_rule_function(peek().text) : nullptr;
  if (!f || !at("(", 1)) {
    terms_[name] = parse_sum();
    return;
  }
  Expression call = parse_call();
  const auto sort = f->result == RuleFunction::Result::kIndex     ? Sort::kIndex
                    : f->result == RuleFunction::Result::kIndices ? Sort::kList
                                                                  : Sort::kReal;
  require_sort(name, sort);
  result_.rule.quantities.push_back({name, std::move(call)});
}

void AlgebraParser::parse_equation() {
  const auto source = parse_terms();
  result_.both_directions = at("<=>");
  if (!result_.both_directions) {
    expect("=>");
  } else {
    ++next_;
  }
  const auto target = parse_terms();
  result_.rule.source = lower(source);
  result_.rule.target = lower(target);
}

void AlgebraParser::parse_flags() {
  Rule& rule = result_.rule;
  const auto parse_class = [&]() -> std::optional<MathClass> {
    const auto math = peek().kind == Token::Kind::kName ? parse_math(peek().text) : std::nullopt;
    if (math) ++next_;
    return math;
  };
  if (accept("inference_only")) {
    rule.for_training = false;
  } else if (const auto math = parse_class()) {
    rule.math = *math;
    if (!accept(",")) return;
    if (!result_.both_directions) fail("a rule with => has one class of rounding");
    if (!accept("reversed")) fail("expected \"reversed\" and the class of rounding from right to left");
    if (!(result_.reversed_math = parse_class())) fail("\"" + peek().text + "\" is not a class of rounding");
  } else {
    fail("unexpected \"" + peek().text + "\"");
  }
}

void AlgebraParser::parse_conditions() {
  do parse_condition();
  while (accept(","));
}

void AlgebraParser::parse_condition() {
  Rule& rule = result_.rule;
  if (at_name("permutation") && at("(", 1)) {
    next_ += 2;
    rule.predicates.push_back({Predicate::Kind::kPermutation, {parse_list()}});
    expect(")");
    return;
  }
  if (accept("every")) {  // applies to every element of a list
    Expression list = parse_list();
    if (accept("==")) {
      Index value = parse_sum_index();
      Expression all = Expression::call(
          "repeat", {Expression::literal(std::move(value)), Expression::literal(quantity(Expression::call("length", {list})))});
      rule.predicates.push_back({Predicate::Kind::kEqual, {std::move(list), std::move(all)}});
      return;
    }
    const bool strict = at(">");
    if (!accept(">") && !accept(">=")) fail("expected ==, > or >= after a list");
    if (!(peek().kind == Token::Kind::kNumber && peek().text == "0")) fail("expected 0");
    ++next_;
    rule.predicates.push_back({strict ? Predicate::Kind::kPositive : Predicate::Kind::kNonNegative, {std::move(list)}});
    return;
  }
  const auto sort = peek().kind == Token::Kind::kName ? sorts_.find(peek().text) : sorts_.end();
  const bool other = sort != sorts_.end() && sort->second != Sort::kIndex && sort->second != Sort::kInput;
  if (at_list() || other) {
    Expression left;
    const bool real = other && sort->second == Sort::kReal;
    const auto side = [&]() -> Expression {
      if (at_list()) return parse_list();
      if (real) return parse_real();
      if (peek().kind == Token::Kind::kText) return Expression::literal(tokens_[next_++].text);
      if (accept("true")) return Expression::literal(true);
      if (accept("false")) return Expression::literal(false);
      const std::string name = expect_name("a value");
      if (const auto type = data_type_from_name(name)) return Expression::literal(*type);
      return Expression::variable(name);
    };
    left = side();
    if (real && accept(">")) {
      if (!(peek().kind == Token::Kind::kNumber && peek().text == "0")) fail("expected 0");
      ++next_;
      rule.predicates.push_back({Predicate::Kind::kPositive, {std::move(left)}});
      return;
    }
    const bool equal = at("==");
    if (!accept("==") && !accept("!=")) fail("expected == or !=");
    rule.predicates.push_back({equal ? Predicate::Kind::kEqual : Predicate::Kind::kNotEqual, {std::move(left), side()}});
    return;
  }
  Index left = parse_sum_index();
  const std::string relation = peek().text;
  if (!accept("==") && !accept("!=") && !accept("<=") && !accept(">=") && !accept("<") && !accept(">"))
    fail("expected a comparison");
  Index right = parse_sum_index();
  if (relation == ">=" || relation == ">") std::swap(left, right);
  const auto kind = relation == "=="                       ? Condition::Relation::kEqual
                    : relation == "!="                     ? Condition::Relation::kNotEqual
                    : relation == "<=" || relation == ">=" ? Condition::Relation::kLessEqual
                                                           : Condition::Relation::kLess;
  rule.conditions.push_back({std::move(left), kind, std::move(right)});
}

// ---- Terms

std::vector<AlgebraParser::TermPointer> AlgebraParser::parse_terms() {
  std::vector<TermPointer> terms;
  do terms.push_back(parse_sum());
  while (accept(","));
  return terms;
}

AlgebraParser::TermPointer AlgebraParser::parse_sum() {
  const Nesting nesting(*this);
  TermPointer left = parse_product();
  while (at("+") || at("-")) {
    const bool plus = accept("+") || !accept("-");
    TermPointer right = parse_product();
    left = node(plus ? "Add" : "Sub", {left, right});
  }
  return left;
}

AlgebraParser::TermPointer AlgebraParser::parse_product() {
  TermPointer left = parse_factor();
  while (at("*") || at("/")) {
    const bool times = accept("*") || !accept("/");
    TermPointer right = parse_factor();
    left = node(times ? "Mul" : "Div", {left, right});
  }
  return left;
}

AlgebraParser::TermPointer AlgebraParser::parse_factor() {
  const Nesting nesting(*this);
  if (accept("-")) return node("Neg", {parse_factor()});
  TermPointer term = parse_primary();
  while (at(".")) {
    ++next_;
    if (peek().kind != Token::Kind::kNumber || peek().text.size() > 3) fail("expected the number of an output after \".\"");
    auto output = std::make_shared<Term>();
    output->kind = Term::Kind::kOutput;
    output->number = static_cast<std::uint32_t>(to_double(tokens_[next_++].text));
    if (term->kind != Term::Kind::kNode) fail("only an operator has several outputs");
    output->arguments = {term};
    term = output;
  }
  return term;
}

// A tensor's name may end a `let` in front of an equation that begins with a parenthesis: that is no call.
bool AlgebraParser::is_tensor(const std::string& name) const {
  const auto sort = sorts_.find(name);
  const bool is_input = absent_.count(name) != 0 || (sort != sorts_.end() && sort->second == Sort::kInput);
  return (is_input || terms_.count(name) != 0) && registry().find(name) == nullptr;
}

AlgebraParser::TermPointer AlgebraParser::parse_primary() {
  if (accept("(")) {
    TermPointer term = parse_sum();
    expect(")");
    return term;
  }
  if (peek().kind == Token::Kind::kNumber) return number_constant(to_double(tokens_[next_++].text));
  if (accept("if")) return parse_choice();
  if (accept("_")) return std::make_shared<Term>();
  if (peek().kind != Token::Kind::kName) fail("expected a tensor");
  if (at("(", 1) && !is_tensor(peek().text)) return parse_operator();
  const std::string name = expect_name("a tensor");
  if (const auto found = terms_.find(name); found != terms_.end()) return found->second;
  auto term = std::make_shared<Term>();
  if (absent_.count(name)) return term;
  term->kind = Term::Kind::kInput;
  term->number = input_number(name);
  return term;
}

// `if b then x else y`: b is an optional input.
AlgebraParser::TermPointer AlgebraParser::parse_choice() {
  const Nesting nesting(*this);
  const bool negated = accept("not");
  const std::string name = expect_name("an optional input");
  const bool absent = absent_.count(name) != 0;
  if (!absent) (void)input_number(name);
  expect("then");
  TermPointer then = parse_sum();
  expect("else");
  TermPointer otherwise = parse_sum();
  return absent != negated ? otherwise : then;
}

AlgebraParser::TermPointer AlgebraParser::parse_operator() {
  const Nesting nesting(*this);
  const std::string name = expect_name("an operator");
  const Operator* op = registry().find(name);
  if (!op) fail("there is no operator \"" + name + "\"");
  std::shared_ptr<Term> term = new_node(*op);
  expect("(");
  if (!at(")") && !at(";")) {
    do term->arguments.push_back(parse_sum());
    while (accept(","));
  }
  if (accept(";")) {
    std::set<std::string> given;
    do {
      const std::string field = expect_name("an attribute");
      const auto number = term->op->field(field);
      if (!number) fail(name + " has no attribute \"" + field + "\"");
      if (!given.insert(field).second) fail("attribute \"" + field + "\" is there twice");
      expect("=");
      term->attributes[*number] = parse_attribute(term->op->fields()[*number].default_value);
    } while (accept(","));
  }
  expect(")");
  const int count = static_cast<int>(term->arguments.size());
  // A required input that is absent makes the result absent.
  for (int i = 0; i < std::min(count, term->op->min_inputs()); ++i)
    if (term->arguments[static_cast<std::size_t>(i)]->kind == Term::Kind::kAbsent) return std::make_shared<Term>();
  if (count < term->op->min_inputs() || count > term->op->max_inputs())
    fail(name + " cannot have " + std::to_string(count) + " inputs");
  return term;
}

AlgebraParser::TermPointer AlgebraParser::node(std::string_view name, std::vector<TermPointer> arguments) {
  for (const TermPointer& argument : arguments)
    if (argument->kind == Term::Kind::kAbsent) return argument;
  std::shared_ptr<Term> term = new_node(registry().get(name));
  term->arguments = std::move(arguments);
  return term;
}

std::shared_ptr<AlgebraParser::Term> AlgebraParser::new_node(const Operator& op) {
  if (++nodes_ > kMaximumNodes) fail("a rule has too many operators");
  auto term = std::make_shared<Term>();
  term->kind = Term::Kind::kNode;
  term->op = &op;
  for (const Field& field : op.fields()) term->attributes.push_back(Expression::literal(field.default_value));
  return term;
}

AlgebraParser::TermPointer AlgebraParser::number_constant(double value) {
  auto term = std::make_shared<Term>(*node("Fill", {}));
  const auto set = [&](std::string_view field, Expression e) {
    term->attributes[term->op->field(field).value()] = std::move(e);
  };
  set("value", Expression::literal(Real(value)));
  set("shape", Expression::literal(Indices{}));
  set("type", Expression::variable("T"));
  require_sort("T", Sort::kType);
  return term;
}

Pattern AlgebraParser::lower(const std::vector<TermPointer>& outputs) const {
  Pattern side;
  std::map<const Term*, PatternValue> done;
  const std::function<PatternValue(const Term&)> visit = [&](const Term& term) -> PatternValue {
    if (term.kind == Term::Kind::kAbsent) return PatternValue::absent();
    if (term.kind == Term::Kind::kInput) return PatternValue::input(term.number);
    if (term.kind == Term::Kind::kOutput) {
      PatternValue value = visit(*term.arguments[0]);
      value.output = term.number;
      side.nodes[value.number].outputs = std::max(side.nodes[value.number].outputs, term.number + 1);
      return value;
    }
    if (const auto found = done.find(&term); found != done.end()) return found->second;
    PatternNode node;
    node.op = term.op;
    node.attributes = term.attributes;
    for (const TermPointer& argument : term.arguments) node.inputs.push_back(visit(*argument));
    side.nodes.push_back(std::move(node));
    return done[&term] = PatternValue::node(static_cast<std::uint32_t>(side.nodes.size() - 1));
  };
  for (const TermPointer& output : outputs) side.outputs.push_back(visit(*output));
  return canonical(side);
}

}  // namespace rewright::rules::internal
