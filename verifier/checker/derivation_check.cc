#include "verifier/checker/derivation_check.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace rewright::proof {

namespace {

using Names = std::set<std::string, std::less<>>;
using Numbers = std::set<std::uint64_t>;

// Collects the symbols and bound variables of an expression.
void collect(const Index& index, Names& symbols, Numbers& bound) {
  if (index.is_constant()) return;
  for_each_atom(index, [&](const Atom& a) {
    if (a.kind == Atom::Kind::kSymbol) symbols.insert(a.name);
    if (a.kind == Atom::Kind::kBound) bound.insert(a.id);
  });
}

void collect(const Guard& guard, Names& symbols, Numbers& bound) {
  collect(guard.value, symbols, bound);
  for (const Guard& part : guard.parts) collect(part, symbols, bound);
}

void collect(const Sum& sum, Names& symbols, Numbers& bound) {
  for (const Term& t : sum) {
    for (const Guard& g : t.guards) collect(g, symbols, bound);
    for (const Factor& f : t.factors) {
      for (const Index& p : f.position) collect(p, symbols, bound);
      collect(f.index, symbols, bound);
      for (const Sum& argument : f.arguments) collect(argument, symbols, bound);
      for (const MaximumElement& e : f.elements) {
        for (const Guard& g : e.guards) collect(g, symbols, bound);
        collect(e.value, symbols, bound);
      }
    }
  }
}

void bind(const Indices& variables, Numbers& inside) {
  for (const Index& v : variables) {
    const Atom* atom = v.as_atom();
    require(atom && atom->kind == Atom::Kind::kBound, "a bound variable is expected");
    require(inside.insert(atom->id).second, "a variable is bound twice");
  }
}

// Requires all bound variables to be among these, and names with a '!' to be in scope.
template <class Expression>
void require_known(const Expression& e, const Names& scope, const Numbers& inside) {
  Names symbols;
  Numbers bound;
  collect(e, symbols, bound);
  for (const std::uint64_t id : bound) require(inside.count(id) > 0, "a variable is used outside of its sum");
  for (const std::string& name : symbols)
    require(name.find('!') == std::string::npos || scope.count(name) > 0, "an unknown variable is used");
}

void require_closed(const Sum& sum, const Names& scope, const Numbers& outside) {
  for (const Term& t : sum) {
    Numbers inside = outside;
    bind(t.bound, inside);
    for (const Guard& g : t.guards) require_known(g, scope, inside);
    for (const Factor& f : t.factors) {
      for (const Index& p : f.position) require_known(p, scope, inside);
      require_known(f.index, scope, inside);
      for (const Sum& argument : f.arguments) require_closed(argument, scope, inside);
      for (const MaximumElement& e : f.elements) {
        Numbers in_element = inside;
        bind(e.bound, in_element);
        for (const Guard& g : e.guards) require_known(g, scope, in_element);
        require_closed(e.value, scope, in_element);
      }
    }
  }
}

Guards joined(Guards a, const Guards& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Guards without_trivial(const Guards& guards) {
  Guards result;
  for (const Guard& g : guards)
    if (g.decided() != true && std::find(result.begin(), result.end(), g) == result.end()) result.push_back(g);
  return result;
}

Sum difference(Sum a, const Sum& b) {
  for (const Term& t : b) {
    a.push_back(t);
    a.back().coefficient = -t.coefficient;
  }
  return a;
}

// A class's variables have unique names, by the kind of comparison and its depth.
class InScope {
 public:
  InScope(Names& scope, const Indices& variables, const std::string& prefix) : scope_(scope) {
    for (const Index& v : variables) {
      const Atom* atom = v.as_atom();
      require(atom && atom->kind == Atom::Kind::kSymbol && atom->name.starts_with(prefix), "a variable has a wrong name");
      require(scope_.insert(atom->name).second, "a variable is there twice");
      names_.push_back(atom->name);
    }
  }
  ~InScope() {
    for (const std::string& name : names_) scope_.erase(name);
  }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Names& scope_;
  std::vector<std::string> names_;
};

}  // namespace

DerivationCheck::DerivationCheck(Questions& questions, std::size_t rank, const Contents& contents)
    : recorded_(questions.recorded()), own_(questions.own()) {
  for (std::size_t n = 0; n < rank; ++n) scope_.insert("o!" + std::to_string(n));
  for (const Content& c : contents) {
    require_closed(c.value, scope_, {});
    if (c.size) require_known(*c.size, scope_, {});
    require(c.name.starts_with(kContent) && scope_.insert(c.name).second, "a content has another one's name");
  }
}

void DerivationCheck::difference_is_zero(const Sum& a, const Sum& b, const Guards& assumptions, const Derivation& derivation) {
  for (const Sum* sum : {&a, &b}) require_closed(*sum, scope_, {});
  zero(difference(a, b), assumptions, derivation, 0);
}

// A term expressed in the variables of its class.
struct DerivationCheck::Image {
  std::vector<Factor> factors;     // in the member's order, without indices
  Index value = 1, divisor = 1;    // the factors that are indices
  Rational before = 1, after = 1;  // the coefficient without, and with, the constant parts of indices
};

void DerivationCheck::implied(const Guards& assumptions, const Guard& goal) {
  require(goal.decided() == true || own_.proves(assumptions, goal), "a step does not follow");
}

void DerivationCheck::same(const Index& a, const Index& b, const Guards& assumptions) {
  require(a == b || recorded_.proves(assumptions, proof::zero(a - b)), "positions are not equal");
}

void DerivationCheck::vanishes(const Term& term, const Guards& assumptions) {
  require(term.coefficient.is_zero() || own_.contradictory(joined(assumptions, term.guards)) == Answer::kProved,
          "a term that was left out does not vanish");
}

DerivationCheck::Image DerivationCheck::image(const Term& term, const Member& member, const MemberClass& c,
                                              const Guards& assumptions, bool bijective) {
  const Indices variables = [&] {
    Indices all = c.variables;
    all.insert(all.end(), member.quantified.begin(), member.quantified.end());
    return all;
  }();
  require(member.values.size() == term.bound.size() && member.inverse.size() == variables.size(),
          "a renaming has a wrong number of variables");
  Replacements there, back;
  for (std::size_t i = 0; i < term.bound.size(); ++i) {
    require_known(member.values[i], scope_, {});
    there.emplace_back(term.bound[i], member.values[i]);
  }
  for (const Guard& g : member.guards) require_known(g, scope_, {});
  for (std::size_t i = 0; i < variables.size(); ++i) {
    for (const Index& v : variables) require(!occurs(v, member.inverse[i]), "a step defines a variable by itself");
    back.emplace_back(variables[i], member.inverse[i]);
    require(!bijective || replaced(member.inverse[i], there) == variables[i], "a renaming is not one to one");
  }
  const Guards known = joined(assumptions, term.guards);
  for (std::size_t i = 0; i < term.bound.size(); ++i)
    implied(known, proof::zero(term.bound[i] - replaced(member.values[i], back)));
  // The stated guards must be those of the term.
  const Guards guards = without_trivial(replaced(term.guards, there));
  if (!same_guards(guards, member.guards)) {
    for (const Guard& g : member.guards) implied(joined(assumptions, guards), g);
    for (const Guard& g : guards) implied(joined(assumptions, member.guards), g);
  }
  Image result;
  result.before = term.coefficient, result.after = member.coefficient;
  std::vector<Factor> others;
  for (const Factor& f : replaced(term, there).factors)
    if (f.kind == Factor::Kind::kIndex)
      result.value *= f.index;
    else if (f.kind == Factor::Kind::kReciprocalIndex)
      result.divisor *= f.index;
    else
      others.push_back(f);
  require(member.order.size() == others.size(), "a term has another number of factors");
  std::set<std::size_t> seen;
  for (const std::size_t i : member.order) {
    require(i < others.size() && seen.insert(i).second, "a factor is not there once");
    result.factors.push_back(others[i]);
  }
  return result;
}

void DerivationCheck::equal(const Image& a, const Image& b, const Member& member, const Guards& assumptions, int depth) {
  require(a.factors.size() == b.factors.size(), "products have different numbers of factors");
  std::size_t next = 0;
  for (std::size_t i = 0; i < a.factors.size(); ++i) equal(a.factors[i], b.factors[i], assumptions, member.parts, next, depth);
  require(next == member.parts.size(), "a part of a proof is about nothing");
  // before * value / divisor = after * unit, with the same unit for both.
  require(!b.before.is_zero() && !a.after.is_zero() && !b.after.is_zero(), "a coefficient is 0");
  const Rational ratio = (a.before * a.after.reciprocal()) * (b.after * b.before.reciprocal());
  const bool same_divisor = a.divisor == b.divisor;
  const Index left = Index(ratio.numerator()) * a.value * (same_divisor ? Index(1) : b.divisor);
  const Index right = Index(ratio.denominator()) * b.value * (same_divisor ? Index(1) : a.divisor);
  if (!same_divisor)
    for (const Index& divisor : {a.divisor, b.divisor}) implied(assumptions, non_zero(divisor));
  implied(assumptions, proof::zero(left - right));
}

void DerivationCheck::equal(const Factor& a, const Factor& b, const Guards& assumptions, const std::vector<Derivation>& parts,
                            std::size_t& next, int depth) {
  require(a.kind == b.kind && a.name == b.name && a.input == b.input && a.position.size() == b.position.size() &&
              a.arguments.size() == b.arguments.size(),
          "factors differ");
  for (std::size_t i = 0; i < a.position.size(); ++i) same(a.position[i], b.position[i], assumptions);
  const auto part = [&]() -> const Derivation& {
    require(next < parts.size(), "a part of a proof is missing");
    return parts[next++];
  };
  for (std::size_t i = 0; i < a.arguments.size(); ++i)
    zero(difference(a.arguments[i], b.arguments[i]), assumptions, part(), depth);
  if (a.kind == Factor::Kind::kMaximum) equal_maxima(a, b, assumptions, part(), depth);
}

void DerivationCheck::zero(const Sum& sum, const Guards& assumptions, const Derivation& derivation, int depth) {
  std::vector<bool> seen(sum.size());
  const auto take = [&](std::size_t i) -> const Term& {
    require(i < sum.size() && !seen[i], "a term is not there once");
    seen[i] = true;
    return sum[i];
  };
  for (const std::size_t i : derivation.vanished) vanishes(take(i), assumptions);
  for (const MemberClass& c : derivation.classes) {
    const InScope scope(scope_, c.variables, "y" + std::to_string(depth) + "!");
    require(!c.members.empty(), "a class is empty");
    std::vector<Indicator> indicators;
    Image first;
    for (const Member& m : c.members) {
      require(m.quantified.empty(), "a sum is over every variable");
      const Term& term = take(m.term);
      Image now = image(term, m, c, assumptions, true);
      if (indicators.empty())
        require(m.parts.empty() && !now.after.is_zero(), "a class's first member is compared with nothing"),
            first = std::move(now);
      else
        equal(now, first, m, joined(assumptions, m.guards), depth + 1);
      indicators.push_back({m.coefficient, m.guards});
    }
    const bool opposite = indicators.size() == 2 && indicators[0].coefficient == -indicators[1].coefficient &&
                          same_guards(indicators[0].guards, indicators[1].guards);
    require(opposite || recorded_.cancel(assumptions, indicators) == Answer::kProved, "coefficients do not cancel");
  }
  require(std::find(seen.begin(), seen.end(), false) == seen.end(), "a term is in no class");
}

void DerivationCheck::equal_maxima(const Factor& a, const Factor& b, const Guards& assumptions, const Derivation& derivation,
                                   int depth) {
  std::vector<MaximumElement> elements = a.elements;
  elements.insert(elements.end(), b.elements.begin(), b.elements.end());
  std::vector<bool> seen(elements.size());
  const auto take = [&](std::size_t i) {
    require(i < elements.size() && !seen[i], "an element is not there once");
    seen[i] = true;
    Term t;
    t.bound = elements[i].bound, t.guards = elements[i].guards;
    t.factors.push_back({.kind = Factor::Kind::kFunction, .name = "element", .arguments = {elements[i].value}});
    return t;
  };
  for (const std::size_t i : derivation.vanished) vanishes(take(i), assumptions);
  for (const MemberClass& c : derivation.classes) {
    const std::string prefix = "z" + std::to_string(depth) + "!";
    const InScope scope(scope_, c.variables, prefix);
    std::vector<Existence> sides[2];
    Image first;
    for (const Member& m : c.members) {
      const InScope quantified(scope_, m.quantified, prefix);
      Image now = image(take(m.term), m, c, assumptions, false);
      if (sides[0].empty() && sides[1].empty()) {
        // The value must not depend on quantified variables.
        Names symbols;
        Numbers bound;
        collect(now.factors[0].arguments[0], symbols, bound);
        for (const Index& q : m.quantified) require(!symbols.count(q.as_atom()->name), "a value depends on what is quantified");
        require(m.parts.empty(), "a class's first member is compared with nothing");
        first = std::move(now);
      } else {
        equal(now, first, m, joined(assumptions, m.guards), depth);
      }
      sides[m.term < a.elements.size() ? 0 : 1].push_back({m.quantified, m.guards});
    }
    require(recorded_.same_cover(assumptions, sides[0], sides[1]) == Answer::kProved, "maxima are over different sets");
  }
  require(std::find(seen.begin(), seen.end(), false) == seen.end(), "an element is in no class");
}

}  // namespace rewright::proof
