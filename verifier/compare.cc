#include "verifier/compare.h"

#include <algorithm>
#include <functional>
#include <map>

namespace rewright::proof {

namespace {

constexpr std::size_t kMaximumOrders = 120;  // of the factors of one term, and of its variables without a pivot

// Index expressions that can determine bound variables, in an order that depends on structure alone. What speaks of variables
// that are bound inside of the factor cannot.
void collect_positions(const Factor& f, const Indices& inner, std::vector<Index>& positions) {
  const auto free = [&](const Index& p) {
    return std::none_of(inner.begin(), inner.end(), [&](const Index& v) { return occurs(v, p); });
  };
  const auto collect_sum = [&](const Sum& sum, const Indices& bound) {
    std::vector<std::pair<std::string, const Term*>> terms;
    for (const Term& t : sum) terms.emplace_back(signature(t), &t);
    std::stable_sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [text, t] : terms) {
      Indices all = bound;
      all.insert(all.end(), t->bound.begin(), t->bound.end());
      std::vector<std::pair<std::string, const Factor*>> factors;
      for (const Factor& g : t->factors) factors.emplace_back(signature(g), &g);
      std::stable_sort(factors.begin(), factors.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [name, g] : factors) collect_positions(*g, all, positions);
    }
  };
  for (const Index& p : f.position)
    if (free(p)) positions.push_back(p);
  for (const Sum& argument : f.arguments) collect_sum(argument, inner);
  std::vector<std::pair<std::string, const MaximumElement*>> elements;
  for (const MaximumElement& e : f.elements) elements.emplace_back(signature(e.value), &e);
  std::stable_sort(elements.begin(), elements.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [text, e] : elements) {
    Indices all = inner;
    all.insert(all.end(), e->bound.begin(), e->bound.end());
    collect_sum(e->value, all);
  }
}

bool is_pivot(const Index& variable, const std::string& prefix) {
  const Atom& atom = *variable.as_atom();
  return atom.kind == Atom::Kind::kSymbol && atom.name.starts_with(prefix);
}

Indices without_pivot(const Term& term, const std::string& prefix) {
  Indices result;
  for (const Index& v : term.bound)
    if (!is_pivot(v, prefix)) result.push_back(v);
  return result;
}

Term with_fresh_variables(const Term& term) {
  Replacements names;
  Term result = term;
  result.bound.clear();
  for (const Index& v : term.bound) {
    names.emplace_back(v, Index::fresh(v.as_atom()->name));
    result.bound.push_back(names.back().second);
  }
  const Indices bound = result.bound;
  result = replaced(result, names);
  result.bound = bound;
  return result;
}

// The factors by signature, and every order of those with equal ones.
std::vector<std::vector<Factor>> orders(const Term& term) {
  std::vector<std::pair<std::string, Factor>> factors;
  for (const Factor& f : term.factors) factors.emplace_back(signature(f), f);
  std::stable_sort(factors.begin(), factors.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::size_t> order(factors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<std::vector<Factor>> result;
  do {
    bool sorted = true;
    for (std::size_t i = 0; i + 1 < order.size(); ++i) sorted &= factors[order[i]].first <= factors[order[i + 1]].first;
    if (!sorted) continue;
    std::vector<Factor> list;
    for (const std::size_t i : order) list.push_back(factors[i].second);
    result.push_back(std::move(list));
  } while (result.size() < kMaximumOrders && order.size() <= 7 && std::next_permutation(order.begin(), order.end()));
  return result;
}

Guards joined(Guards a, const Guards& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

bool same_guards(const Guards& a, const Guards& b) {
  const auto subset = [](const Guards& x, const Guards& y) {
    return std::all_of(x.begin(), x.end(), [&](const Guard& g) { return std::find(y.begin(), y.end(), g) != y.end(); });
  };
  return subset(a, b) && subset(b, a);
}

// Fourier and Motzkin: a variable between bounds exists if each lower one is at most each upper one. Exact over the integers
// where the variable stands alone.
Existence without_quantifiers(Existence e) {
  for (std::size_t i = 0; i < e.bound.size();) {
    const Index variable = e.bound[i];
    Guards kept;
    std::vector<Index> lower, upper;  // of values that must not be negative, with the variable taken out
    bool alone = true;
    for (const Guard& g : e.guards) {
      if (!occurs(variable, g)) {
        kept.push_back(g);
        continue;
      }
      const int c = g.kind == Guard::Kind::kNonNegative ? unit_coefficient(g.value, variable) : 0;
      alone = alone && c != 0;
      (c > 0 ? lower : upper).push_back(g.value - Index(c) * variable);
    }
    if (!alone) {
      ++i;
      continue;
    }
    for (const Index& l : lower)
      for (const Index& u : upper) kept.push_back(non_negative(l + u));
    e.guards = std::move(kept);
    e.bound.erase(e.bound.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return e;
}

struct Class {
  Term representative;
  std::vector<std::size_t> pivots;
  std::vector<Term> members;
};

}  // namespace

Term Comparison::canonical(Term term, const std::string& prefix, std::vector<std::size_t>& pivots) const {
  pivots.clear();
  for (std::size_t n = 0;; ++n) {
    std::vector<Index> positions;
    for (const Factor& f : term.factors) collect_positions(f, {}, positions);
    if (n >= positions.size()) return term;
    const Index& p = positions[n];
    const auto v = std::find_if(term.bound.begin(), term.bound.end(), [&](const Index& candidate) {
      return !is_pivot(candidate, prefix) && unit_coefficient(p, candidate) != 0;
    });
    if (v == term.bound.end()) continue;
    const Index name = *v, pivot = Index::symbol(prefix + std::to_string(n));
    *v = pivot;
    term = replaced(term, {{name, solved_for(p - pivot, name)}});
    pivots.push_back(n);
  }
}

// Sizes that are known not to be 0 cancel against their reciprocals.
Sum Comparison::without_known_indices(const Sum& sum, const Guards& assumptions) {
  Sum result = simplified(sum);
  for (Term& t : result) {
    Factor *value = nullptr, *divisor = nullptr;
    for (Factor& f : t.factors) {
      if (f.kind == Factor::Kind::kIndex) value = &f;
      if (f.kind == Factor::Kind::kReciprocalIndex) divisor = &f;
    }
    if (!value || !divisor) continue;
    const Guards known = joined(assumptions, t.guards);
    if (value->index == divisor->index && solver_.proves(known, non_zero(value->index))) {
      value->index = 1, divisor->index = 1;
      continue;
    }
    for (bool progress = true; progress;) {
      progress = false;
      if (divisor->index.is_constant()) break;
      std::vector<Index> candidates{divisor->index};
      if (divisor->index.polynomial()->monomials.size() == 1 && divisor->index.constant_term() == 0)
        for (const AtomPointer& f : divisor->index.polynomial()->monomials[0].factors) candidates.push_back(Index::atom(f));
      for (const Index& c : candidates) {
        const Index over = floor_div(value->index, c), under = floor_div(divisor->index, c);
        if (!(over * c == value->index) || !(under * c == divisor->index) || !solver_.proves(known, non_zero(c))) continue;
        value->index = over, divisor->index = under;
        progress = true;
        break;
      }
    }
  }
  return simplified(result);
}

bool Comparison::equal(const Factor& a, const Factor& b, const Guards& assumptions) {
  if (a.kind != b.kind) return false;
  const auto same = [&](const Index& p, const Index& q) { return p == q || solver_.proves(assumptions, zero(p - q)); };
  switch (a.kind) {
    case Factor::Kind::kAccess:
      if (a.input != b.input || a.position.size() != b.position.size()) return false;
      for (std::size_t i = 0; i < a.position.size(); ++i)
        if (!same(a.position[i], b.position[i])) return false;
      return true;
    case Factor::Kind::kIndex:
    case Factor::Kind::kReciprocalIndex:
      return same(a.index, b.index);
    case Factor::Kind::kUnknown:
      return a.name == b.name;
    case Factor::Kind::kFunction:
      if (a.name != b.name || a.arguments.size() != b.arguments.size()) return false;
      for (std::size_t i = 0; i < a.arguments.size(); ++i)
        if (!is_zero(rewright::proof::joined(a.arguments[i], scaled(b.arguments[i], -1)), assumptions)) return false;
      return true;
    case Factor::Kind::kMaximum:
      break;
  }
  return equal_maxima(a, b, assumptions);
}

bool Comparison::is_zero(const Sum& sum, const Guards& assumptions) {
  const std::string prefix = "y" + std::to_string(depth_) + "!";
  struct Depth {
    int& value;
    explicit Depth(int& v) : value(v) { ++value; }
    ~Depth() { --value; }
  } depth(depth_);
  std::map<std::string, std::vector<Term>> groups;
  for (const Term& t : without_known_indices(sum, assumptions)) groups[signature(t)].push_back(with_fresh_variables(t));
  for (const auto& [text, terms] : groups) {
    std::vector<Class> classes;
    for (const Term& t : terms) {
      bool found = false;
      const auto all_orders = orders(t);
      for (const std::vector<Factor>& order : all_orders) {
        Term ordered = t;
        ordered.factors = order;
        std::vector<std::size_t> pivots;
        const Term candidate = canonical(std::move(ordered), prefix, pivots);
        const Indices left = without_pivot(candidate, prefix);
        for (Class& c : classes) {
          const Indices others = without_pivot(c.representative, prefix);
          if (c.pivots != pivots || others.size() != left.size()) continue;
          std::vector<std::size_t> matching(left.size());
          for (std::size_t i = 0; i < matching.size(); ++i) matching[i] = i;
          std::size_t tried = 0;
          do {
            Replacements names;
            for (std::size_t i = 0; i < left.size(); ++i) names.emplace_back(left[i], others[matching[i]]);
            Term renamed = candidate;
            renamed.bound.clear();
            renamed = replaced(renamed, names);
            renamed.bound = c.representative.bound;
            const Guards known = joined(assumptions, renamed.guards);
            found = true;
            for (std::size_t i = 0; i < renamed.factors.size() && found; ++i)
              found = equal(renamed.factors[i], c.representative.factors[i], known);
            if (found) c.members.push_back(std::move(renamed));
          } while (!found && ++tried < kMaximumOrders && std::next_permutation(matching.begin(), matching.end()));
          if (found) break;
        }
        if (found) break;
      }
      if (found) continue;
      Term first = t;
      first.factors = all_orders.at(0);
      Class c;
      c.representative = canonical(std::move(first), prefix, c.pivots);
      c.members.push_back(c.representative);
      classes.push_back(std::move(c));
    }
    for (const Class& c : classes) {
      if (c.members.size() == 2 && c.members[0].coefficient == -c.members[1].coefficient &&
          same_guards(c.members[0].guards, c.members[1].guards))
        continue;
      std::vector<Indicator> indicators;
      for (const Term& m : c.members) indicators.push_back({m.coefficient, m.guards});
      if (solver_.cancel(assumptions, indicators) == Answer::kProved) continue;
      if (open_.empty()) open_ = "is this 0: " + to_string(c.members);
      return false;
    }
  }
  return true;
}

bool Comparison::equal_maxima(const Factor& a, const Factor& b, const Guards& assumptions) {
  const std::string prefix = "z" + std::to_string(depth_) + "!";
  struct Member {
    bool left;
    Term term;  // the element's variables and guards, its value as a function's argument
  };
  struct Set {
    Term representative;
    std::vector<std::size_t> pivots;
    std::vector<Member> members;
  };
  std::vector<Set> sets;
  for (const bool left : {true, false})
    for (const MaximumElement& e : (left ? a : b).elements) {
      Term t;
      t.bound = e.bound, t.guards = e.guards;
      t.factors.push_back(function("element", nullptr, {e.value}));
      const Sum simple = simplified({with_fresh_variables(t)});
      if (simple.empty()) continue;
      std::vector<std::size_t> pivots;
      Term candidate = canonical(simple[0], prefix, pivots);
      // Variables without a pivot that occur in the value say with it which element is meant: they get names too. Those that
      // occur in guards alone are quantified.
      for (std::size_t k = 0; k < candidate.bound.size(); ++k) {
        const Index v = candidate.bound[k];
        const auto in_value = [&](const Index& variable) {
          const Term probe = replaced(candidate, {{variable, Index::symbol("!")}});
          return to_string(probe.factors[0].arguments[0]) != to_string(candidate.factors[0].arguments[0]);
        };
        if (is_pivot(v, prefix) || !in_value(v)) continue;
        const Index name = Index::symbol(prefix + "+" + std::to_string(k));
        candidate.bound[k] = name;
        candidate = replaced(candidate, {{v, name}});
      }
      const Sum& value = candidate.factors[0].arguments[0];
      bool found = false;
      for (Set& s : sets) {
        const Sum& other = s.representative.factors[0].arguments[0];
        if (s.pivots != pivots || signature(value) != signature(other)) continue;
        const std::string before = open_;
        if (is_zero(joined(value, scaled(other, -1)), joined(assumptions, candidate.guards))) {
          found = true;
          s.members.push_back({left, candidate});
          break;
        }
        open_ = before;
      }
      if (!found) sets.push_back({candidate, pivots, {{left, candidate}}});
    }
  for (const Set& s : sets) {
    std::vector<Existence> sides[2];
    for (const Member& m : s.members)
      sides[m.left ? 0 : 1].push_back(without_quantifiers({without_pivot(m.term, prefix), m.term.guards}));
    const auto covered = [](const std::vector<Existence>& x, const std::vector<Existence>& y) {
      return std::all_of(x.begin(), x.end(), [&](const Existence& e) {
        return std::any_of(y.begin(), y.end(), [&](const Existence& f) {
          return e.bound.empty() && f.bound.empty() && same_guards(e.guards, f.guards);
        });
      });
    };
    if (covered(sides[0], sides[1]) && covered(sides[1], sides[0])) continue;
    if (solver_.same_cover(assumptions, sides[0], sides[1]) == Answer::kProved) continue;
    if (open_.empty()) open_ = "is this on both sides of a maximum: " + to_string(s.representative.factors[0].arguments[0]);
    return false;
  }
  return true;
}

}  // namespace rewright::proof
