#include "rules/draw.h"

#include "rules/io.h"

namespace rewright::rules {

namespace {

// Quotes a text; lines are separated by "
// ".
std::string in_quotes(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result + "\"";
}

std::string label(const PatternNode& node) {
  std::string text = node.op->name();
  for (std::size_t i = 0; i < node.attributes.size(); ++i) {
    const Field& field = node.op->fields()[i];
    if (node.attributes[i] == Expression::literal(field.default_value)) continue;
    text += "\n" + field.name + " = " + to_algebra(node.attributes[i]);
  }
  return text;
}

// The nodes and outputs of one side in their cluster; the edges go to `edges`.
std::string draw_side(const Rule& rule, const Pattern& side, const std::string& name, std::string& edges) {
  const auto source_of = [&](const PatternValue& v) {
    if (v.kind == PatternValue::Kind::kInput) return in_quotes("input " + rule.inputs[v.number].name);
    return in_quotes(name + " " + std::to_string(v.number));
  };
  const auto edge = [&](const PatternValue& from, const std::string& to, const std::string& where) {
    std::string text = from.output ? "." + std::to_string(from.output) : "";
    if (!where.empty()) text += (text.empty() ? "" : " ") + where;
    edges += "  " + source_of(from) + " -> " + to + (text.empty() ? "" : " [label=" + in_quotes(text) + "]") + ";\n";
  };
  std::string text = "  subgraph " + in_quotes("cluster_" + name) + " {\n    label=" + in_quotes(name) + ";\n";
  for (std::size_t n = 0; n < side.nodes.size(); ++n) {
    const PatternNode& node = side.nodes[n];
    const std::string id = in_quotes(name + " " + std::to_string(n));
    text += "    " + id + " [label=" + in_quotes(label(node)) + "];\n";
    // Edges are numbered by operand, unless there is only one or the operands commute.
    const bool numbered = node.inputs.size() > 1 && !(node.op->commutative() && node.inputs.size() == 2);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i].kind != PatternValue::Kind::kAbsent) edge(node.inputs[i], id, numbered ? std::to_string(i) : "");
  }
  for (std::size_t i = 0; i < side.outputs.size(); ++i) {
    const std::string id = in_quotes(name + " output " + std::to_string(i));
    text += "    " + id + " [shape=plaintext, label=" +
            in_quotes(side.outputs.size() == 1 ? std::string("output") : "output " + std::to_string(i)) + "];\n";
    edge(side.outputs[i], id, "");
  }
  return text + "  }\n";
}

std::string note(const Rule& rule) {
  std::string text;
  for (const Quantity& q : rule.quantities) text += "let " + q.name + " = " + to_algebra(q.value) + "\n";
  for (const Condition& c : rule.conditions) text += c.to_string() + "\n";
  for (const Predicate& p : rule.predicates) text += to_algebra(p) + "\n";
  return text + std::string(name(rule.math)) + (rule.for_training ? "" : ", inference only");
}

}  // namespace

std::string to_dot(const Rule& rule) {
  std::string text = "digraph " + in_quotes(rule.name) +
                     " {\n  label=" + in_quotes(rule.description.empty() ? rule.name : rule.name + ": " + rule.description) +
                     ";\n  labelloc=t;\n  node [shape=box];\n";
  for (const PatternInput& input : rule.inputs)
    text += "  " + in_quotes("input " + input.name) + " [shape=ellipse, label=" + in_quotes(to_algebra(input)) + "];\n";
  std::string edges;
  text += draw_side(rule, rule.source, "source", edges);
  text += draw_side(rule, rule.target, "target", edges);
  return text + edges + "  \"conditions\" [shape=note, label=" + in_quotes(note(rule)) + "];\n}\n";
}

}  // namespace rewright::rules
