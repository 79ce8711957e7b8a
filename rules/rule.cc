#include "rules/rule.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "base/hash_mix.h"
#include "rules/io.h"

namespace rewright::rules {

std::string_view name(MathClass math) {
  switch (math) {
    case MathClass::kExact:
      return "exact";
    case MathClass::kReassociates:
      return "reassociates";
    case MathClass::kCancels:
      return "cancels";
    case MathClass::kNeedsFinite:
      return "needs_finite";
  }
  return "";
}

std::string_view name(RuleStatus status) {
  switch (status) {
    case RuleStatus::kUnknown:
      return "unknown";
    case RuleStatus::kProved:
      return "proved";
    case RuleStatus::kRefuted:
      return "refuted";
    case RuleStatus::kUndecided:
      return "undecided";
  }
  return "";
}

std::string_view name(RuleOrigin origin) {
  switch (origin) {
    case RuleOrigin::kHandwritten:
      return "handwritten";
    case RuleOrigin::kGenerated:
      return "generated";
    case RuleOrigin::kImported:
      return "imported";
    case RuleOrigin::kBoth:
      return "both";
    case RuleOrigin::kRediscovered:
      return "rediscovered";
    case RuleOrigin::kGeneralizes:
      return "generalizes";
  }
  return "";
}

std::optional<MathClass> parse_math(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(MathClass::kNeedsFinite); ++i)
    if (const auto math = static_cast<MathClass>(i); rules::name(math) == name) return math;
  return std::nullopt;
}

std::optional<RuleOrigin> parse_origin(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(RuleOrigin::kGeneralizes); ++i)
    if (const auto origin = static_cast<RuleOrigin>(i); rules::name(origin) == name) return origin;
  return std::nullopt;
}

namespace {

// Walks a side from its outputs, inputs first, and merges equal nodes.
class Canonicalizer {
 public:
  explicit Canonicalizer(const Pattern& from) : from_(from), numbers_(from.nodes.size()), visiting_(from.nodes.size()) {}

  Pattern run() {
    for (const PatternValue& output : from_.outputs) result_.outputs.push_back(visit(output));
    for (PatternNode& node : result_.nodes) node.outputs = 1;
    const auto count = [&](const PatternValue& v) {
      if (v.kind == PatternValue::Kind::kNode)
        result_.nodes[v.number].outputs = std::max(result_.nodes[v.number].outputs, v.output + 1);
    };
    for (const PatternNode& node : result_.nodes) std::for_each(node.inputs.begin(), node.inputs.end(), count);
    std::for_each(result_.outputs.begin(), result_.outputs.end(), count);
    return std::move(result_);
  }

 private:
  PatternValue visit(const PatternValue& value) {
    if (value.kind != PatternValue::Kind::kNode) return value;
    if (value.number >= from_.nodes.size()) throw Error(ErrorCode::kBadInput, "a reference to a node that is not there");
    if (!numbers_[value.number]) {
      if (visiting_[value.number]) throw Error(ErrorCode::kBadInput, "a node depends on itself");
      visiting_[value.number] = true;
      PatternNode node = from_.nodes[value.number];
      for (PatternValue& input : node.inputs) input = visit(input);
      while (!node.inputs.empty() && node.inputs.back().kind == PatternValue::Kind::kAbsent) node.inputs.pop_back();
      node.outputs = 1;
      const auto found = std::find(result_.nodes.begin(), result_.nodes.end(), node);
      numbers_[value.number] = static_cast<std::uint32_t>(found - result_.nodes.begin());
      if (found == result_.nodes.end()) result_.nodes.push_back(std::move(node));
      visiting_[value.number] = false;
    }
    return PatternValue::node(*numbers_[value.number], value.output);
  }

  const Pattern& from_;
  Pattern result_;
  std::vector<std::optional<std::uint32_t>> numbers_;
  std::vector<bool> visiting_;
};

using Names = std::set<std::string, std::less<>>;

// Only characters that the algebra allows in names, so that every rule can be written in it.
bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= 200 && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || digit(c); });
}

// UTF-8 without overlong forms and surrogates, as Protobuf requires.
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned>(static_cast<unsigned char>(text[at])); };
    const unsigned lead = byte(i);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    if (length >= 3) {
      const unsigned second = byte(i + 1);
      if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) ||
          (lead == 0xf4 && second > 0x8f))
        return false;
    }
    i += length;
  }
  return true;
}

// In the algebra a text is quoted and on one line.
void check_text(std::string_view text) {
  if (!is_utf8(text)) throw Error(ErrorCode::kBadInput, "a text is not UTF-8");
  for (const char c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '"' || c == 127)
      throw Error(ErrorCode::kBadInput, "a text has a quote or a control character in it");
}

void collect(const Index& index, Names& names) {
  for_each_atom(index, [&](const Atom& atom) {
    if (atom.kind == Atom::Kind::kSymbol) names.insert(atom.name);
  });
}

void collect(const Expression& e, Names& names) {
  if (e.kind == Expression::Kind::kVariable) names.insert(e.name);
  if (const auto* index = std::get_if<Index>(&e.value)) collect(*index, names);
  if (const auto* indices = std::get_if<Indices>(&e.value))
    for (const Index& i : *indices) collect(i, names);
  if (const auto* real = std::get_if<Real>(&e.value); real && !real->symbol.empty()) names.insert(real->symbol);
  for (const Expression& argument : e.arguments) collect(argument, names);
}

void check_calls(const Expression& e, int depth = 0) {
  if (depth > 32) throw Error(ErrorCode::kBadInput, "calls are nested too deeply");
  if (e.kind == Expression::Kind::kCall) {
    const RuleFunction* f = find_rule_function(e.name);
    if (!f) throw Error(ErrorCode::kBadInput, "there is no function \"" + e.name + "\"");
    if (f->arguments.size() != e.arguments.size())
      throw Error(ErrorCode::kBadInput, "\"" + e.name + "\" takes " + std::to_string(f->arguments.size()) + " arguments");
  } else if (!e.arguments.empty()) {
    throw Error(ErrorCode::kBadInput, "arguments without a function");
  }
  if (const auto* text = std::get_if<std::string>(&e.value)) check_text(*text);
  for (const Expression& argument : e.arguments) check_calls(argument, depth + 1);
}

void check_side(const Pattern& side, std::size_t input_count) {
  if (side.outputs.empty()) throw Error(ErrorCode::kBadInput, "a side has no output");
  const auto check_value = [&](const PatternValue& v, std::size_t before, bool may_be_absent) {
    switch (v.kind) {
      case PatternValue::Kind::kAbsent:
        if (!may_be_absent) throw Error(ErrorCode::kBadInput, "an output, or an input that an operator needs, is absent");
        break;
      case PatternValue::Kind::kInput:
        if (v.number >= input_count) throw Error(ErrorCode::kBadInput, "a reference to an input that is not there");
        break;
      case PatternValue::Kind::kNode:
        if (v.number >= before) throw Error(ErrorCode::kBadInput, "a reference to a node that is not there, or a cycle");
        if (v.output >= side.nodes[v.number].outputs)
          throw Error(ErrorCode::kBadInput, "a reference to an output that is not there");
        break;
    }
  };
  for (std::size_t n = 0; n < side.nodes.size(); ++n) {
    const PatternNode& node = side.nodes[n];
    if (!node.op) throw Error(ErrorCode::kBadInput, "a node has no operator");
    const int count = static_cast<int>(node.inputs.size());
    if (count < node.op->min_inputs() || count > node.op->max_inputs())
      throw Error(ErrorCode::kBadInput, node.op->name() + " cannot have " + std::to_string(count) + " inputs");
    if (node.attributes.size() != node.op->fields().size())
      throw Error(ErrorCode::kBadInput, node.op->name() + " has " + std::to_string(node.op->fields().size()) + " attributes");
    for (std::size_t i = 0; i < node.attributes.size(); ++i) {
      const Expression& e = node.attributes[i];
      check_calls(e);
      if (e.kind == Expression::Kind::kValue && e.value.index() != node.op->fields()[i].default_value.index())
        throw Error(ErrorCode::kBadInput,
                    node.op->name() + ": attribute \"" + node.op->fields()[i].name + "\" is of another kind");
    }
    for (int i = 0; i < count; ++i) check_value(node.inputs[i], n, i >= node.op->min_inputs());
  }
  for (const PatternValue& v : side.outputs) check_value(v, side.nodes.size(), false);
}

void check_sides(const Rule& rule) {
  if (rule.source.outputs.empty()) throw Error(ErrorCode::kBadInput, "the source has no output");
  if (rule.source.nodes.empty()) throw Error(ErrorCode::kBadInput, "the source has no operator");
  check_side(rule.source, rule.inputs.size());
  check_side(rule.target, rule.inputs.size());
  if (rule.source.outputs.size() != rule.target.outputs.size())
    throw Error(ErrorCode::kBadInput, "the sides have " + std::to_string(rule.source.outputs.size()) + " and " +
                                          std::to_string(rule.target.outputs.size()) + " outputs");
  for (const PatternValue& v : rule.source.outputs)
    if (v.kind != PatternValue::Kind::kNode) throw Error(ErrorCode::kBadInput, "an output of the source is no operator");
}

// Checks the inputs; returns the names that they and the source bind.
Names bound_by_source(const Rule& rule) {
  Names bound;
  std::vector<bool> used(rule.inputs.size());
  for (const PatternNode& node : rule.source.nodes) {
    for (const PatternValue& v : node.inputs)
      if (v.kind == PatternValue::Kind::kInput) used[v.number] = true;
    for (const Expression& e : node.attributes) collect(e, bound);
  }
  Names names;
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
    const PatternInput& input = rule.inputs[i];
    if (!is_name(input.name)) throw Error(ErrorCode::kBadInput, "an input's name is made of letters, digits and _");
    if (!names.insert(input.name).second) throw Error(ErrorCode::kBadInput, "two inputs are called " + input.name);
    if (!used[i]) throw Error(ErrorCode::kBadInput, "input " + input.name + " is not part of the source");
    bound.insert(input.name);
    for (const Index& size : input.shape.front) collect(size, bound);
    for (const Index& size : input.shape.back) collect(size, bound);
    if (!input.shape.open && (!input.shape.back.empty() || !input.shape.middle.empty()))
      throw Error(ErrorCode::kBadInput, "the shape of " + input.name + " is not open");
    if (!input.shape.middle.empty()) bound.insert(input.shape.middle);
    if (!input.type.variable.empty()) bound.insert(input.type.variable);
  }
  return bound;
}

// Checks the predicates; returns the names that the target and all conditions mention.
Names mentioned_after_source(const Rule& rule) {
  Names mentioned;
  for (const PatternNode& node : rule.target.nodes)
    for (const Expression& e : node.attributes) collect(e, mentioned);
  for (const Condition& c : rule.conditions) {
    collect(c.left, mentioned);
    collect(c.right, mentioned);
  }
  for (const Predicate& p : rule.predicates) {
    const bool two = p.kind == Predicate::Kind::kEqual || p.kind == Predicate::Kind::kNotEqual;
    if (p.arguments.size() != (two ? 2u : 1u)) throw Error(ErrorCode::kBadInput, "a predicate has a wrong number of arguments");
    for (const Expression& e : p.arguments) {
      check_calls(e);
      collect(e, mentioned);
    }
  }
  return mentioned;
}

void require_bound(const Names& mentioned, const Names& bound) {
  for (const std::string& n : mentioned)
    if (!bound.count(n)) throw Error(ErrorCode::kBadInput, "\"" + n + "\" is not bound by the source");
}

void check(const Rule& rule) {
  if (!is_name(rule.name)) throw Error(ErrorCode::kBadInput, "a rule's name is made of letters, digits and _");
  check_text(rule.description);
  for (const std::string& text : {rule.proof.method, rule.proof.certificate, rule.proof.note, rule.proof.digest})
    if (!is_utf8(text)) throw Error(ErrorCode::kBadInput, "a text of the proof is not UTF-8");
  check_sides(rule);
  Names bound = bound_by_source(rule);
  for (const Quantity& q : rule.quantities) {
    if (q.value.kind != Expression::Kind::kCall) throw Error(ErrorCode::kBadInput, "\"" + q.name + "\" is not a call");
    check_calls(q.value);
    Names mentioned;
    collect(q.value, mentioned);
    require_bound(mentioned, bound);
    bound.insert(q.name);
  }
  require_bound(mentioned_after_source(rule), bound);
  for (const std::string& n : bound)
    if (!is_name(n)) throw Error(ErrorCode::kBadInput, "a variable's name is made of letters, digits and _");
}

}  // namespace

Pattern canonical(const Pattern& pattern) { return Canonicalizer(pattern).run(); }

void check_rule(const Rule& rule) {
  try {
    check(rule);
  } catch (const Error& e) {
    throw e.within("rule " + rule.name);
  }
}

RuleSet::RuleSet(std::vector<Rule> rules) : rules_(std::move(rules)) {
  Names names;
  for (const Rule& rule : rules_)
    if (!names.insert(rule.name).second) throw Error(ErrorCode::kBadInput, "two rules are called " + rule.name);
}

const Rule* RuleSet::find(std::string_view name) const {
  for (const Rule& rule : rules_)
    if (rule.name == name) return &rule;
  return nullptr;
}

std::uint64_t RuleSet::hash() const { return hash_text(write_rules(rules_, RuleFormat::kBinary)); }

}  // namespace rewright::rules
