// The hypotheses of a case: the bindings of its variables, and the rule's conditions for them.
#include <algorithm>

#include "base/error.h"
#include "verifier/cases.h"

namespace rewright::proof {

namespace {

// Is an expression that has no value undefined for all values of its symbols?
bool never_has_a_value(const Expression& e, const Bindings& bindings) {
  const RuleFunction* f = e.kind == Expression::Kind::kCall ? find_rule_function(e.name) : nullptr;
  if (!f) return false;
  for (std::size_t i = 0; i < e.arguments.size(); ++i) {
    if (f->arguments[i] == 'r') return false;
    if (f->arguments[i] == 'x') continue;
    const auto value = bindings.try_evaluate(e.arguments[i]);
    if (!value) {
      if (!never_has_a_value(e.arguments[i], bindings)) return false;
      return true;
    }
    if (const auto* index = std::get_if<Index>(&*value); index && !index->is_constant() && e.name != "repeat") return false;
    if (const auto* list = std::get_if<Indices>(&*value); list && e.name == "position" && !all_constant(*list)) return false;
    if (const auto* list = std::get_if<Indices>(&*value);
        list && (e.name == "compose" || e.name == "inverse") && !all_constant(*list))
      return false;
  }
  return true;
}

}  // namespace

std::vector<TensorType> CaseEnumerator::input_types(const State& state, const Bindings& bindings) const {
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
    const PatternInput& input = rule_.inputs[i];
    TensorType type;
    const std::string name = input.type.variable.empty() ? "type of " + input.name : input.type.variable;
    type.type = std::get<DataType>(state.values.at(name));
    for (const Index& size : input.shape.front) type.shape.push_back(bindings.evaluate(size));
    if (input.shape.open && !input.shape.middle.empty()) {
      const auto& middle = std::get<Indices>(state.values.at(input.shape.middle));
      type.shape.insert(type.shape.end(), middle.begin(), middle.end());
    } else if (input.shape.open) {
      for (const Index& size : symbols("_" + input.name, state.open[i])) type.shape.push_back(replaced(size, state.solved));
    }
    for (const Index& size : input.shape.back) type.shape.push_back(bindings.evaluate(size));
    types.push_back(std::move(type));
  }
  return types;
}

// The bindings of a case; nullopt if no values are possible. Quantities that need unknown lists are left out.
std::optional<Bindings> CaseEnumerator::bind(const State& state, std::vector<TensorType>& types) const {
  Bindings bindings(rule_);
  for (const auto& [name, value] : state.values)
    if (variables_.count(name)) bindings.bind(name, value);
  types = input_types(state, bindings);
  for (std::size_t i = 0; i < types.size(); ++i)
    if (!bindings.bind_input(i, types[i])) return std::nullopt;
  bool complete = true;
  for (const auto& [name, sort] : variables_) complete &= sort != Sort::kList || state.values.count(name) > 0;
  for (const Quantity& q : rule_.quantities) {
    const auto value = bindings.try_evaluate(q.value);
    if (value) {
      if (!bindings.bind(q.name, *value)) return std::nullopt;
    } else if (complete && never_has_a_value(q.value, bindings)) {
      return std::nullopt;
    }
  }
  return bindings;
}

// Adds the rule's conditions. False if they can never hold.
bool CaseEnumerator::gather(const Bindings& bindings, std::vector<Guard>& guards, bool partly) const {
  for (const Quantity& q : rule_.quantities)
    if (!partly && !bindings.values().count(q.name))
      throw Error(ErrorCode::kUnsupported, q.name + " has no value for symbolic variables");
  for (const Condition& c : rule_.conditions) {
    const auto left = bindings.try_evaluate(c.left), right = bindings.try_evaluate(c.right);
    if (left && right)
      guards.push_back(guard({*left, c.relation, *right}));
    else if (!partly)
      throw Error(ErrorCode::kUnsupported, "the condition " + c.to_string() + " has no value for symbolic variables");
  }
  for (const Predicate& p : rule_.predicates) {
    std::vector<AttributeValue> values;
    for (const Expression& e : p.arguments) {
      auto value = bindings.try_evaluate(e);
      if (!value) {
        if (partly) break;
        if (never_has_a_value(e, bindings)) return false;
        throw Error(ErrorCode::kUnsupported, "a condition has no value for symbolic variables");
      }
      values.push_back(std::move(*value));
    }
    if (values.size() < p.arguments.size()) continue;
    const auto* list = std::get_if<Indices>(&values[0]);
    switch (p.kind) {
      case Predicate::Kind::kEqual:
      case Predicate::Kind::kNotEqual: {
        const bool wanted = p.kind == Predicate::Kind::kEqual;
        if (!list) {  // unknown reals may be equal or not: nothing is assumed
          const bool open = std::holds_alternative<Real>(values[0]);
          if (!open && (values[0] == values[1]) != wanted) return false;
          break;
        }
        const auto& other = std::get<Indices>(values[1]);
        if (list->size() != other.size()) {
          if (wanted) return false;
          break;
        }
        Guards differ;
        for (std::size_t i = 0; i < list->size(); ++i) {
          if (wanted)
            guards.push_back(zero((*list)[i] - other[i]));
          else
            differ.push_back(non_zero((*list)[i] - other[i]));
        }
        if (!wanted) guards.push_back(any_of(std::move(differ)));
        break;
      }
      case Predicate::Kind::kPermutation: {
        std::vector<bool> seen(list->size());
        for (const Index& i : *list) {
          const auto c = i.constant();
          if (!c && partly) continue;
          if (!c) throw Error(ErrorCode::kUnsupported, "a permutation is not known");
          if (*c < 0 || *c >= static_cast<std::int64_t>(seen.size()) || seen[static_cast<std::size_t>(*c)]) return false;
          seen[static_cast<std::size_t>(*c)] = true;
        }
        break;
      }
      case Predicate::Kind::kPositive:
      case Predicate::Kind::kNonNegative:
        if (list)
          for (const Index& i : *list) guards.push_back(at_least(i, p.kind == Predicate::Kind::kPositive ? 1 : 0));
        break;
    }
  }
  return std::none_of(guards.begin(), guards.end(), [](const Guard& g) { return g.decided() == false; });
}

}  // namespace rewright::proof
