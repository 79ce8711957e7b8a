// One rule's text to a rule, after templates have been expanded. Internal to the reader of algebra.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rules/algebra/lexer.h"
#include "rules/rule.h"

namespace rewright::rules::internal {

// The tokens of one rule, without its header and its `for` clauses; the last is kEnd.
class AlgebraParser {
 public:
  AlgebraParser(std::span<const Token> tokens, std::string file, std::set<std::string> absent_inputs)
      : tokens_(tokens), file_(std::move(file)), absent_(std::move(absent_inputs)) {}

  struct Result {
    Rule rule;  // without its name and description
    bool both_directions = false;
    std::optional<MathClass> reversed_math;  // from right to left, if it is another one
  };
  Result parse();

  // An index expression that makes up the whole text; names are index variables. For the Protobuf forms.
  Index parse_index();

 private:
  enum class Sort { kInput, kIndex, kList, kReal, kText, kBool, kType };
  // A tensor-valued term: a reference to shared structure, lowered to either side of the rule.
  struct Term {
    enum class Kind { kAbsent, kInput, kNode, kOutput } kind = Kind::kAbsent;
    std::uint32_t number = 0;  // kInput: which; kOutput: which output of arguments[0]
    const Operator* op = nullptr;
    std::vector<Expression> attributes;
    std::vector<std::shared_ptr<const Term>> arguments;
  };
  using TermPointer = std::shared_ptr<const Term>;

  void parse_inputs();
  void parse_input();
  ShapePattern parse_shape();
  TypePattern parse_type();
  void parse_let();
  void parse_equation();
  void parse_conditions();
  void parse_condition();
  void parse_flags();

  std::vector<TermPointer> parse_terms();
  TermPointer parse_sum();
  TermPointer parse_product();
  TermPointer parse_factor();
  bool is_tensor(const std::string& name) const;
  TermPointer parse_primary();
  TermPointer parse_operator();
  TermPointer parse_choice();
  TermPointer number_constant(double value);
  TermPointer node(std::string_view op, std::vector<TermPointer> arguments);
  std::shared_ptr<Term> new_node(const Operator& op);
  Pattern lower(const std::vector<TermPointer>& outputs) const;

  Expression parse_attribute(const AttributeValue& kind);
  Expression parse_list();
  Expression parse_real();
  Expression parse_call();
  Expression parse_list_literal();
  Index parse_sum_index();
  Index parse_product_index();
  Index parse_factor_index();
  Index quantity(Expression call);
  bool at_list() const;

  Sort require_sort(const std::string& name, Sort sort);
  std::uint32_t input_number(const std::string& name) const;
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }
  bool at(std::string_view symbol, std::size_t ahead = 0) const;
  bool at_name(std::string_view name, std::size_t ahead = 0) const;
  bool accept(std::string_view symbol_or_name);
  void expect(std::string_view symbol);
  std::string expect_name(std::string_view what);
  [[noreturn]] void fail(const std::string& what) const;
  void located(const std::function<void()>& parse) const;
  // Counts nested constructs while it lives.
  struct Nesting {
    explicit Nesting(AlgebraParser& parser);
    ~Nesting() { --parser_.depth_; }
    AlgebraParser& parser_;
  };

  std::span<const Token> tokens_;
  std::string file_;
  std::set<std::string> absent_;
  std::size_t next_ = 0;
  int depth_ = 0;
  std::size_t nodes_ = 0;
  bool plain_index_ = false;  // parse_index(): no calls
  Result result_;
  std::map<std::string, Sort, std::less<>> sorts_;
  std::map<std::string, TermPointer, std::less<>> terms_;  // let
};

}  // namespace rewright::rules::internal
