#include "verifier/cases.h"

#include <algorithm>
#include <numeric>

#include "operators/error.h"

namespace rewright::proof {

namespace {

// Whether an expression without a value has none for any value of what is symbolic in it.
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

std::string element_name(const std::string& list, std::size_t i) { return list + "_" + std::to_string(i); }

// A symbol that an equation determines.
std::optional<Index> isolated(const Index& polynomial) {
  if (polynomial.is_constant()) return std::nullopt;
  for (const Monomial& m : polynomial.polynomial()->monomials) {
    if (m.factors.size() != 1 || m.factors[0]->kind != Atom::Kind::kSymbol) continue;
    const Index variable = Index::atom(m.factors[0]);
    if (unit_coefficient(polynomial, variable) != 0) return variable;
  }
  return std::nullopt;
}

// Whether the other side of an equation may be a size that broadcasts against this one.
bool may_be_a_size(const Index& index) { return !index.is_constant() || index.value() > 1; }

Indices symbols(const std::string& list, std::size_t length) {
  Indices result;
  for (std::size_t i = 0; i < length; ++i) result.push_back(Index::symbol(element_name(list, i)));
  return result;
}

constexpr std::size_t kMaximumLength = 5;  // of a list whose length no shape gives

}  // namespace

std::string SymbolicCase::to_string() const {
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    text += (i ? ", " : "") + bindings.rule().inputs[i].name + " = " + rewright::to_string(inputs[i]);
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
    // One type of each kind that definitions tell apart.
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
      return choose_values(std::move(state), next + 1);  // known from the shapes, or found by resolve()
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

// ---- Lists: lengths from the definitions, elements where the definitions must know them

bool CaseEnumerator::resolve(const State& state) {
  std::vector<TensorType> types;
  const auto bindings = bind(state, types);
  if (!bindings) return true;
  // Definitions are asked node by node: what is wrong already cannot become right.
  Rule prefix = rule_;
  for (std::size_t n = 0; n < rule_.source.nodes.size(); ++n) {
    const PatternNode& node = rule_.source.nodes[n];
    std::vector<std::string> unknown;
    const std::function<void(const Expression&)> collect = [&](const Expression& e) {
      if (e.kind == Expression::Kind::kVariable && variables_.count(e.name) && variables_.at(e.name) == Sort::kList &&
          !state.values.count(e.name))
        unknown.push_back(e.name);
      for (const Expression& a : e.arguments) collect(a);
    };
    for (const Expression& e : node.attributes) collect(e);
    prefix.source.nodes.assign(rule_.source.nodes.begin(), rule_.source.nodes.begin() + static_cast<std::ptrdiff_t>(n + 1));
    prefix.source.outputs.clear();
    std::size_t rank = 0;
    try {
      SideConditions conditions;
      Rule before = prefix;
      before.source.nodes.pop_back();
      const DefinedSide defined = define_side(before, before.source, types, *bindings, false, conditions);
      for (const PatternValue& v : node.inputs)
        if (v.kind != PatternValue::Kind::kAbsent) rank = std::max(rank, type_of(defined, v).rank());
      if (!conditions.reachable) return true;
      if (!unknown.empty()) {
        for (std::size_t length = 0; length <= kMaximumLength; ++length) {
          State branch = state;
          branch.values[unknown[0]] = symbols(unknown[0], length);
          if (accepts(branch, node, defined) && !resolve(branch)) return false;
        }
        return true;
      }
      SideConditions all;
      define_side(prefix, prefix.source, types, *bindings, false, all);
      if (!all.reachable) return true;
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kBadInput) return true;
      return enumerate_known(state, node, rank, e.what());
    }
  }
  return settle(state);
}

// Whether a node can have its lists' lengths: those that are not known yet are left to normalization.
bool CaseEnumerator::accepts(const State& state, const PatternNode& node, const DefinedSide& before) const {
  std::vector<TensorType> types;
  const auto bindings = bind(state, types);
  if (!bindings) return false;
  std::vector<std::optional<TensorType>> operands;
  for (const PatternValue& v : node.inputs)
    operands.push_back(v.kind == PatternValue::Kind::kAbsent ? std::nullopt : std::optional(type_of(before, v)));
  const Inputs in = Inputs::of(std::span<const std::optional<TensorType>>(operands)).types_only();
  try {
    Attributes attributes;
    for (std::size_t f = 0; f < node.attributes.size(); ++f) {
      const auto value = bindings->try_evaluate(node.attributes[f]);
      attributes.push_back(value ? *value : node.op->fields()[f].default_value);
    }
    node.op->define(node.op->normalized(std::move(attributes), in), in);
  } catch (const Error& e) {
    return e.code() != ErrorCode::kBadInput;
  }
  return true;
}

// A definition must know the value of an index: it is an axis, and all axes are tried. Of a list of axes every one that does
// not say an axis twice.
bool CaseEnumerator::enumerate_known(const State& state, const PatternNode& node, std::size_t rank,
                                     const std::string& message) {
  const auto asked_for = [&](const Index& index) {
    return !index.is_constant() && message.find("the size " + index.to_string() + " is not known") != std::string::npos;
  };
  // What the rule's conditions determine need not be tried.
  std::vector<TensorType> types;
  if (const auto bindings = bind(state, types)) {
    Guards conditions;
    if (!gather(*bindings, conditions, true)) return true;
    for (const Guard& g : conditions) {
      const auto variable = g.kind == Guard::Kind::kZero ? isolated(g.value) : std::nullopt;
      if (!variable || !asked_for(*variable)) continue;
      State branch = state;
      substitute_solved(branch, *variable, solved_for(g.value, *variable));
      return resolve(branch);
    }
  }
  for (const auto& [name, value] : state.values) {
    if (shape_lists_.count(name)) continue;
    if (const auto* index = std::get_if<Index>(&value); index && index->as_atom() && asked_for(*index)) {
      for (std::size_t axis = 0; axis <= rank; ++axis) {
        State branch = state;
        substitute_solved(branch, *index, axis);
        if (!resolve(branch)) return false;
      }
      // Others must be refused, or they would be cases too.
      for (const Index& beyond : {Index(rank + 1), Index(rank + 2), Index(1000)}) {
        State branch = state;
        substitute_solved(branch, *index, beyond);
        std::size_t reached = 0;
        const std::function<bool(const SymbolicCase&)> count = [&](const SymbolicCase&) {
          ++reached;
          return false;
        };
        const auto* visit = visit_;
        visit_ = &count;
        resolve(branch);
        visit_ = visit;
        if (reached > 0) throw Error(ErrorCode::kUnsupported, name + " must be known, and may be any number");
      }
      return true;
    }
    const auto* list = std::get_if<Indices>(&value);
    if (!list || std::none_of(list->begin(), list->end(), asked_for)) continue;
    // One element after the other; the definition refuses what is no axis of the result, where axes are added.
    const Index element = *std::find_if(list->begin(), list->end(), asked_for);
    for (std::size_t axis = 0; axis < rank + list->size(); ++axis) {
      if (std::find(list->begin(), list->end(), Index(axis)) != list->end()) continue;
      State branch = state;
      substitute_solved(branch, element, axis);
      if (!resolve(branch)) return false;
    }
    return true;
  }
  throw Error(ErrorCode::kUnsupported, node.op->name() + ": " + message);
}

// ---- Cases with all lists known

void CaseEnumerator::substitute_solved(State& state, const Index& variable, const Index& value) {
  if (variable.is_constant()) return;
  const Replacements step{{variable, value}};
  for (auto& [name, v] : state.values) {
    if (auto* index = std::get_if<Index>(&v)) *index = replaced(*index, step);
    if (auto* list = std::get_if<Indices>(&v)) *list = replaced(*list, step);
  }
  state.given = replaced(state.given, step);
  state.covered = replaced(state.covered, step);
  for (auto& [symbol, known] : state.solved) known = replaced(known, step);
  state.solved.emplace_back(variable, value);
}

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

// The bindings of a case, or nothing if no values are possible. Quantities that need unknown lists are left out.
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

// The rule's conditions. False: they never hold.
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
        if (!list) {  // reals that are unknown may be equal or not: nothing is assumed
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

// Equations are used up: a symbol gets its value, so that definitions see what is equal, 0 or 1.
bool CaseEnumerator::settle(State state) {
  for (;;) {
    std::vector<TensorType> types;
    const auto bindings = bind(state, types);
    if (!bindings) return true;
    SideConditions conditions;
    DefinedSide source;
    try {
      source = define_side(rule_, rule_.source, types, *bindings, false, conditions);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kBadInput) return true;
      throw;
    }
    if (!conditions.reachable) return true;
    Guards hypotheses = state.given;
    if (!gather(*bindings, hypotheses)) return true;
    const auto not_empty = [&](const TensorType& type) {
      for (const Index& size : type.shape) hypotheses.push_back(at_least(size, 1));
    };
    for (const TensorType& type : types) not_empty(type);
    for (const auto& outputs : source.nodes)
      for (const Output& o : outputs) not_empty(o.type);
    std::erase_if(hypotheses, [](const Guard& g) { return g.decided() == true; });

    const std::size_t without_typing = hypotheses.size();
    for (const Condition& c : conditions.typing)
      if (const Guard g = guard(c); g.decided() != true) hypotheses.push_back(g);
    for (std::size_t i = 0; i < hypotheses.size(); ++i)
      if (hypotheses[i].decided() == false && (i < without_typing || hypotheses[i].kind != Guard::Kind::kZero)) return true;

    for (const Guard& covered : state.covered)
      if (solver_.proves_quickly(hypotheses, covered)) return true;

    const Condition* broadcast = nullptr;
    for (const Condition& c : conditions.typing)
      if (c.relation == Condition::Relation::kEqual && may_be_a_size(c.left) && may_be_a_size(c.right) && c.decided() != true &&
          !state.settled.count(c.to_string())) {
        broadcast = &c;
        break;
      }
    if (broadcast) {
      state.settled.insert(broadcast->to_string());
      Guards others;
      for (const Guard& g : hypotheses)
        if (!(g == guard(*broadcast))) others.push_back(g);
      if (!solver_.proves_quickly(others, guard(*broadcast)) && !split_broadcast(state, *broadcast, others)) return false;
      if (broadcast->decided() == false) return true;
    }

    bool solved = false;
    for (const Guard& g : hypotheses) {
      if (g.kind != Guard::Kind::kZero) continue;
      if (g.decided() == false) return true;
      const auto variable = isolated(g.value);
      if (!variable) continue;
      substitute_solved(state, *variable, solved_for(g.value, *variable));
      solved = true;
      break;
    }
    if (solved || broadcast) continue;

    const Answer contradictory = solver_.contradictory(hypotheses);
    if (contradictory == Answer::kProved) return true;
    SideConditions again;
    SymbolicCase result{types, *bindings, define_side(rule_, rule_.source, types, *bindings, true, again),
                        std::move(hypotheses), contradictory == Answer::kRefuted};
    return (*visit_)(result);
  }
}

// a == b was required where a or b is not known to be 1. If it came from broadcasting, one of them is 1 in another case.
bool CaseEnumerator::split_broadcast(const State& state, const Condition& equation, const Guards& hypotheses) {
  for (const bool left : {true, false}) {
    const Index &one = left ? equation.left : equation.right, &other = left ? equation.right : equation.left;
    if (one.is_constant()) continue;
    State branch = state;
    branch.covered.push_back(zero(other - 1));
    if (const auto variable = isolated(one - 1)) {
      substitute_solved(branch, *variable, solved_for(one - 1, *variable));
    } else if (const auto factors = factors_of_one(one, hypotheses)) {
      for (const Index& f : *factors) substitute_solved(branch, f, 1);
    } else {
      Guards open = hypotheses;
      open.push_back(zero(one - 1));
      open.push_back(non_zero(other - 1));
      if (solver_.contradictory(open) == Answer::kProved) continue;
      throw Error(ErrorCode::kUnsupported, "whether " + one.to_string() + " is 1 cannot be made a case of its own");
    }
    if (!settle(std::move(branch))) return false;
  }
  return true;
}

// A product of positive symbols is 1 only if all of them are.
std::optional<Indices> CaseEnumerator::factors_of_one(const Index& product, const Guards& hypotheses) {
  if (product.constant_term() != 0 || product.polynomial()->monomials.size() != 1 ||
      product.polynomial()->monomials[0].coefficient != 1)
    return std::nullopt;
  Indices factors;
  for (const AtomPointer& f : product.polynomial()->monomials[0].factors) {
    const Index factor = Index::atom(f);
    if (f->kind != Atom::Kind::kSymbol || !solver_.proves(hypotheses, at_least(factor, 1))) return std::nullopt;
    if (std::find(factors.begin(), factors.end(), factor) == factors.end()) factors.push_back(factor);
  }
  return factors;
}

}  // namespace rewright::proof
