#include "equivalence/term_writer.h"

#include <algorithm>

#include "rules/io.h"

namespace rewright::equivalence {

TermWriter::TermWriter(Step::Kind kind, std::string description) {
  step_.kind = kind;
  rule_.name = "term";
  rule_.description = std::move(description);
}

PatternValue TermWriter::leaf(ValueId id, const TensorType& type) {
  PatternInput input;
  input.name = "x" + std::to_string(rule_.inputs.size());
  input.shape.open = !std::all_of(type.shape.begin(), type.shape.end(), [](const Index& size) { return size.is_constant(); });
  if (!input.shape.open) input.shape.front = type.shape;
  input.type = {TypePattern::Kind::kFixed, type.type, ""};
  rule_.inputs.push_back(std::move(input));
  step_.equation.leaves.push_back(id);
  return PatternValue::input(static_cast<std::uint32_t>(rule_.inputs.size() - 1));
}

PatternValue TermWriter::node(std::string_view name, std::initializer_list<std::pair<std::string_view, AttributeValue>> given,
                              std::vector<PatternValue> inputs) {
  const Operator& op = registry().get(name);
  Attributes attributes = op.defaults();
  for (const auto& [field, value] : given) attributes.at(op.field(field).value()) = value;
  PatternNode node{&op, {}, std::move(inputs), 1};
  for (AttributeValue& value : attributes) node.attributes.push_back(Expression::literal(std::move(value)));
  rule_.source.nodes.push_back(std::move(node));
  return PatternValue::node(static_cast<std::uint32_t>(rule_.source.nodes.size() - 1));
}

Step TermWriter::finish(PatternValue output, ValueId constant) {
  step_.equation.b = constant;
  if (output.kind != PatternValue::Kind::kInput) {
    rule_.source.outputs = {output};
    rule_.source = canonical(rule_.source);
    rule_.target = rule_.source;
    step_.term = std::move(rule_);
  }
  return std::move(step_);
}

}  // namespace rewright::equivalence
