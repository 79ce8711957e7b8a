// The sizes of a case: every comparison that definitions decide by is enumerated both as true and as false.
#include <algorithm>

#include "base/error.h"
#include "verifier/cases.h"

namespace rewright::proof {

namespace {

// Could this side of an equation be a size that broadcasts?
bool may_be_a_size(const Index& index) { return !index.is_constant() || index.value() > 1; }

}  // namespace

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

// Solves equations: symbols get values, so that definitions see which sizes are equal, 0 or 1.
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

    // Equations that may come from broadcasting. Until one is settled, proofs must not use it.
    std::vector<const Condition*> open;
    for (const Condition& c : conditions.typing)
      if (c.relation == Condition::Relation::kEqual && may_be_a_size(c.left) && may_be_a_size(c.right) && c.decided() != true &&
          !state.settled.count(c.to_string()))
        open.push_back(&c);
    Guards sure;
    for (const Guard& g : hypotheses)
      if (std::none_of(open.begin(), open.end(), [&](const Condition* c) { return g == guard(*c); })) sure.push_back(g);

    for (const Guard& covered : state.covered)
      if (solver_.proves_quickly(sure, covered)) return true;

    const Condition* broadcast = open.empty() ? nullptr : open.front();
    if (broadcast) {
      state.settled.insert(broadcast->to_string());
      if (!solver_.proves_quickly(sure, guard(*broadcast)) && !split_broadcast(state, *broadcast, sure, source, *bindings))
        return false;
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
    if (!split_special(state, types, *bindings, hypotheses)) return false;
    const Answer contradictory = solver_.contradictory(hypotheses);
    if (contradictory == Answer::kProved) return true;
    SideConditions again;
    SymbolicCase result{types, *bindings, define_side(rule_, rule_.source, types, *bindings, true, again),
                        std::move(hypotheses), contradictory == Answer::kRefuted};
    return (*visit_)(result);
  }
}

// a == b was required where neither is known to be 1. If it came from broadcasting, one of them is 1 in another case.
bool CaseEnumerator::split_broadcast(const State& state, const Condition& equation, const Guards& hypotheses,
                                     const DefinedSide& source, const Bindings& bindings) {
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
      if (solver_.contradictory(open) == Answer::kProved || demands_one(one, other, source, bindings)) continue;
      throw Error(ErrorCode::kUnsupported, "whether " + one.to_string() + " is 1 cannot be made a case of its own");
    }
    if (!settle(std::move(branch))) return false;
  }
  return true;
}

// Is the source ill-typed where this size is 1 and the other is not? Then an operator requires the other one to be 1 even if it
// sees the number 1 (Concat does), and the equation does not come from broadcasting.
bool CaseEnumerator::demands_one(const Index& one, const Index& other, const DefinedSide& source,
                                 const Bindings& bindings) const {
  for (const PatternNode& node : rule_.source.nodes) {
    bool seen = false;
    std::vector<std::optional<TensorType>> operands;
    for (const PatternValue& v : node.inputs) {
      operands.push_back(v.kind == PatternValue::Kind::kAbsent ? std::nullopt : std::optional(type_of(source, v)));
      if (!operands.back()) continue;
      for (Index& size : operands.back()->shape)
        if (size == one) size = 1, seen = true;
    }
    if (!seen) continue;
    try {
      const Inputs in = Inputs::of(std::span<const std::optional<TensorType>>(operands)).types_only();
      Attributes written;
      for (const Expression& e : node.attributes) written.push_back(bindings.evaluate(e));
      const Definition definition = node.op->define(node.op->normalized(std::move(written), in), in);
      for (const Requirement& r : definition.requirements()) {
        const Condition& c = r.condition;
        if (c.relation == Condition::Relation::kEqual &&
            ((c.left == other && c.right == Index(1)) || (c.right == other && c.left == Index(1))))
          return true;
      }
    } catch (const Error&) {  // nothing is known about this operator
    }
  }
  return false;
}

// Definitions may distinguish 0 and 1 from other numbers (Squeeze drops axes of size 1), but treat a symbol as another number.
// If a definition gives other shapes for the number, the number gets a case of its own.
bool CaseEnumerator::split_special(State& state, const std::vector<TensorType>& types, const Bindings& bindings,
                                   const Guards& hypotheses) {
  std::vector<Index> symbols;
  const auto collect = [&](const Index& index) {
    if (!index.is_constant())
      for_each_atom(index, [&](const Atom& a) {
        if (a.kind != Atom::Kind::kSymbol) return;
        Index symbol = Index::symbol(a.name);
        if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end()) symbols.push_back(std::move(symbol));
      });
  };
  for (const TensorType& type : types) std::for_each(type.shape.begin(), type.shape.end(), collect);
  for (const auto& [name, value] : bindings.values()) {
    if (const auto* index = std::get_if<Index>(&value)) collect(*index);
    if (const auto* list = std::get_if<Indices>(&value)) std::for_each(list->begin(), list->end(), collect);
  }
  std::optional<Shapes> general[2];
  for (const Pattern* side : {&rule_.source, &rule_.target}) general[side == &rule_.target] = shapes_of(*side, types, bindings);
  for (const Index& symbol : symbols)
    for (const int number : {0, 1}) {
      if (state.settled.count(symbol.to_string() + " is " + std::to_string(number))) continue;
      const Guard other = non_zero(symbol - number);
      if (std::any_of(hypotheses.begin(), hypotheses.end(),
                      [&](const Guard& g) { return g == other || surely_implies(g, at_least(symbol, number + 1)); }))
        continue;
      State special = state;
      substitute_solved(special, symbol, number);
      std::vector<TensorType> special_types;
      const auto special_bindings = bind(special, special_types);
      if (!special_bindings) continue;
      const auto source = shapes_of(rule_.source, special_types, *special_bindings);
      if (!source) continue;  // ill-typed
      const auto target = shapes_of(rule_.target, special_types, *special_bindings);
      const Replacements step{{symbol, number}};
      if (agree(general[0], source, step) && (!general[1] || agree(general[1], target, step))) continue;
      state.settled.insert(symbol.to_string() + " is " + std::to_string(number));
      if (!settle(std::move(special))) return false;
    }
  return true;
}

// The shapes that a side's definitions give, and the attributes they see; nullopt if they refuse.
std::optional<CaseEnumerator::Shapes> CaseEnumerator::shapes_of(const Pattern& side, const std::vector<TensorType>& types,
                                                                const Bindings& bindings) const {
  try {
    SideConditions conditions;
    const DefinedSide defined = define_side(rule_, side, types, bindings, false, conditions);
    if (!conditions.reachable) return std::nullopt;
    Shapes result{std::move(conditions.attributes), {}};
    for (const auto& outputs : defined.nodes)
      for (const Output& o : outputs) result.types.push_back(o.type);
    return result;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Are the shapes of the special case those of the general one with the number inserted?
bool CaseEnumerator::agree(const std::optional<Shapes>& general, const std::optional<Shapes>& special,
                           const Replacements& step) {
  if (!general || !special || general->types.size() != special->types.size()) return false;
  for (std::size_t k = 0; k < general->types.size(); ++k)
    if (replaced(general->types[k].shape, step) != special->types[k].shape) return false;
  for (std::size_t n = 0; n < general->attributes.size(); ++n)
    for (std::size_t f = 0; f < general->attributes[n].size(); ++f) {
      const AttributeValue &a = general->attributes[n][f], &b = special->attributes[n][f];
      if (const auto* index = std::get_if<Index>(&a)) {
        if (!(replaced(*index, step) == std::get<Index>(b))) return false;
      } else if (const auto* list = std::get_if<Indices>(&a)) {
        if (replaced(*list, step) != std::get<Indices>(b)) return false;
      }
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
