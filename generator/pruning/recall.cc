#include "generator/pruning/recall.h"

#include <algorithm>

namespace rewright::generator {

namespace {

constexpr std::uint32_t kUnknown = Expression::kNone;

// The attributes of a node whose only variables are sizes and the element type.
std::optional<Attributes> attributes_of(const PatternNode& node) {
  Attributes attributes;
  for (const rules::Expression& e : node.attributes) {
    if (e.kind == rules::Expression::Kind::kValue)
      attributes.push_back(e.value);
    else if (e.kind == rules::Expression::Kind::kVariable && e.name == "T")
      attributes.emplace_back(DataType::kFloat);
    else
      return std::nullopt;
  }
  return attributes;
}

class Reader {
 public:
  Reader(const Rule& rule, Forms& forms) : rule_(rule), forms_(forms) {}

  std::optional<Equation> run() {
    std::vector<std::uint32_t> inputs;
    for (std::uint32_t i = 0; i < rule_.inputs.size(); ++i) {
      const ShapePattern& shape = rule_.inputs[i].shape;
      if (shape.open) return std::nullopt;
      const TypeId type = forms_.intern({DataType::kFloat, shape.front});
      inputs.push_back(q_.add({Expression::Kind::kVariable, i, 0, 0, {kUnknown, kUnknown, kUnknown}, type}));
    }
    if (!side(rule_.source, inputs, q_.left) || !side(rule_.target, inputs, q_.right)) return std::nullopt;
    return q_;
  }

 private:
  struct Value {
    std::vector<std::uint32_t> outputs;  // empty if the configuration lacks it
  };

  bool side(const Pattern& pattern, const std::vector<std::uint32_t>& inputs, std::vector<std::uint32_t>& roots) {
    std::vector<Value> values;
    const auto place = [&](const PatternValue& v) {
      if (v.kind == PatternValue::Kind::kAbsent) return kUnknown;
      if (v.kind == PatternValue::Kind::kInput) return inputs[v.number];
      const std::vector<std::uint32_t>& outputs = values[v.number].outputs;
      return v.output < outputs.size() ? outputs[v.output] : kUnknown;
    };
    for (const PatternNode& node : pattern.nodes) {
      const std::optional<Attributes> attributes = attributes_of(node);
      if (!attributes) return false;
      Value value;
      if (node.inputs.empty()) {
        value.outputs = {constant(*node.op, *attributes, 1)};
      } else if (const std::uint32_t divided = divided_constant(pattern, node); divided != kUnknown) {
        value.outputs = {divided};
      } else {
        std::vector<std::uint32_t> arguments;
        for (const PatternValue& v : node.inputs) arguments.push_back(place(v));
        value = operation(*node.op, *attributes, arguments);
      }
      values.push_back(std::move(value));
    }
    for (const PatternValue& v : pattern.outputs) {
      roots.push_back(place(v));
      if (roots.back() == kUnknown) return false;
    }
    return true;
  }

  std::uint32_t constant(const Operator& op, const Attributes& attributes, std::int64_t divisor) {
    const Inputs none(std::vector<Operand>{});
    const Attributes normal = op.normalized(attributes, none);
    const auto& leaves = forms_.configuration().leaves;
    for (std::uint32_t l = 0; l < leaves.size(); ++l)
      if (leaves[l].op == &op && leaves[l].divisor == divisor && leaves[l].attributes == normal)
        return q_.add({Expression::Kind::kConstant, l, 0, 0, {kUnknown, kUnknown, kUnknown}, forms_.intern(leaves[l].type)});
    return kUnknown;
  }

  // A quotient of two constants as one constant with a divisor.
  std::uint32_t divided_constant(const Pattern& pattern, const PatternNode& node) {
    if (node.op->name() != "Div") return kUnknown;
    for (const PatternValue& v : node.inputs)
      if (v.kind != PatternValue::Kind::kNode || !pattern.nodes[v.number].op->is_fill()) return kUnknown;
    const PatternNode &above = pattern.nodes[node.inputs[0].number], &below = pattern.nodes[node.inputs[1].number];
    const auto attributes = attributes_of(above), divisor = attributes_of(below);
    if (!attributes || !divisor) return kUnknown;
    const Real& value = std::get<Real>((*divisor)[below.op->field("value").value()]);
    return constant(*above.op, *attributes, static_cast<std::int64_t>(value.value));
  }

  Value operation(const Operator& op, const Attributes& attributes, const std::vector<std::uint32_t>& arguments) {
    std::vector<TypeId> types;
    std::vector<TensorType> symbolic;
    for (const std::uint32_t a : arguments) {
      if (a == kUnknown) return {};
      types.push_back(q_.expressions[a].type);
      symbolic.push_back(forms_.type(types.back()).type);
    }
    const Attributes normal = op.normalized(attributes, Inputs::of(std::span<const TensorType>(symbolic)).types_only());
    const auto& choices = forms_.configuration().choices;
    for (std::uint32_t c = 0; c < choices.size(); ++c) {
      if (choices[c].op != &op || choices[c].activation || choices[c].further || choices[c].arity != types.size()) continue;
      for (const FormId f : forms_.find(c, types)) {
        const Form& form = forms_.form(f);
        if (!(form.attributes == normal)) continue;
        Value value;
        for (std::uint32_t o = 0; o < form.outputs.size(); ++o) {
          Expression e{Expression::Kind::kOperator, c, form.variant, o, {kUnknown, kUnknown, kUnknown}, form.outputs[o]};
          std::copy(arguments.begin(), arguments.end(), e.arguments.begin());
          value.outputs.push_back(q_.add(e));
        }
        return value;
      }
    }
    return {};
  }

  const Rule& rule_;
  Forms& forms_;
  Equation q_;
};

}  // namespace

std::optional<Equation> equation_of(const Rule& rule, Forms& forms) {
  try {
    return Reader(rule, forms).run();
  } catch (const Error&) {  // ill-typed in this configuration
    return std::nullopt;
  }
}

}  // namespace rewright::generator
