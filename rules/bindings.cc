#include "rules/bindings.h"

#include <algorithm>

#include "base/error.h"
#include "rules/rule_functions.h"

namespace rewright::rules {

namespace {

bool mentions_variables(const Expression& e) {
  if (e.kind != Expression::Kind::kValue) return true;
  bool found = false;
  const auto visit = [&](const Index& index) {
    for_each_atom(index, [&](const Atom& atom) { found |= atom.kind == Atom::Kind::kSymbol; });
  };
  if (const auto* index = std::get_if<Index>(&e.value)) visit(*index);
  if (const auto* indices = std::get_if<Indices>(&e.value)) std::for_each(indices->begin(), indices->end(), visit);
  if (const auto* real = std::get_if<Real>(&e.value)) found |= !real->symbol.empty();
  return found;
}

const Index* as_index(const AttributeValue* value) { return value ? std::get_if<Index>(value) : nullptr; }

}  // namespace

std::optional<std::size_t> Bindings::input_number(std::string_view name) const {
  for (std::size_t i = 0; i < rule_->inputs.size(); ++i)
    if (rule_->inputs[i].name == name) return i;
  return std::nullopt;
}

bool Bindings::bind(std::string_view variable, const AttributeValue& value) {
  const auto found = values_.find(variable);
  if (found != values_.end()) return found->second == value;
  values_.emplace(std::string(variable), value);
  return true;
}

bool Bindings::bind_input(std::size_t number, const TensorType& type) {
  inputs_.resize(rule_->inputs.size());
  const PatternInput& pattern = rule_->inputs[number];
  if (inputs_[number]) return *inputs_[number] == type;
  inputs_[number] = type;
  switch (pattern.type.kind) {
    case TypePattern::Kind::kReal:
      if (!is_real(type.type)) return false;
      break;
    case TypePattern::Kind::kInteger:
      if (!is_integer(type.type)) return false;
      break;
    case TypePattern::Kind::kAny:
      break;
    case TypePattern::Kind::kFixed:
      if (type.type != pattern.type.fixed) return false;
      break;
  }
  if (!pattern.type.variable.empty() && !bind(pattern.type.variable, type.type)) return false;
  const ShapePattern& shape = pattern.shape;
  const std::size_t ends = shape.front.size() + shape.back.size();
  if (shape.open ? type.rank() < ends : type.rank() != ends) return false;
  for (std::size_t i = 0; i < shape.front.size(); ++i)
    if (!bind_index(shape.front[i], type.shape[i])) return false;
  for (std::size_t i = 0; i < shape.back.size(); ++i)
    if (!bind_index(shape.back[i], type.shape[type.rank() - shape.back.size() + i])) return false;
  if (shape.middle.empty()) return true;
  const auto first = type.shape.begin() + static_cast<std::ptrdiff_t>(shape.front.size());
  return bind(shape.middle, Indices(first, type.shape.end() - static_cast<std::ptrdiff_t>(shape.back.size())));
}

bool Bindings::bind_attributes(const PatternNode& pattern, const Attributes& values, const Inputs& inputs) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Expression& expression = pattern.attributes[i];
    if (mentions_variables(expression)) {
      if (!bind_attribute(expression, values[i])) return false;
    } else if (!(expression.value == values[i])) {
      Attributes written = values;
      written[i] = expression.value;
      try {
        if (!(pattern.op->normalized(std::move(written), inputs).at(i) == values[i])) return false;
      } catch (const Error&) {
        return false;
      }
    }
  }
  return true;
}

bool Bindings::bind_attribute(const Expression& pattern, const AttributeValue& value) {
  if (pattern.kind == Expression::Kind::kVariable) return bind(pattern.name, value);
  if (pattern.kind == Expression::Kind::kCall) {
    kept_calls_.push_back({pattern, value});
    return true;
  }
  if (pattern.value.index() != value.index()) return false;
  if (const auto* index = std::get_if<Index>(&pattern.value)) return bind_index(*index, std::get<Index>(value));
  if (const auto* indices = std::get_if<Indices>(&pattern.value)) {
    const Indices& others = std::get<Indices>(value);
    if (indices->size() != others.size()) return false;
    for (std::size_t i = 0; i < indices->size(); ++i)
      if (!bind_index((*indices)[i], others[i])) return false;
    return true;
  }
  if (const auto* real = std::get_if<Real>(&pattern.value); real && !real->symbol.empty()) return bind(real->symbol, value);
  return pattern.value == value;
}

bool Bindings::bind_index(const Index& pattern, const Index& value) {
  if (pattern.is_constant()) return pattern == value;
  if (const Atom* atom = pattern.as_atom(); atom && atom->kind == Atom::Kind::kSymbol) return bind(atom->name, value);
  if (const auto known = try_evaluate(pattern)) return *known == value;
  kept_.push_back({pattern, value});
  return true;
}

// Solves pattern = value, if the pattern is linear with known integer coefficients in the single unbound variable.
bool Bindings::solve(const Index& pattern, const Index& value, bool& progress) {
  std::string unknown;
  bool several = false;
  for_each_atom(pattern, [&](const Atom& atom) {
    if (atom.kind != Atom::Kind::kSymbol || values_.count(atom.name)) return;
    several |= !unknown.empty() && unknown != atom.name;
    unknown = atom.name;
  });
  if (several || unknown.empty()) return true;
  const auto at = [&](std::int64_t x) -> std::optional<Index> {
    Bindings trial = *this;
    trial.values_[unknown] = Index(x);
    return trial.try_evaluate(pattern);
  };
  const auto zero = at(0), one = at(1), two = at(2);
  if (!zero || !one || !two) return true;
  const auto slope = (*one - *zero).constant();
  const auto rest = (value - *zero).constant();
  if (!slope || !rest || *slope == 0 || !(*two - *one == Index(*slope))) return true;
  bool polynomial = true;  // false: it is hidden in a division or a minimum
  for_each_atom(pattern, [&](const Atom& atom) { polynomial &= atom.kind == Atom::Kind::kSymbol; });
  if (!polynomial) return true;
  if (*rest % *slope != 0) return false;
  progress = true;
  return bind(unknown, Index(*rest / *slope));
}

// Solves join(a, b, ...) = value, if the length of all lists but one is known: each is a slice of the value.
bool Bindings::split_join(const Expression& join, const AttributeValue& value, bool& progress) {
  const Indices* whole = std::get_if<Indices>(&value);
  if (join.name != "join" || !whole) return true;
  std::vector<std::optional<std::size_t>> lengths;
  std::size_t known = 0, unknown = 0;
  for (const Expression& argument : join.arguments) {
    lengths.emplace_back();
    if (argument.kind == Expression::Kind::kValue) {
      if (const auto* list = std::get_if<Indices>(&argument.value)) lengths.back() = list->size();
    } else if (const auto list = try_evaluate(argument)) {
      if (const auto* indices = std::get_if<Indices>(&*list)) lengths.back() = indices->size();
    }
    known += lengths.back().value_or(0);
    unknown += lengths.back() ? 0 : 1;
  }
  if (unknown > 1) return true;
  if (known > whole->size() || (unknown == 0 && known != whole->size())) return false;
  progress = true;
  auto begin = whole->begin();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto end = begin + static_cast<std::ptrdiff_t>(lengths[i].value_or(whole->size() - known));
    if (!bind_attribute(join.arguments[i], Indices(begin, end))) return false;
    begin = end;
  }
  return true;
}

bool Bindings::settle() {
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t i = 0; i < kept_.size();) {
      if (const auto known = try_evaluate(kept_[i].pattern)) {
        if (!(*known == kept_[i].value)) return false;
        kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
        progress = true;
      } else if (const Kept kept = kept_[i]; !solve(kept.pattern, kept.value, progress)) {
        return false;
      } else {
        ++i;
      }
    }
    for (std::size_t i = 0; i < kept_calls_.size();) {
      if (const auto known = try_evaluate(kept_calls_[i].pattern)) {
        if (!(*known == kept_calls_[i].value)) return false;
        kept_calls_.erase(kept_calls_.begin() + static_cast<std::ptrdiff_t>(i));
        progress = true;
        continue;
      }
      bool split = false;
      const KeptCall kept = kept_calls_[i];
      if (!split_join(kept.pattern, kept.value, split)) return false;
      if (split) {
        kept_calls_.erase(kept_calls_.begin() + static_cast<std::ptrdiff_t>(i));
        progress = true;
      } else {
        ++i;
      }
    }
  }
  return true;
}

bool Bindings::complete() {
  if (!settle()) return false;
  for (const Quantity& q : rule_->quantities) {
    const auto value = try_evaluate(q.value);
    if (!value || !bind(q.name, *value) || !settle()) return false;
  }
  if (!kept_.empty() || !kept_calls_.empty()) return false;
  for (const Condition& c : rule_->conditions) {
    const auto left = try_evaluate(c.left), right = try_evaluate(c.right);
    if (!left || !right || Condition{*left, c.relation, *right}.decided() != true) return false;
  }
  return std::all_of(rule_->predicates.begin(), rule_->predicates.end(), [&](const Predicate& p) { return holds(p); });
}

bool Bindings::holds(const Predicate& predicate) const {
  std::vector<AttributeValue> values;
  for (const Expression& e : predicate.arguments) {
    auto value = try_evaluate(e);
    if (!value) return false;
    values.push_back(std::move(*value));
  }
  switch (predicate.kind) {
    case Predicate::Kind::kEqual:
      return values[0] == values[1];
    case Predicate::Kind::kNotEqual: {
      // Symbolic sizes with different expressions may still be equal.
      if (const auto* a = std::get_if<Index>(&values[0]))
        if (const auto* b = std::get_if<Index>(&values[1])) return not_equal(*a, *b).decided() == true;
      if (const auto* a = std::get_if<Indices>(&values[0]))
        if (const auto* b = std::get_if<Indices>(&values[1])) {
          if (a->size() != b->size()) return true;
          for (std::size_t i = 0; i < a->size(); ++i)
            if (not_equal((*a)[i], (*b)[i]).decided() == true) return true;
          return false;
        }
      return !(values[0] == values[1]);
    }
    case Predicate::Kind::kPermutation: {
      const auto* p = std::get_if<Indices>(&values[0]);
      return p && inverse(*p).has_value();
    }
    case Predicate::Kind::kPositive:
    case Predicate::Kind::kNonNegative: {
      const Index bound = predicate.kind == Predicate::Kind::kPositive ? 1 : 0;
      if (const auto* real = std::get_if<Real>(&values[0]))
        return real->symbol.empty() && (bound == Index(1) ? real->value > 0 : real->value >= 0);
      const auto* list = std::get_if<Indices>(&values[0]);
      return list &&
             std::all_of(list->begin(), list->end(), [&](const Index& i) { return less_equal(bound, i).decided() == true; });
    }
  }
  return false;
}

// ---- Evaluation

std::optional<Index> Bindings::try_evaluate(const Index& expression) const {
  if (expression.is_constant()) return expression;
  bool bound = true;
  for_each_atom(expression, [&](const Atom& atom) {
    if (atom.kind != Atom::Kind::kSymbol) return;
    const auto found = values_.find(atom.name);
    bound &= found != values_.end() && as_index(&found->second);
  });
  if (!bound) return std::nullopt;
  try {
    return substitute(expression, [&](const Atom& atom) -> std::optional<Index> {
      if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
      return *as_index(&values_.find(atom.name)->second);
    });
  } catch (const Error&) {  // a division by zero, or an overflow
    return std::nullopt;
  }
}

std::optional<AttributeValue> Bindings::try_evaluate(const Expression& e) const {
  if (e.kind == Expression::Kind::kVariable) {
    const auto found = values_.find(e.name);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  if (e.kind == Expression::Kind::kCall) return call(e);
  if (const auto* index = std::get_if<Index>(&e.value)) {
    auto value = try_evaluate(*index);
    return value ? std::optional<AttributeValue>(std::move(*value)) : std::nullopt;
  }
  if (const auto* indices = std::get_if<Indices>(&e.value)) {
    Indices result;
    for (const Index& i : *indices) {
      auto value = try_evaluate(i);
      if (!value) return std::nullopt;
      result.push_back(std::move(*value));
    }
    return AttributeValue(std::move(result));
  }
  if (const auto* real = std::get_if<Real>(&e.value); real && !real->symbol.empty()) {
    const auto found = values_.find(real->symbol);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  return e.value;
}

std::optional<AttributeValue> Bindings::call(const Expression& e) const {
  const RuleFunction* f = find_rule_function(e.name);
  if (!f || f->arguments.size() != e.arguments.size()) return std::nullopt;
  RuleArguments arguments;
  std::vector<AttributeValue> values(e.arguments.size());
  for (std::size_t i = 0; i < e.arguments.size(); ++i) {
    if (f->arguments[i] == 'x') {
      const auto number = input_number(e.arguments[i].name);
      if (!number || *number >= inputs_.size() || !inputs_[*number]) return std::nullopt;
      arguments.input = &*inputs_[*number];
      continue;
    }
    auto value = try_evaluate(e.arguments[i]);
    if (!value) return std::nullopt;
    values[i] = std::move(*value);
    if (f->arguments[i] == 'l' && std::holds_alternative<Indices>(values[i]))
      arguments.lists.push_back(&std::get<Indices>(values[i]));
    else if (f->arguments[i] == 'i' && std::holds_alternative<Index>(values[i]))
      arguments.indices.push_back(std::get<Index>(values[i]));
    else if (f->arguments[i] == 'r' && std::holds_alternative<Real>(values[i]))
      arguments.reals.push_back(std::get<Real>(values[i]));
    else
      return std::nullopt;
  }
  return value_of(*f, arguments);
}

AttributeValue Bindings::evaluate(const Expression& expression) const {
  if (auto value = try_evaluate(expression)) return std::move(*value);
  throw Error(ErrorCode::kBadInput, "an attribute of the rule has no value here", "rule " + rule_->name);
}

Index Bindings::evaluate(const Index& expression) const {
  if (auto value = try_evaluate(expression)) return std::move(*value);
  throw Error(ErrorCode::kBadInput, "\"" + expression.to_string() + "\" has no value here", "rule " + rule_->name);
}

}  // namespace rewright::rules
