#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "equivalence/constant_terms.h"
#include "equivalence/term_writer.h"
#include "verifier/checker/questions.h"

namespace rewright::equivalence {

namespace {

// Is each element the float nearest to the product? Quantizers compute it in float.
bool is_nearest(const Joint& joint, const Step& step, double tolerance) {
  try {
    if (!check_term(joint, step, tolerance).explained) return false;
    const Graph graph = graph_of_term(joint, step);
    const Tensor exact = evaluate_constant(graph, graph.outputs()[0].value);
    const Tensor& found = joint.graph().value(step.equation.b).constant;
    return Tensor::from_reals(found.type(), found.sizes(), exact.reals()) == found;
  } catch (const proof::Refusal&) {
    return false;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<Step> scales_of_biases(const Joint& joint, const Statement& statement, double tolerance) {
  const Operator* const dequantize = registry().find("DequantizeLinear");
  const auto constant_of = [&](ValueId id) {
    const ValueId constant = joint.defined_by(statement.classes.at(id));
    const bool is_open = joint.is_constant(constant) && joint.is_of_first(constant) && !joint.is_explained(constant);
    return is_open && is_real(joint.graph().value(constant).type.type) ? std::optional(constant) : std::nullopt;
  };
  std::set<ValueId> scales, of_biases;
  for (const auto& node : statement.graph.nodes()) {
    if (node->op != dequantize) continue;
    const std::optional<ValueId> scale = constant_of(node->inputs[1]);
    if (!scale) continue;
    const bool is_bias = packed_bits(statement.graph.value(node->inputs[0]).type.type) > 8;
    (is_bias ? of_biases : scales).insert(*scale);
  }
  std::vector<Step> steps;
  for (const ValueId bias : of_biases) {
    if (scales.count(bias)) continue;
    const auto explain = [&](ValueId left, ValueId right) {
      const TensorType &x = joint.graph().value(left).type, &y = joint.graph().value(right).type;
      const Tensor& tensor = joint.graph().value(bias).constant;
      if (x.type != tensor.type() || y.type != tensor.type()) return false;
      TermWriter writer(Step::Kind::kTerm, "of scales");
      const PatternValue first = writer.leaf(left, x), second = writer.leaf(right, y);
      PatternValue term = writer.node("Mul", {}, {first, second});
      const Tensor &a = joint.graph().value(left).constant, &b = joint.graph().value(right).constant;
      if (std::max(a.size(), b.size()) != tensor.size() || std::min(a.size(), b.size()) != 1) return false;
      if (std::max(x.rank(), y.rank()) != tensor.sizes().size())
        term = writer.node("Reshape", {{"shape", to_indices(tensor.sizes())}}, {term});
      Step step = writer.finish(term, bias);
      if (!is_nearest(joint, step, tolerance)) return false;
      steps.push_back(std::move(step));
      return true;
    };
    const bool found = std::any_of(scales.begin(), scales.end(), [&](ValueId left) {
      return std::any_of(scales.begin(), scales.end(), [&](ValueId right) { return explain(left, right); });
    });
    if (found) scales.erase(bias);
  }
  return steps;
}

}  // namespace rewright::equivalence
