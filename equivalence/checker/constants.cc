#include "equivalence/checker/constants.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "expressions/difference.h"
#include "graph/element_sampler.h"

namespace rewright::equivalence {

namespace {

// The value and what it is computed from, with reals of any type as double if `wide`.
ValueId add_part(Graph& part, const Graph& graph, ValueId id, bool wide) {
  std::unordered_map<ValueId, ValueId> made;
  const std::vector<std::int32_t> producers = graph.producers();
  std::vector<ValueId> open{id};
  while (!open.empty()) {
    const ValueId next = open.back();
    if (made.count(next)) {
      open.pop_back();
      continue;
    }
    const Value& value = graph.value(next);
    if (value.constant) {
      const bool widened = wide && unit_roundoff(value.constant.type()) > 0;
      const Tensor& t = value.constant;
      made.emplace(next, part.add_constant(widened ? Tensor::from_reals(DataType::kDouble, t.sizes(), t.reals()) : t));
      continue;
    }
    if (producers[next] < 0) throw Error(ErrorCode::kUnsupported, "a constant that depends on an input");
    const Node& node = *graph.nodes()[static_cast<std::size_t>(producers[next])];
    if (!node.op || node.op->random()) throw Error(ErrorCode::kUnsupported, "a constant computed by an opaque node");
    const std::size_t before = open.size();
    for (const ValueId input : node.inputs)
      if (input != kNoValue && !made.count(input)) open.push_back(input);
    if (open.size() > before) continue;
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input == kNoValue ? input : made.at(input));
    Attributes attributes = node.attributes;
    if (wide)
      for (AttributeValue& attribute : attributes)
        if (DataType* type = std::get_if<DataType>(&attribute); type && unit_roundoff(*type) > 0) *type = DataType::kDouble;
    const std::vector<ValueId> outputs = part.add_node(*node.op, std::move(attributes), std::move(inputs));
    for (std::size_t o = 0; o < node.outputs.size() && o < outputs.size(); ++o)
      if (node.outputs[o] != kNoValue) made.emplace(node.outputs[o], outputs[o]);
  }
  return made.at(id);
}

Graph part_of(const Graph& graph, ValueId id, bool wide) {
  Graph part;
  part.add_output("y", add_part(part, graph, id, wide));
  return part;
}

}  // namespace

ValueId add_constant_part(Graph& part, const Graph& graph, ValueId id) { return add_part(part, graph, id, false); }

Tensor evaluate_constant(const Graph& graph, ValueId id) {
  // Computing in double can change the type or the sizes of a result.
  const auto is_of_value = [&](const Tensor& tensor) {
    const Value& value = graph.value(id);
    const bool has_type = is_real(value.type.type) ? is_real(tensor.type()) : tensor.type() == value.type.type;
    return has_type && (!value.shape_known || !all_constant(value.type.shape) || values(value.type.shape) == tensor.sizes());
  };
  try {
    Tensor wide = interpret(part_of(graph, id, true), {}).at(0);
    if (is_of_value(wide)) return wide;
  } catch (const Error&) {  // an operator that has no meaning for double
  }
  Tensor plain = interpret(part_of(graph, id, false), {}).at(0);
  if (!is_of_value(plain)) throw Error(ErrorCode::kUnsupported, "a constant that is computed has another type");
  return plain;
}

RoundingCheck check_rounding(const Graph& graph, ValueId id, const Tensor& exact, const Tensor& found, double tolerance) {
  constexpr std::size_t kMostCancelled = 10000, kMostReads = std::size_t{1} << 20;
  RoundingCheck result;
  if (exact.sizes() != found.sizes()) return result;
  const double half_unit = unit_roundoff(found.type());
  if (half_unit == 0) {
    result.explained = exact == found;
    return result;
  }
  const double allowed = tolerance * half_unit / unit_roundoff(DataType::kFloat);
  const std::vector<double> a = exact.reals(), b = found.reals();
  std::vector<std::size_t> cancelled;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double relative = std::abs(a[i] - b[i]) / std::abs(a[i]);
    if (relative <= allowed)
      result.max_rel_error = std::max(result.max_rel_error, relative);
    else if (!std::isfinite(a[i]) || !std::isfinite(b[i]) || cancelled.size() >= kMostCancelled)
      return result;
    else
      cancelled.push_back(i);
  }
  if (!cancelled.empty()) {
    const Graph part = part_of(graph, id, false);
    if (part.nodes().empty() || tolerance == 0) return result;  // a copy is not computed, so nothing cancels
    ElementSampler sampler(part, [](ValueId) -> const StoredElements* { return nullptr; });
    for (const std::size_t i : cancelled) {
      const auto sample = sampler.element(part.outputs()[0].value, static_cast<std::int64_t>(i), kMostReads);
      // The sampler's error is that of float; of other types it is in proportion.
      const double bound = sample ? sample->error * half_unit / unit_roundoff(DataType::kFloat) : 0;
      if (!sample || !sample->is_real || !sample->certain || !(std::abs(a[i] - b[i]) <= bound)) return result;
      result.max_rel_error = std::max(result.max_rel_error, std::abs(a[i] - b[i]) / bound * allowed);
    }
  }
  result.explained = true;
  return result;
}

}  // namespace rewright::equivalence
