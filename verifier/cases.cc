#include "verifier/cases.h"

#include <algorithm>

#include "base/error.h"

namespace rewright::proof {

std::string SymbolicCase::to_string() const {
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    text += (i ? ", " : "") + bindings.rule().inputs[i].name + " = " + operators::to_string(inputs[i]);
  for (const auto& [name, value] : bindings.values()) text += ", " + name + " = " + rewright::to_string(value);
  return text;
}

// ---- Variables

void CaseEnumerator::collect_variables() {
  variables_.clear();
  const auto index = [&](const Index& i) {
    if (!i.is_constant())
      for_each_atom(i, [&](const Atom& a) {
        if (a.kind == Atom::Kind::kSymbol) variables_.try_emplace(a.name, Sort::kIndex);
      });
  };
  for (const PatternInput& input : rule_.inputs) {
    for (const Index& i : input.shape.front) index(i);
    for (const Index& i : input.shape.back) index(i);
    if (!input.shape.middle.empty())
      variables_.try_emplace(input.shape.middle, Sort::kList), shape_lists_.insert(input.shape.middle);
    // One type of each kind that definitions distinguish.
    std::vector<DataType> types;
    if (input.type.kind == TypePattern::Kind::kReal) types = {DataType::kDouble};
    if (input.type.kind == TypePattern::Kind::kInteger) types = {DataType::kInt64, DataType::kUint8};
    if (input.type.kind == TypePattern::Kind::kAny)
      types = {DataType::kDouble, DataType::kInt64, DataType::kUint8, DataType::kBool};
    if (input.type.kind == TypePattern::Kind::kFixed) types = {input.type.fixed};
    const std::string name = input.type.variable.empty() ? "type of " + input.name : input.type.variable;
    if (!input.type.variable.empty()) variables_.try_emplace(name, Sort::kType);
    const auto [found, inserted] = types_.try_emplace(name, types);
    if (!inserted)
      std::erase_if(found->second, [&](DataType t) { return std::find(types.begin(), types.end(), t) == types.end(); });
  }
  const std::function<void(const Expression&, const AttributeValue&)> expression = [&](const Expression& e,
                                                                                       const AttributeValue& field) {
    if (e.kind == Expression::Kind::kCall) {
      const RuleFunction* f = find_rule_function(e.name);
      for (std::size_t i = 0; i < e.arguments.size(); ++i)
        if (f->arguments[i] != 'x')
          expression(e.arguments[i], f->arguments[i] == 'i'   ? AttributeValue(Index(0))
                                     : f->arguments[i] == 'l' ? AttributeValue(Indices{})
                                                              : AttributeValue(Real(0)));
    } else if (e.kind == Expression::Kind::kVariable) {
      variables_.try_emplace(e.name, std::holds_alternative<Indices>(field)       ? Sort::kList
                                     : std::holds_alternative<bool>(field)        ? Sort::kBool
                                     : std::holds_alternative<std::string>(field) ? Sort::kText
                                                                                  : Sort::kType);
    } else if (const auto* i = std::get_if<Index>(&e.value)) {
      index(*i);
    } else if (const auto* list = std::get_if<Indices>(&e.value)) {
      for (const Index& entry : *list) index(entry);
    } else if (const auto* real = std::get_if<Real>(&e.value); real && !real->symbol.empty()) {
      variables_.try_emplace(real->symbol, Sort::kReal);
    }
  };
  for (const PatternNode& node : rule_.source.nodes)
    for (std::size_t i = 0; i < node.attributes.size(); ++i) expression(node.attributes[i], node.op->fields()[i].default_value);
  for (const Quantity& q : rule_.quantities) variables_.erase(q.name);
}

std::size_t CaseEnumerator::largest_rank(std::size_t limit) const {
  std::size_t largest = 0;
  bool open = false;
  for (const PatternInput& input : rule_.inputs) {
    open |= input.shape.open;
    largest = std::max(largest, input.shape.front.size() + input.shape.back.size());
  }
  return open ? std::max(largest, limit) : largest;
}

// ---- Ranks, then values that are enumerated from the start

bool CaseEnumerator::for_each(std::size_t rank, const std::function<bool(const SymbolicCase&)>& visit) {
  collect_variables();
  visit_ = &visit;
  return choose_ranks(rank, 0, State{});
}

bool CaseEnumerator::choose_ranks(std::size_t rank, std::size_t next, State state) {
  if (next == rule_.inputs.size()) {
    std::size_t largest = 0;
    for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
      const ShapePattern& s = rule_.inputs[i].shape;
      largest = std::max(largest, s.front.size() + s.back.size() + state.open[i]);
    }
    return largest != rank || choose_values(std::move(state), 0);
  }
  const ShapePattern& shape = rule_.inputs[next].shape;
  const std::size_t ends = shape.front.size() + shape.back.size();
  if (ends > rank) return true;
  const auto choose = [&](std::size_t length) {
    State branch = state;
    branch.open.push_back(length);
    if (shape.open && !shape.middle.empty()) {
      branch.values[shape.middle] = symbols(shape.middle, length);
    }
    return choose_ranks(rank, next + 1, std::move(branch));
  };
  if (!shape.open) return choose(0);
  if (!shape.middle.empty())
    if (const auto known = state.values.find(shape.middle); known != state.values.end()) {
      const std::size_t length = std::get<Indices>(known->second).size();
      return ends + length > rank || choose(length);
    }
  for (std::size_t length = 0; ends + length <= rank; ++length)
    if (!choose(length)) return false;
  return true;
}

bool CaseEnumerator::choose_values(State state, std::size_t next) {
  std::vector<std::string> names;
  for (const auto& [name, sort] : variables_) names.push_back(name);
  for (const auto& [name, types] : types_)
    if (!variables_.count(name)) names.push_back(name);
  if (next == names.size()) return resolve(state);
  const std::string& name = names[next];
  const auto choose = [&](AttributeValue value) {
    State branch = state;
    branch.values[name] = std::move(value);
    return choose_values(std::move(branch), next + 1);
  };
  if (const auto types = types_.find(name); types != types_.end()) {
    for (const DataType type : types->second)
      if (!choose(type)) return false;
    return true;
  }
  switch (variables_.at(name)) {
    case Sort::kIndex:
      return choose(Index::symbol(name));
    case Sort::kReal:
      return choose(Real::unknown(name));
    case Sort::kBool:
      return choose(false) && choose(true);
    case Sort::kList:
      return choose_values(std::move(state), next + 1);  // follows from shapes, or is found by resolve()
    case Sort::kText:
      for (const Predicate& p : rule_.predicates)
        if (p.kind == Predicate::Kind::kEqual)
          for (const int side : {0, 1})
            if (p.arguments[static_cast<std::size_t>(side)] == Expression::variable(name) &&
                p.arguments[static_cast<std::size_t>(1 - side)].kind == Expression::Kind::kValue)
              return choose(p.arguments[static_cast<std::size_t>(1 - side)].value);
      throw Error(ErrorCode::kUnsupported, "the text " + name + " may be anything");
    case Sort::kType:
      throw Error(ErrorCode::kUnsupported, "the type " + name + " may be any");
  }
  return true;
}

Indices CaseEnumerator::symbols(const std::string& list, std::size_t length) {
  Indices result;
  for (std::size_t i = 0; i < length; ++i) result.push_back(Index::symbol(list + "_" + std::to_string(i)));
  return result;
}

}  // namespace rewright::proof
