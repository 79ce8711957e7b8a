// A rule as algebra.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "base/hash_mix.h"
#include "rules/io.h"

namespace rewright::rules {

namespace {

std::string show(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-infinity" : "infinity";
  char text[40];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

}  // namespace

std::string to_algebra(const Expression& e) {
  if (e.kind == Expression::Kind::kVariable) return e.name;
  if (e.kind == Expression::Kind::kCall) {
    std::string s = e.name + "(";
    for (std::size_t i = 0; i < e.arguments.size(); ++i) s += (i ? ", " : "") + to_algebra(e.arguments[i]);
    return s + ")";
  }
  struct Visitor {
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(const Index& i) const { return i.to_string(); }
    std::string operator()(const Indices& i) const { return to_string(i); }
    std::string operator()(const Real& r) const { return r.symbol.empty() ? show(r.value) : r.symbol; }
    std::string operator()(const std::vector<double>&) const { return "[...]"; }
    std::string operator()(const std::string& s) const { return '"' + s + '"'; }
    std::string operator()(DataType t) const { return std::string(name(t)); }
    std::string operator()(const Tensor&) const { return "tensor"; }
  };
  return std::visit(Visitor{}, e.value);
}

std::string to_algebra(const PatternInput& input) {
  std::string s = (input.constant ? "const " : "") + input.name;
  const ShapePattern& shape = input.shape;
  if (!shape.open || !shape.middle.empty() || !shape.front.empty() || !shape.back.empty()) {
    std::string sizes;
    const auto append = [&](const std::string& text) { sizes += (sizes.empty() ? "" : ", ") + text; };
    for (const Index& i : shape.front) append(i.to_string());
    if (shape.open) append(shape.middle + "...");
    for (const Index& i : shape.back) append(i.to_string());
    s += "[" + sizes + "]";
  }
  if (input.type == TypePattern{}) return s;
  switch (input.type.kind) {
    case TypePattern::Kind::kReal:
      s += ": real";
      break;
    case TypePattern::Kind::kInteger:
      s += ": integer";
      break;
    case TypePattern::Kind::kAny:
      s += ": any";
      break;
    case TypePattern::Kind::kFixed:
      return s + ": " + std::string(name(input.type.fixed));
  }
  if (input.type.variable != "T") s += "(" + (input.type.variable.empty() ? "_" : input.type.variable) + ")";
  return s;
}

std::string to_algebra(const Predicate& p) {
  switch (p.kind) {
    case Predicate::Kind::kEqual:
      return to_algebra(p.arguments[0]) + " == " + to_algebra(p.arguments[1]);
    case Predicate::Kind::kNotEqual:
      return to_algebra(p.arguments[0]) + " != " + to_algebra(p.arguments[1]);
    case Predicate::Kind::kPermutation:
      return "permutation(" + to_algebra(p.arguments[0]) + ")";
    case Predicate::Kind::kPositive: {
      const auto* real = std::get_if<Real>(&p.arguments[0].value);
      return (real && p.arguments[0].kind == Expression::Kind::kValue ? "" : "every ") + to_algebra(p.arguments[0]) + " > 0";
    }
    case Predicate::Kind::kNonNegative:
      return "every " + to_algebra(p.arguments[0]) + " >= 0";
  }
  return {};
}

namespace {

// Writes one side. Nodes that are used more than once, or by an output other than the first, get a name by `let`.
class SideWriter {
 public:
  SideWriter(const Rule& rule, const Pattern& side, const std::string& prefix) : rule_(rule), side_(side), prefix_(prefix) {
    uses_.resize(side.nodes.size());
    const auto count = [&](const PatternValue& v) {
      if (v.kind == PatternValue::Kind::kNode) ++uses_[v.number];
    };
    for (const PatternNode& node : side.nodes)
      for (const PatternValue& v : node.inputs) count(v);
    for (const PatternValue& v : side.outputs) count(v);
  }

  std::string lets() const {
    std::string text;
    for (std::size_t n = 0; n < side_.nodes.size(); ++n)
      if (named(n)) text += "  let " + label(n) + " = " + node(side_.nodes[n], 0) + "\n";
    return text;
  }

  std::string outputs() const {
    std::string text;
    for (const PatternValue& v : side_.outputs) text += (text.empty() ? "" : ", ") + value(v, 0);
    return text;
  }

 private:
  bool named(std::size_t n) const { return uses_[n] > 1; }
  std::string label(std::size_t n) const { return prefix_ + std::to_string(n + 1); }

  // `level`: 0 where a sum may be written, 1 where a product may, 2 where neither may.
  std::string value(const PatternValue& v, int level) const {
    if (v.kind == PatternValue::Kind::kAbsent) return "_";
    if (v.kind == PatternValue::Kind::kInput) return rule_.inputs[v.number].name;
    const std::string text = named(v.number) ? label(v.number) : node(side_.nodes[v.number], v.output ? 2 : level);
    return v.output ? text + "." + std::to_string(v.output) : text;
  }

  std::string node(const PatternNode& node, int level) const {
    bool defaults = true;
    for (std::size_t i = 0; i < node.attributes.size(); ++i) defaults &= is_default(node, i);
    if (defaults && node.inputs.size() == 2) {
      const std::string& op = node.op->name();
      const bool sum = op == "Add" || op == "Sub";
      if (sum || op == "Mul" || op == "Div") {
        const std::string symbol = op == "Add" ? " + " : op == "Sub" ? " - " : op == "Mul" ? " * " : " / ";
        const int own = sum ? 0 : 1;
        const std::string text = value(node.inputs[0], own) + symbol + value(node.inputs[1], own + 1);
        return level > own ? "(" + text + ")" : text;
      }
    }
    std::string text = node.op->name() + "(";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + value(node.inputs[i], 0);
    bool first = true;
    for (std::size_t i = 0; i < node.attributes.size(); ++i) {
      if (is_default(node, i)) continue;
      text += (first ? "; " : ", ") + node.op->fields()[i].name + "=" + to_algebra(node.attributes[i]);
      first = false;
    }
    return text + ")";
  }

  static bool is_default(const PatternNode& node, std::size_t i) {
    return node.attributes[i] == Expression::literal(node.op->fields()[i].default_value);
  }

  const Rule& rule_;
  const Pattern& side_;
  std::string prefix_;
  std::vector<int> uses_;
};

std::string free_prefix(const Rule& rule, const std::string& start) {
  std::set<std::string> names;
  for (const PatternInput& input : rule.inputs) names.insert(input.name);
  std::string prefix = start;
  const auto taken = [&] {
    for (const std::string& n : names)
      if (n.rfind(prefix, 0) == 0) return true;
    return false;
  };
  while (taken()) prefix += "_";
  return prefix;
}

}  // namespace

std::string to_algebra(const Rule& rule) {
  std::string text = "rule " + rule.name + ": \"" + rule.description + "\"\n";
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) text += (i ? ", " : "  ") + to_algebra(rule.inputs[i]);
  if (!rule.inputs.empty()) text += "\n";
  for (const Quantity& q : rule.quantities) text += "  let " + q.name + " = " + to_algebra(q.value) + "\n";
  const SideWriter source(rule, rule.source, free_prefix(rule, "s_"));
  const SideWriter target(rule, rule.target, free_prefix(rule, "t_"));
  text += source.lets() + target.lets();
  text += "  " + source.outputs() + "\n    => " + target.outputs() + "\n";
  std::string conditions;
  for (const Condition& c : rule.conditions) conditions += (conditions.empty() ? "" : ", ") + c.to_string();
  for (const Predicate& p : rule.predicates) conditions += (conditions.empty() ? "" : ", ") + to_algebra(p);
  if (!conditions.empty()) text += "  where " + conditions + "\n";
  text += "  " + std::string(name(rule.math)) + (rule.for_training ? "" : " inference_only") + "\n";
  return text;
}

std::uint64_t hash(const Rule& rule) { return hash_text(to_algebra(rule)); }

}  // namespace rewright::rules
