#include "generator/enumeration/candidates.h"

#include <algorithm>
#include <tuple>

namespace rewright::generator {

namespace {

using Kind = Expression::Kind;

class Writer {
 public:
  explicit Writer(const Enumeration& enumeration) : enumeration_(enumeration), forms_(enumeration.forms()) {}

  std::uint32_t add(const Graphlet& g) {
    return g.form == Graphlet::kNoForm ? best(g.operands[0]) : application(g.form, g.output, g.operands);
  }

  Equation equation;

 private:
  std::uint32_t best(ClassId id) {
    const Class& c = enumeration_.classes()[id];
    const std::vector<Leaf>& leaves = forms_.configuration().leaves;
    if (c.leaf < leaves.size())
      return equation.add({leaves[c.leaf].constant() ? Kind::kConstant : Kind::kVariable,
                           c.leaf,
                           forms_.configuration().weight_operators > 0 && leaves[c.leaf].weight && !leaves[c.leaf].constant(),
                           0,
                           {Expression::kNone, Expression::kNone, Expression::kNone},
                           c.fingerprint.type});
    const Member& m = enumeration_.members()[c.best];
    return application(m.form, m.output, m.operands);
  }

  std::uint32_t application(FormId id, std::uint32_t output, const std::array<ClassId, 3>& operands) {
    const Form& form = forms_.form(id);
    Expression e{
        Kind::kOperator,     form.choice, form.variant, output, {Expression::kNone, Expression::kNone, Expression::kNone},
        form.outputs[output]};
    for (std::size_t k = 0; k < form.operands.size(); ++k) e.arguments[k] = best(operands[k]);
    return equation.add(e);
  }

  const Enumeration& enumeration_;
  const Forms& forms_;
};

}  // namespace

Equation equation_of(const Candidate& candidate, const Enumeration& enumeration) {
  Writer writer(enumeration);
  std::vector<std::uint32_t> left, right;
  for (std::uint32_t o = 0; o < candidate.outputs; ++o) {
    Graphlet g = candidate.left;
    if (candidate.outputs > 1) g.output = o;
    left.push_back(writer.add(g));
  }
  for (std::uint32_t o = 0; o < candidate.outputs; ++o) right.push_back(writer.add(candidate.right[o]));
  writer.equation.left = std::move(left);
  writer.equation.right = std::move(right);
  return std::move(writer.equation);
}

bool describe(Candidate& candidate, const Enumeration& enumeration) {
  const Equation q = equation_of(candidate, enumeration).tidied();
  if (q.left == q.right) return false;
  const std::size_t left = q.operators(q.left), right = q.operators(q.right);
  candidate.hash = canonical_hash(q, enumeration.forms());
  candidate.larger = static_cast<std::uint8_t>(std::max(left, right));
  candidate.operators = static_cast<std::uint8_t>(left + right);
  candidate.constants = static_cast<std::uint8_t>(constant_count(q));
  candidate.variables = static_cast<std::uint8_t>(q.variables);
  return true;
}

bool comes_before(const Candidate& a, const Candidate& b) {
  return std::tuple(a.larger, a.operators, a.constants, b.variables, a.order) <
         std::tuple(b.larger, b.operators, b.constants, a.variables, b.order);
}

std::size_t constant_count(const Equation& q) {
  return static_cast<std::size_t>(
      std::count_if(q.expressions.begin(), q.expressions.end(), [](const Expression& e) { return e.kind == Kind::kConstant; }));
}

}  // namespace rewright::generator
