#include "verifier/compare.h"

#include <algorithm>
#include <functional>
#include <map>

namespace rewright::proof {

namespace {

constexpr std::size_t kMaximumOrders = 120;  // orders of a term's factors, and of its variables without a pivot

// Collects index expressions that can determine bound variables, in an order that depends on structure alone. Those with
// variables bound inside the factor cannot.
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

// Sorts factors by signature; returns every order of those with equal signatures.
std::vector<std::vector<std::size_t>> orders(const Term& term) {
  std::vector<std::pair<std::string, std::size_t>> factors;
  for (std::size_t i = 0; i < term.factors.size(); ++i) factors.emplace_back(signature(term.factors[i]), i);
  std::stable_sort(factors.begin(), factors.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::size_t> order(factors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<std::vector<std::size_t>> result;
  do {
    bool sorted = true;
    for (std::size_t i = 0; i + 1 < order.size(); ++i) sorted &= factors[order[i]].first <= factors[order[i + 1]].first;
    if (!sorted) continue;
    std::vector<std::size_t> list;
    for (const std::size_t i : order) list.push_back(factors[i].second);
    result.push_back(std::move(list));
  } while (result.size() < kMaximumOrders && order.size() <= 7 && std::next_permutation(order.begin(), order.end()));
  return result;
}

Term reordered(const Term& term, const std::vector<std::size_t>& order) {
  Term result = term;
  for (std::size_t i = 0; i < order.size(); ++i) result.factors[i] = term.factors[order[i]];
  return result;
}

bool is_index(const Factor& f) { return f.kind == Factor::Kind::kIndex || f.kind == Factor::Kind::kReciprocalIndex; }

// The order restricted to factors that are not indices, renumbered: simplification merges only indices.
std::vector<std::size_t> without_indices(const Term& term, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> result;
  for (const std::size_t i : order) {
    if (is_index(term.factors[i])) continue;
    const auto begin = term.factors.begin();
    result.push_back(static_cast<std::size_t>(
        std::count_if(begin, begin + static_cast<std::ptrdiff_t>(i), [](const Factor& f) { return !is_index(f); })));
  }
  return result;
}

Guards joined(Guards a, const Guards& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Term traced(Term term) {
  term.trace = term.bound;
  return term;
}

}  // namespace

Comparison::Canonical Comparison::canonical(Term term, const std::string& prefix) const {
  Canonical result;
  Replacements meaning;  // the new variables in terms of the old ones
  Indices old = term.bound;
  const auto rename = [&](const Index& variable, const Index& name, const Index& value) {
    meaning.emplace_back(name, value);
    result.variables.push_back(name);
    result.inverse.push_back(value);
    std::erase(old, variable);
  };
  for (std::size_t n = 0;; ++n) {
    std::vector<Index> positions;
    for (const Factor& f : term.factors) collect_positions(f, {}, positions);
    if (n >= positions.size()) break;
    const Index& p = positions[n];
    const auto v =
        std::find_if(old.begin(), old.end(), [&](const Index& variable) { return unit_coefficient(p, variable) != 0; });
    if (v == old.end()) continue;
    const Index variable = *v, pivot = Index::symbol(prefix + std::to_string(n));
    rename(variable, pivot, replaced(p, meaning));
    term = replaced(term, {{variable, solved_for(p - pivot, variable)}});
    result.pivots.push_back(n);
  }
  Replacements names;
  for (const Index& variable : Indices(old)) {
    names.emplace_back(variable, Index::symbol(prefix + "+" + std::to_string(names.size())));
    rename(variable, names.back().second, variable);
  }
  result.term = replaced(term, names);
  result.term.bound = result.variables;
  return result;
}

// Sizes known not to be 0 cancel with their reciprocals.
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

bool Comparison::equal(const Factor& a, const Factor& b, const Guards& assumptions, std::vector<Derivation>* parts) {
  if (a.kind != b.kind) return false;
  const auto same = [&](const Index& p, const Index& q) { return p == q || solver_.proves(assumptions, zero(p - q)); };
  const auto part = [&]() -> Derivation* { return parts ? &parts->emplace_back() : nullptr; };
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
        if (!is_zero(rewright::proof::joined(a.arguments[i], scaled(b.arguments[i], -1)), assumptions, part())) return false;
      return true;
    case Factor::Kind::kMaximum:
      break;
  }
  return equal_maxima(a, b, assumptions, part());
}

bool Comparison::cancels(const std::vector<Term>& members, const Guards& assumptions) {
  if (members.size() == 2 && members[0].coefficient == -members[1].coefficient &&
      same_guards(members[0].guards, members[1].guards))
    return true;
  std::vector<Indicator> indicators;
  for (const Term& m : members) indicators.push_back({m.coefficient, m.guards});
  if (solver_.cancel(assumptions, indicators) == Answer::kProved) return true;
  if (open_.empty()) open_ = "is this 0: " + to_string(members);
  return false;
}

bool Comparison::is_zero(const Sum& sum, const Guards& assumptions, Derivation* derivation) {
  const std::string prefix = "y" + std::to_string(depth_) + "!";
  struct Depth {
    int& value;
    explicit Depth(int& v) : value(v) { ++value; }
    ~Depth() { --value; }
  } depth(depth_);
  struct Numbered {
    std::size_t number;  // position in the sum
    Term term;
  };
  std::map<std::string, std::vector<Numbered>> groups;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const Sum simple = without_known_indices({derivation ? traced(sum[i]) : sum[i]}, assumptions);
    if (simple.empty() && derivation) derivation->vanished.push_back(i);
    for (const Term& t : simple) groups[signature(t)].push_back({i, t});
  }
  struct Class {
    Canonical first;
    std::vector<Term> members;
    MemberClass record;
  };
  for (const auto& [text, terms] : groups) {
    std::vector<Class> classes;
    for (const auto& numbered : terms) {
      const std::size_t number = numbered.number;
      const Term& t = numbered.term;
      // Is the term, with its factors in this order, the product of the class?
      const auto joins = [&](Class& c, const std::vector<std::size_t>& order, const Canonical& candidate) {
        if (c.first.pivots != candidate.pivots || c.first.variables.size() != candidate.variables.size()) return false;
        const std::size_t pivots = candidate.pivots.size();
        std::vector<std::size_t> matching(candidate.variables.size() - pivots);
        for (std::size_t i = 0; i < matching.size(); ++i) matching[i] = i;
        std::size_t tried = 0;
        do {
          Replacements names;
          for (std::size_t i = 0; i < matching.size(); ++i)
            names.emplace_back(candidate.variables[pivots + i], candidate.variables[pivots + matching[i]]);
          const Term renamed = replaced(candidate.term, names);
          const Guards known = joined(assumptions, renamed.guards);
          std::vector<Derivation> parts;
          bool equals = true;
          for (std::size_t i = 0; i < renamed.factors.size() && equals; ++i)
            equals = equal(renamed.factors[i], c.first.term.factors[i], known, derivation ? &parts : nullptr);
          if (!equals) continue;
          c.members.push_back(renamed);
          if (derivation) {
            Indices inverse = candidate.inverse;
            for (std::size_t i = 0; i < matching.size(); ++i) inverse[pivots + matching[i]] = candidate.inverse[pivots + i];
            c.record.members.push_back({number,
                                        renamed.trace,
                                        inverse,
                                        {},
                                        renamed.guards,
                                        renamed.coefficient,
                                        without_indices(t, order),
                                        std::move(parts)});
          }
          return true;
        } while (++tried < kMaximumOrders && std::next_permutation(matching.begin(), matching.end()));
        return false;
      };
      const auto all_orders = orders(t);
      const bool found = std::any_of(all_orders.begin(), all_orders.end(), [&](const std::vector<std::size_t>& order) {
        if (classes.empty()) return false;
        const Canonical candidate = canonical(reordered(t, order), prefix);
        return std::any_of(classes.begin(), classes.end(), [&](Class& c) { return joins(c, order, candidate); });
      });
      if (found) continue;
      Class& c = classes.emplace_back();
      c.first = canonical(reordered(t, all_orders.at(0)), prefix);
      c.members.push_back(c.first.term);
      if (!derivation) continue;
      c.record.variables = c.first.variables;
      c.record.members.push_back({number,
                                  c.first.term.trace,
                                  c.first.inverse,
                                  {},
                                  c.first.term.guards,
                                  c.first.term.coefficient,
                                  without_indices(t, all_orders[0]),
                                  {}});
    }
    for (Class& c : classes) {
      if (!cancels(c.members, assumptions)) return false;
      if (derivation) derivation->classes.push_back(std::move(c.record));
    }
  }
  return true;
}

bool Comparison::equal_maxima(const Factor& a, const Factor& b, const Guards& assumptions, Derivation* derivation) {
  const std::string prefix = "z" + std::to_string(depth_) + "!";
  struct Set {
    Canonical first;
    std::vector<Existence> sides[2];
    MemberClass record;
  };
  std::vector<Set> sets;
  for (std::size_t i = 0; i < a.elements.size() + b.elements.size(); ++i) {
    const bool left = i < a.elements.size();
    const MaximumElement& e = left ? a.elements[i] : b.elements[i - a.elements.size()];
    Term t;
    t.bound = e.bound, t.guards = e.guards;
    t.factors.push_back(function("element", nullptr, {e.value}));
    const Sum simple = simplified({derivation ? traced(t) : t});
    if (simple.empty()) {
      if (derivation) derivation->vanished.push_back(i);
      continue;
    }
    Canonical candidate = canonical(simple[0], prefix);
    // Variables without a pivot that occur in the value are part of the element's identity and keep their names. Those that
    // only occur in guards are quantified.
    const Indices all = candidate.variables, inverse = candidate.inverse;
    const std::size_t pivots = candidate.pivots.size();
    candidate.variables.resize(pivots), candidate.inverse.resize(pivots);
    Indices quantified, quantified_inverse;
    Replacements names;
    for (std::size_t k = pivots; k < all.size(); ++k) {
      const Term probe = replaced(candidate.term, {{all[k], Index::symbol("!")}});
      const bool in_value = to_string(probe.factors[0].arguments[0]) != to_string(candidate.term.factors[0].arguments[0]);
      const std::size_t number = in_value ? candidate.variables.size() - pivots : quantified.size();
      names.emplace_back(all[k], Index::symbol(prefix + (in_value ? "+" : "-") + std::to_string(number)));
      (in_value ? candidate.variables : quantified).push_back(names.back().second);
      (in_value ? candidate.inverse : quantified_inverse).push_back(inverse[k]);
    }
    candidate.term = replaced(candidate.term, names);
    const Sum& value = candidate.term.factors[0].arguments[0];
    candidate.inverse.insert(candidate.inverse.end(), quantified_inverse.begin(), quantified_inverse.end());
    Member member{i, candidate.term.trace, candidate.inverse, quantified, candidate.term.guards, 1, {0}, {}};
    const auto joins = [&](const Set& s) {
      const Sum& other = s.first.term.factors[0].arguments[0];
      if (s.first.pivots != candidate.pivots || s.first.variables.size() != candidate.variables.size() ||
          signature(value) != signature(other))
        return false;
      const std::string before = open_;
      member.parts.assign(1, {});
      if (is_zero(joined(value, scaled(other, -1)), joined(assumptions, candidate.term.guards),
                  derivation ? &member.parts[0] : nullptr))
        return true;
      open_ = before;
      return false;
    };
    auto set = std::find_if(sets.begin(), sets.end(), joins);
    if (set == sets.end()) {
      member.parts.clear();
      set = sets.insert(sets.end(), {candidate, {}, {candidate.variables, {}}});
    }
    set->sides[left ? 0 : 1].push_back({quantified, candidate.term.guards});
    if (derivation) set->record.members.push_back(std::move(member));
  }
  for (Set& s : sets) {
    if (solver_.same_cover(assumptions, s.sides[0], s.sides[1]) != Answer::kProved) {
      if (open_.empty()) open_ = "is this on both sides of a maximum: " + to_string(s.first.term.factors[0].arguments[0]);
      return false;
    }
    if (derivation) derivation->classes.push_back(std::move(s.record));
  }
  return true;
}

}  // namespace rewright::proof
