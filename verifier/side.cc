#include "verifier/side.h"

#include "base/error.h"

namespace rewright::proof {

namespace {

bool mentions_variables(const Expression& e) {
  if (e.kind != Expression::Kind::kValue) return true;
  if (const auto* i = std::get_if<Index>(&e.value)) return !i->is_constant();
  if (const auto* list = std::get_if<Indices>(&e.value)) return !all_constant(*list);
  const auto* r = std::get_if<Real>(&e.value);
  return r && !r->symbol.empty();
}

}  // namespace

const TensorType& type_of(const DefinedSide& side, const PatternValue& value) {
  if (value.kind == PatternValue::Kind::kInput) return side.inputs.at(value.number);
  if (value.kind == PatternValue::Kind::kNode) return side.nodes.at(value.number).at(value.output).type;
  throw Error(ErrorCode::kBadInput, "an absent value has no type");
}

std::optional<std::vector<Condition>> agreement(const Attributes& written, const Attributes& normalized) {
  std::vector<Condition> conditions;
  const auto compare = [&](const Index& a, const Index& b) {
    if (a == b || (a.is_constant() && b.is_constant())) return;
    conditions.push_back(equal(a, b));
  };
  for (std::size_t f = 0; f < written.size(); ++f) {
    if (const auto* index = std::get_if<Index>(&written[f])) {
      compare(*index, std::get<Index>(normalized[f]));
    } else if (const auto* list = std::get_if<Indices>(&written[f])) {
      const Indices& other = std::get<Indices>(normalized[f]);
      if (list->empty()) continue;
      if (list->size() > other.size()) return std::nullopt;
      // A shape that is broadcast may have fewer axes.
      for (std::size_t i = 0; i < list->size(); ++i) {
        const Index& entry = (*list)[list->size() - 1 - i];
        const Index& meant = other[other.size() - 1 - i];
        if (list->size() == other.size() || !(entry == Index(1))) compare(entry, meant);
      }
    }
  }
  return conditions;
}

DefinedSide define_side(const Rule& rule, const Pattern& side, const std::vector<TensorType>& inputs, const Bindings& bindings,
                        bool with_elements, SideConditions& conditions, std::size_t count) {
  DefinedSide result;
  result.pattern = &side;
  result.inputs = inputs;
  const bool is_source = &side == &rule.source;
  for (const PatternNode& node : side.nodes) {
    if (result.nodes.size() == count) return result;
    std::vector<std::optional<TensorType>> operands;
    for (const PatternValue& v : node.inputs) {
      if (v.kind == PatternValue::Kind::kAbsent) {
        operands.push_back(std::nullopt);
        continue;
      }
      if (v.kind == PatternValue::Kind::kNode && v.output >= result.nodes.at(v.number).size())
        throw Error(ErrorCode::kBadInput, side.nodes[v.number].op->name() + " has too few outputs");
      operands.push_back(type_of(result, v));
    }
    Inputs in = Inputs::of(std::span<const std::optional<TensorType>>(operands));
    if (!with_elements) in = in.types_only();
    Attributes written;
    for (const Expression& e : node.attributes) written.push_back(bindings.evaluate(e));
    const Attributes normalized = node.op->normalized(written, in);
    const auto agreed = agreement(written, normalized);
    if (!agreed)
      throw Error(ErrorCode::kBadInput, "attributes of " + node.op->name() + " are not those it has after normalization");
    conditions.typing.insert(conditions.typing.end(), agreed->begin(), agreed->end());
    if (is_source)
      for (std::size_t f = 0; f < written.size(); ++f) {
        if (!mentions_variables(node.attributes[f]) || written[f] == normalized[f]) continue;
        const auto *a = std::get_if<Indices>(&written[f]), *b = std::get_if<Indices>(&normalized[f]);
        const auto *i = std::get_if<Index>(&written[f]), *j = std::get_if<Index>(&normalized[f]);
        if (a && a->size() == b->size()) {
          for (std::size_t k = 0; k < a->size(); ++k) conditions.reachable &= equal((*a)[k], (*b)[k]).decided() != false;
        } else {
          conditions.reachable &= i && equal(*i, *j).decided() != false;
        }
      }
    const Definition definition = node.op->define(normalized, in);
    for (const Requirement& r : definition.requirements()) conditions.typing.push_back(r.condition);
    conditions.attributes.push_back(normalized);
    result.nodes.push_back(definition.outputs());
  }
  for (const PatternValue& v : side.outputs)
    if (v.kind == PatternValue::Kind::kNode && v.output >= result.nodes.at(v.number).size())
      throw Error(ErrorCode::kBadInput, side.nodes[v.number].op->name() + " has too few outputs");
  return result;
}

}  // namespace rewright::proof
