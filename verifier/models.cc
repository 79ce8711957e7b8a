#include "verifier/models.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash_mix.h"

namespace rewright::proof {

namespace {

constexpr std::size_t kModels = 8;          // models kept for each list of assumptions
constexpr int kSteps = 16;                  // steps to repair one model
constexpr std::int64_t kLargest = 1 << 20;  // value of a variable; larger products would often overflow
constexpr std::size_t kMaximumNodes = 200000;

// Thrown if an expression has no value: overflow, or a divisor that is not positive.
struct NoValue {};

std::int64_t checked(__int128 value) {
  constexpr __int128 kLimit = std::int64_t{1} << 60;
  if (value > kLimit || value < -kLimit) throw NoValue{};
  return static_cast<std::int64_t>(value);
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  if (b < 1) throw NoValue{};
  return a / b - (a % b < 0);
}

// xorshift64*
std::uint64_t next(std::uint64_t& state) {
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return state * 0x2545F4914F6CDD1DULL >> 16;
}

void unite(std::vector<std::size_t>& a, const std::vector<std::size_t>& b) {
  for (const std::size_t n : b)
    if (std::find(a.begin(), a.end(), n) == a.end()) a.push_back(n);
}

std::uint64_t hash(const Guard& g) {
  std::uint64_t h = hash_mix(g.value.hash(), static_cast<std::uint64_t>(g.kind));
  for (const Guard& part : g.parts) h = hash_mix(h, hash(part));
  return h;
}

}  // namespace

// ---- Tables

Models::Number Models::variable(const Atom& atom) {
  if (atom.kind == Atom::Kind::kSymbol) {
    const auto [found, inserted] = symbols_.try_emplace(atom.name, variables_);
    variables_ += inserted;
    return found->second;
  }
  const auto [found, inserted] = bound_.try_emplace(atom.id, variables_);
  variables_ += inserted;
  return found->second;
}

Models::Number Models::expression(const Atom& atom) {
  Expression e{Expression::Kind::kVariable, 0, 0, {}, {0, 0}, {}};
  switch (atom.kind) {
    case Atom::Kind::kSymbol:
    case Atom::Kind::kBound:
      e.variable = variable(atom);
      e.variables = {e.variable};
      expressions_.push_back(std::move(e));
      return expressions_.size() - 1;
    case Atom::Kind::kFloorDiv:
      e.kind = Expression::Kind::kFloorDiv;
      break;
    case Atom::Kind::kMod:
      e.kind = Expression::Kind::kMod;
      break;
    case Atom::Kind::kMin:
      e.kind = Expression::Kind::kMin;
      break;
    case Atom::Kind::kMax:
      e.kind = Expression::Kind::kMax;
      break;
    case Atom::Kind::kPosition:
    case Atom::Kind::kLoad:
      throw NoValue{};
  }
  for (const std::size_t i : {0, 1}) {
    e.arguments[i] = expression(atom.arguments[i]);
    unite(e.variables, expressions_[e.arguments[i]].variables);
  }
  expressions_.push_back(std::move(e));
  return expressions_.size() - 1;
}

Models::Number Models::expression(const Index& index) {
  auto& known = indices_[index.hash()];
  for (const auto& [other, number] : known)
    if (other == index) return number;
  Expression e{Expression::Kind::kSum, 0, index.constant_term(), {}, {0, 0}, {}};
  if (!index.is_constant())
    for (const Monomial& m : index.polynomial()->monomials) {
      Product p{m.coefficient, {}};
      for (const AtomPointer& f : m.factors) {
        p.factors.push_back(expression(*f));
        unite(e.variables, expressions_[p.factors.back()].variables);
      }
      e.products.push_back(std::move(p));
    }
  expressions_.push_back(std::move(e));
  indices_[index.hash()].emplace_back(index, expressions_.size() - 1);
  return expressions_.size() - 1;
}

Models::Number Models::condition(const Guard& guard) {
  const std::uint64_t key = hash(guard);
  for (const Number n : known_conditions_[key])
    if (conditions_[n].guard == guard) return n;
  Condition c{guard, 0, {}, {}};
  if (guard.kind == Guard::Kind::kAll || guard.kind == Guard::Kind::kAny) {
    for (const Guard& part : guard.parts) {
      c.parts.push_back(condition(part));
      unite(c.variables, conditions_[c.parts.back()].variables);
    }
  } else {
    c.value = expression(guard.value);
    c.variables = expressions_[c.value].variables;
  }
  conditions_.push_back(std::move(c));
  known_conditions_[key].push_back(conditions_.size() - 1);
  return conditions_.size() - 1;
}

// ---- Values

std::int64_t Models::value(Number number, const Values& values) const {
  const Expression& e = expressions_[number];
  switch (e.kind) {
    case Expression::Kind::kVariable:
      return values[e.variable];
    case Expression::Kind::kSum: {
      __int128 sum = e.constant;
      for (const Product& p : e.products) {
        std::int64_t product = p.coefficient;
        for (const Number f : p.factors) product = checked(static_cast<__int128>(product) * value(f, values));
        sum += product;
      }
      return checked(sum);
    }
    default:
      break;
  }
  const std::int64_t a = value(e.arguments[0], values), b = value(e.arguments[1], values);
  switch (e.kind) {
    case Expression::Kind::kFloorDiv:
      return floor_quotient(a, b);
    case Expression::Kind::kMod:
      return a - b * floor_quotient(a, b);
    case Expression::Kind::kMin:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

bool Models::holds(Number number, const Values& values) const {
  const Condition& c = conditions_[number];
  const auto part_holds = [&](Number part) { return holds(part, values); };
  switch (c.guard.kind) {
    case Guard::Kind::kAll:
      return std::all_of(c.parts.begin(), c.parts.end(), part_holds);
    case Guard::Kind::kAny:
      return std::any_of(c.parts.begin(), c.parts.end(), part_holds);
    default:
      break;
  }
  try {
    const std::int64_t v = value(c.value, values);
    return c.guard.kind == Guard::Kind::kNonNegative ? v >= 0 : c.guard.kind == Guard::Kind::kZero ? v == 0 : v != 0;
  } catch (const NoValue&) {
    return false;
  }
}

// ---- Search

// Changes one variable so that a condition that does not hold may hold.
void Models::move(Number number, Values& values, std::uint64_t& random) const {
  const Condition& c = conditions_[number];
  if (!c.parts.empty()) {
    std::vector<Number> open;
    for (const Number part : c.parts)
      if (!holds(part, values)) open.push_back(part);
    if (!open.empty()) move(open[next(random) % open.size()], values, random);
    return;
  }
  if (c.variables.empty()) return;
  const Number chosen = c.variables[next(random) % c.variables.size()];
  std::int64_t& target = values[chosen];
  const std::int64_t before = target;
  try {
    const std::int64_t v = value(c.value, values);
    // If the expression is linear in the variable, the effect of a step of 1 tells the distance.
    ++target;
    const std::int64_t slope = value(c.value, values) - v;
    target = before;
    if (slope == 0 || c.guard.kind == Guard::Kind::kNonZero) {
      target = before + (next(random) % 2 ? 1 : -1) * static_cast<std::int64_t>(1 + next(random) % 3);
    } else {
      const std::int64_t magnitude = std::abs(slope), distance = (std::abs(v) + magnitude - 1) / magnitude;
      const std::int64_t beyond = c.guard.kind == Guard::Kind::kNonNegative ? static_cast<std::int64_t>(next(random) % 3) : 0;
      target = before + ((v < 0) == (slope > 0) ? 1 : -1) * (distance + (beyond == 2));
    }
  } catch (const NoValue&) {
    target = static_cast<std::int64_t>(1 + next(random) % 4);
  }
  if (std::abs(target) > kLargest) target = before;
}

bool Models::repair(const std::vector<Number>& conditions, Values& values, std::uint64_t& random, int steps) const {
  for (int step = 0;; ++step) {
    const auto open = std::find_if(conditions.begin(), conditions.end(), [&](Number c) { return !holds(c, values); });
    if (open == conditions.end()) return true;
    if (step == steps) return false;
    move(*open, values, random);
  }
}

Models::Number Models::child(Number parent, Number number) {
  if (const auto known = nodes_[parent].children.find(number); known != nodes_[parent].children.end()) return known->second;
  Node n{parent, number, nodes_[parent].depth + 1, nodes_[parent].variables, {}, {}};
  const Condition& c = conditions_[number];
  const std::size_t before = n.variables.size();
  unite(n.variables, c.variables);
  std::vector<Number> conditions{number};  // newest first
  for (Number p = parent; nodes_[p].depth > 0; p = nodes_[p].parent) conditions.push_back(nodes_[p].condition);
  std::uint64_t random = 0x9E3779B97F4A7C15ULL + n.depth;
  for (std::size_t k = 0; k < nodes_[parent].models.size(); ++k) {
    Values values = nodes_[parent].models[k];
    values.resize(variables_, 1);
    for (std::size_t v = before; v < n.variables.size(); ++v)
      values[n.variables[v]] = k == 0 ? 1 : static_cast<std::int64_t>(next(random) % (k + 2));
    if (holds(number, values) || repair(conditions, values, random, kSteps)) n.models.push_back(std::move(values));
  }
  // If few remain, changes them to replace those that were lost.
  const std::size_t left = n.models.size();
  for (std::size_t k = 0; left > 0 && n.models.size() < kModels && k < kModels; ++k) {
    Values values = n.models[k % left];
    const Number v = n.variables.empty() ? 0 : n.variables[next(random) % n.variables.size()];
    if (!n.variables.empty()) values[v] += static_cast<std::int64_t>(1 + next(random) % 3);
    if (repair(conditions, values, random, kSteps)) n.models.push_back(std::move(values));
  }
  nodes_.push_back(std::move(n));
  nodes_[parent].children.emplace(number, nodes_.size() - 1);
  return nodes_.size() - 1;
}

Models::Number Models::node(const Guards& assumptions) {
  if (nodes_.size() > kMaximumNodes) nodes_.clear();
  if (nodes_.empty()) nodes_.push_back({0, 0, 0, {}, std::vector<Values>(kModels), {}});
  Number n = 0;
  for (const Guard& g : assumptions)
    if (g.decided() != true) n = child(n, condition(g));
  return n;
}

bool Models::satisfies(const Guards& assumptions) {
  try {
    return !nodes_[node(assumptions)].models.empty();
  } catch (const NoValue&) {
    return false;
  }
}

bool Models::refutes(const Guards& assumptions, const Guard& goal) {
  try {
    const Number known = node(assumptions);
    if (nodes_[known].models.empty()) return false;
    return !nodes_[child(known, condition(goal.negated()))].models.empty();
  } catch (const NoValue&) {
    return false;
  }
}

}  // namespace rewright::proof
