// Rules in Protobuf, and the recognition of formats.
#include "rules/io.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "rules/algebra/parser.h"
#include "rules/message.h"
#include "rules/rule.pb.h"

namespace rewright::rules {

namespace {

constexpr std::size_t kMaximumFileBytes = std::size_t{64} << 20;
constexpr Format kFormat{"a file of rules", 1};

[[noreturn]] void bad(const std::string& what) { throw Error(ErrorCode::kBadInput, what); }

// ---- To Protobuf

// In the order of the format, to which classes were added later.
constexpr std::array kMathClasses = {MathClass::kExact, MathClass::kReassociates, MathClass::kNeedsFinite, MathClass::kCancels};

proto::MathClass to_proto(MathClass math) {
  return static_cast<proto::MathClass>(std::find(kMathClasses.begin(), kMathClasses.end(), math) - kMathClasses.begin());
}

proto::Expression to_proto(const Expression& e) {
  proto::Expression p;
  if (e.kind == Expression::Kind::kVariable) {
    p.set_variable(e.name);
    return p;
  }
  if (e.kind == Expression::Kind::kCall) {
    p.mutable_call()->set_function(e.name);
    for (const Expression& a : e.arguments) *p.mutable_call()->add_arguments() = to_proto(a);
    return p;
  }
  if (const auto* v = std::get_if<bool>(&e.value)) p.set_truth(*v);
  if (const auto* v = std::get_if<Index>(&e.value)) p.set_index(v->to_string());
  if (const auto* v = std::get_if<Indices>(&e.value)) {
    p.mutable_indices();
    for (const Index& i : *v) p.mutable_indices()->add_elements(i.to_string());
  }
  if (const auto* v = std::get_if<Real>(&e.value)) {
    if (v->symbol.empty())
      p.mutable_real()->set_value(v->value);
    else
      p.mutable_real()->set_unknown(v->symbol);
  }
  if (const auto* v = std::get_if<std::string>(&e.value)) p.set_text(*v);
  if (const auto* v = std::get_if<DataType>(&e.value)) p.set_type(std::string(name(*v)));
  return p;
}

proto::Value to_proto(const PatternValue& v) {
  proto::Value p;
  if (v.kind == PatternValue::Kind::kInput) p.set_input(v.number);
  if (v.kind == PatternValue::Kind::kNode) p.set_node(v.number);
  p.set_output(v.output);
  return p;
}

proto::Pattern to_proto(const Pattern& side) {
  proto::Pattern p;
  for (const PatternNode& node : side.nodes) {
    proto::Node* n = p.add_nodes();
    n->set_op(node.op->name());
    n->set_outputs(node.outputs);
    for (std::size_t i = 0; i < node.attributes.size(); ++i) {
      const Field& field = node.op->fields()[i];
      if (node.attributes[i] == Expression::literal(field.default_value)) continue;
      proto::Node::Attribute* a = n->add_attributes();
      a->set_name(field.name);
      *a->mutable_value() = to_proto(node.attributes[i]);
    }
    for (const PatternValue& v : node.inputs) *n->add_inputs() = to_proto(v);
  }
  for (const PatternValue& v : side.outputs) *p.add_outputs() = to_proto(v);
  return p;
}

proto::Status to_proto(RuleStatus status) {
  switch (status) {
    case RuleStatus::kProved:
      return proto::PROVED;
    case RuleStatus::kRefuted:
      return proto::REFUTED;
    case RuleStatus::kUndecided:
      return proto::UNDECIDED;
    case RuleStatus::kUnknown:
      break;
  }
  return proto::UNKNOWN;
}

proto::Rule to_proto(const Rule& rule) {
  proto::Rule p;
  p.set_name(rule.name);
  p.set_description(rule.description);
  for (const PatternInput& input : rule.inputs) {
    proto::Input* i = p.add_inputs();
    i->set_name(input.name);
    for (const Index& size : input.shape.front) i->add_front(size.to_string());
    i->set_open(input.shape.open);
    i->set_middle(input.shape.middle);
    for (const Index& size : input.shape.back) i->add_back(size.to_string());
    i->set_type_kind(static_cast<proto::Input::TypeKind>(input.type.kind));
    if (input.type.kind == TypePattern::Kind::kFixed) i->set_fixed_type(std::string(name(input.type.fixed)));
    i->set_type_variable(input.type.variable);
    i->set_constant(input.constant);
  }
  *p.mutable_source() = to_proto(rule.source);
  *p.mutable_target() = to_proto(rule.target);
  for (const Quantity& q : rule.quantities) {
    proto::Quantity* quantity = p.add_quantities();
    quantity->set_name(q.name);
    *quantity->mutable_value() = to_proto(q.value);
  }
  for (const Condition& c : rule.conditions) {
    proto::Condition* condition = p.add_conditions();
    condition->set_left(c.left.to_string());
    condition->set_relation(static_cast<proto::Condition::Relation>(c.relation));
    condition->set_right(c.right.to_string());
  }
  for (const Predicate& q : rule.predicates) {
    proto::Predicate* predicate = p.add_predicates();
    predicate->set_kind(static_cast<proto::Predicate::Kind>(q.kind));
    for (const Expression& a : q.arguments) *predicate->add_arguments() = to_proto(a);
  }
  p.set_math(to_proto(rule.math));
  p.set_inference_only(!rule.for_training);
  p.set_origin(static_cast<proto::Origin>(rule.origin));
  proto::Proof* proof = p.mutable_proof();
  proof->set_status(to_proto(rule.proof.status));
  proof->set_method(rule.proof.method);
  proof->set_certificate(rule.proof.certificate);
  proof->set_note(rule.proof.note);
  proof->set_digest(rule.proof.digest);
  proof->set_ranks(rule.proof.ranks);
  if (rule.proof.status == RuleStatus::kProved) proof->set_rule(hash(rule));
  return p;
}

// ---- From Protobuf

Index to_index(const std::string& text) {
  if (text.size() > 10000) bad("an index expression is too long");
  const auto tokens = internal::tokenize(text, "index expression \"" + text + "\"");
  return internal::AlgebraParser(tokens, "index expression \"" + text + "\"", {}).parse_index();
}

DataType to_type(const std::string& text) {
  const auto type = data_type_from_name(text);
  if (!type) bad("there is no element type \"" + text + "\"");
  return *type;
}

template <class Enum, class Value>
Enum to_enum(Value value, int last) {
  if (static_cast<int>(value) < 0 || static_cast<int>(value) > last) bad("a value of an enumeration is unknown");
  return static_cast<Enum>(static_cast<int>(value));
}

MathClass to_math(proto::MathClass p) {
  return kMathClasses[to_enum<std::size_t>(p, static_cast<int>(kMathClasses.size()) - 1)];
}

Expression to_expression(const proto::Expression& p, int depth = 0) {
  if (depth > 32) bad("calls are nested too deeply");
  switch (p.kind_case()) {
    case proto::Expression::kTruth:
      return Expression::literal(p.truth());
    case proto::Expression::kIndex:
      return Expression::literal(to_index(p.index()));
    case proto::Expression::kIndices: {
      Indices indices;
      for (const std::string& i : p.indices().elements()) indices.push_back(to_index(i));
      return Expression::literal(std::move(indices));
    }
    case proto::Expression::kReal:
      return Expression::literal(p.real().kind_case() == proto::Real::kUnknown ? Real::unknown(p.real().unknown())
                                                                               : Real(p.real().value()));
    case proto::Expression::kText:
      return Expression::literal(p.text());
    case proto::Expression::kType:
      return Expression::literal(to_type(p.type()));
    case proto::Expression::kVariable:
      return Expression::variable(p.variable());
    case proto::Expression::kCall: {
      std::vector<Expression> arguments;
      for (const proto::Expression& a : p.call().arguments()) arguments.push_back(to_expression(a, depth + 1));
      return Expression::call(p.call().function(), std::move(arguments));
    }
    case proto::Expression::KIND_NOT_SET:
      break;
  }
  bad("an expression is empty");
}

PatternValue to_value(const proto::Value& p) {
  switch (p.kind_case()) {
    case proto::Value::kInput:
      return PatternValue::input(p.input());
    case proto::Value::kNode:
      if (p.output() > 1000) bad("a node has too many outputs");
      return PatternValue::node(p.node(), p.output());
    case proto::Value::KIND_NOT_SET:
      break;
  }
  return PatternValue::absent();
}

Pattern to_pattern(const proto::Pattern& p) {
  Pattern side;
  if (p.nodes_size() > 1000) bad("a side has too many operators");
  for (const proto::Node& n : p.nodes()) {
    PatternNode node;
    node.op = registry().find(n.op());
    if (!node.op) bad("there is no operator \"" + n.op() + "\"");
    for (const Field& field : node.op->fields()) node.attributes.push_back(Expression::literal(field.default_value));
    for (const proto::Node::Attribute& a : n.attributes()) {
      const auto field = node.op->field(a.name());
      if (!field) bad(n.op() + " has no attribute \"" + a.name() + "\"");
      node.attributes[*field] = to_expression(a.value());
    }
    for (const proto::Value& v : n.inputs()) {
      node.inputs.push_back(to_value(v));
      if (node.inputs.back().kind == PatternValue::Kind::kNode && node.inputs.back().number >= side.nodes.size())
        bad("a reference to a node that is not there, or a cycle");
    }
    node.outputs = n.outputs();
    side.nodes.push_back(std::move(node));
  }
  for (const proto::Value& v : p.outputs()) side.outputs.push_back(to_value(v));
  return canonical(side);
}

RuleStatus to_status(proto::Status status) {
  switch (status) {
    case proto::UNKNOWN:
      return RuleStatus::kUnknown;
    case proto::PROVED:
      return RuleStatus::kProved;
    case proto::REFUTED:
      return RuleStatus::kRefuted;
    case proto::UNDECIDED:
      return RuleStatus::kUndecided;
    default:
      bad("a value of an enumeration is unknown");
  }
}

Rule to_rule(const proto::Rule& p) {
  Rule rule;
  rule.name = p.name();
  rule.description = p.description();
  for (const proto::Input& i : p.inputs()) {
    PatternInput input;
    input.name = i.name();
    for (const std::string& s : i.front()) input.shape.front.push_back(to_index(s));
    input.shape.open = i.open();
    input.shape.middle = i.middle();
    for (const std::string& s : i.back()) input.shape.back.push_back(to_index(s));
    input.type.kind = to_enum<TypePattern::Kind>(i.type_kind(), 3);
    if (input.type.kind == TypePattern::Kind::kFixed) input.type.fixed = to_type(i.fixed_type());
    input.type.variable = i.type_variable();
    input.constant = i.constant();
    rule.inputs.push_back(std::move(input));
  }
  rule.source = to_pattern(p.source());
  rule.target = to_pattern(p.target());
  for (const proto::Quantity& q : p.quantities()) rule.quantities.push_back({q.name(), to_expression(q.value())});
  for (const proto::Condition& c : p.conditions())
    rule.conditions.push_back({to_index(c.left()), to_enum<Condition::Relation>(c.relation(), 3), to_index(c.right())});
  for (const proto::Predicate& q : p.predicates()) {
    Predicate predicate;
    predicate.kind = to_enum<Predicate::Kind>(q.kind(), 4);
    for (const proto::Expression& a : q.arguments()) predicate.arguments.push_back(to_expression(a));
    rule.predicates.push_back(std::move(predicate));
  }
  rule.math = to_math(p.math());
  rule.for_training = !p.inference_only();
  rule.origin = to_enum<RuleOrigin>(p.origin(), 5);
  rule.proof.status = to_status(p.proof().status());
  rule.proof.method = p.proof().method();
  rule.proof.certificate = p.proof().certificate();
  rule.proof.note = p.proof().note();
  rule.proof.digest = p.proof().digest();
  rule.proof.ranks = p.proof().ranks();
  return rule;
}

// A name read from a file, made printable on one line.
std::string printable(std::string_view name) {
  std::string text(name.substr(0, 100));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

Rule checked(const proto::Rule& p, bool stale_proofs) {
  Rule rule;
  try {
    rule = to_rule(p);
  } catch (const Error& e) {
    throw e.within("rule " + p.name().substr(0, 100));
  }
  check_rule(rule);
  if (rule.proof.status == RuleStatus::kProved && p.proof().rule() != hash(rule)) {
    if (!stale_proofs)
      throw Error(ErrorCode::kBadInput, "the rule was changed since it was proved", "rule " + rule.name, "verify it again");
    rule.proof = {};
  }
  return rule;
}

// Bad rules are added to `bad`; if it is null, the first one throws.
std::vector<Rule> to_rules(const proto::RuleSet& set, const std::string& file, std::vector<BadRule>* bad) {
  std::vector<Rule> rules;
  std::set<std::string> names;
  for (const proto::Rule& p : set.rules()) {
    try {
      Rule rule = checked(p, bad != nullptr);
      if (!names.insert(rule.name).second) throw Error(ErrorCode::kBadInput, "two rules are called " + rule.name);
      rules.push_back(std::move(rule));
    } catch (const Error& e) {
      if (!bad) throw e.within(file);
      bad->push_back({printable(p.name()), 0, e.text() + (e.hint().empty() ? "" : " (" + e.hint() + ")")});
    }
  }
  return rules;
}

// The first word of a text, after comments.
std::string_view first_word(std::string_view bytes) {
  std::size_t i = 0;
  while (i < bytes.size()) {
    if (bytes[i] == '#')
      while (i < bytes.size() && bytes[i] != '\n') ++i;
    else if (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\r' || bytes[i] == '\n')
      ++i;
    else
      break;
  }
  std::size_t n = 0;
  while (i + n < bytes.size() && ((bytes[i + n] >= 'a' && bytes[i + n] <= 'z') || bytes[i + n] == '_')) ++n;
  return bytes.substr(i, n);
}

std::vector<Rule> parse(std::string_view bytes, const std::string& name, std::vector<BadRule>* bad) {
  if (bytes.size() > kMaximumFileBytes) throw Error(ErrorCode::kBadInput, "the file is too large", name);
  proto::RuleSet set;
  if (is_binary(bytes)) {
    parse_binary(bytes, name, kFormat, set);
    return to_rules(set, name, bad);
  }
  const std::string_view word = first_word(bytes);
  if (word == "version" || word == "rules") {
    parse_text(bytes, name, kFormat, set);
    return to_rules(set, name, bad);
  }
  if (word != "rule" && bytes.find('\0') != std::string_view::npos)
    throw Error(ErrorCode::kBadInput, "these are no rules: neither algebra nor Protobuf", name);
  std::vector<Rule> rules = bad ? parse_algebra(bytes, name, *bad) : parse_algebra(bytes, name);
  if (rules.empty() && (!bad || bad->empty())) throw Error(ErrorCode::kBadInput, "there is no rule in it", name);
  return rules;
}

std::string bytes_of(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) throw Error(ErrorCode::kBadInput, "there is no such file", file.string());
  if (std::filesystem::file_size(file, error) > kMaximumFileBytes)
    throw Error(ErrorCode::kBadInput, "the file is too large", file.string());
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  if (!stream) throw Error(ErrorCode::kBadInput, "cannot be read", file.string());
  return std::move(bytes).str();
}

}  // namespace

std::vector<Rule> read_rules(std::string_view bytes, const std::string& name) { return parse(bytes, name, nullptr); }

std::vector<Rule> read_rules(std::string_view bytes, const std::string& name, std::vector<BadRule>& bad) {
  return parse(bytes, name, &bad);
}

std::vector<Rule> read_rules(const std::filesystem::path& file) { return parse(bytes_of(file), file.string(), nullptr); }

std::vector<Rule> read_rules(const std::filesystem::path& file, std::vector<BadRule>& bad) {
  return parse(bytes_of(file), file.string(), &bad);
}

std::string write_rules(const std::vector<Rule>& rules, RuleFormat format) {
  std::string result;
  if (format == RuleFormat::kAlgebra) {
    for (const Rule& rule : rules) result += (result.empty() ? "" : "\n") + to_algebra(rule);
    return result;
  }
  proto::RuleSet set;
  set.set_version(kFormat.version);
  for (const Rule& rule : rules) *set.add_rules() = to_proto(rule);
  if (format == RuleFormat::kText) {
    google::protobuf::TextFormat::PrintToString(set, &result);
    return result;
  }
  google::protobuf::io::StringOutputStream stream(&result);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  set.SerializeToCodedStream(&coded);
  coded.Trim();
  return result;
}

}  // namespace rewright::rules
