#include "generator/enumeration/expressions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "operators/readings/number_system.h"

namespace rewright::generator {

namespace {

using Kind = Expression::Kind;

std::uint64_t mix(std::uint64_t h, std::uint64_t v) { return FieldArithmetic::mix(h, v); }

// Hashes of all expressions, given those of the variables.
std::vector<std::uint64_t> hashes(const Equation& q, const Forms& forms, const std::vector<std::uint64_t>& variables) {
  std::vector<std::uint64_t> result;
  for (const Expression& e : q.expressions) {
    if (e.kind == Kind::kVariable) {
      result.push_back(mix(is_vector(e.type, forms) ? 2 : 1, variables[e.number]));
      continue;
    }
    std::uint64_t h = mix(mix(mix(static_cast<std::uint64_t>(e.kind), e.number), e.variant), e.output);
    std::array<std::uint64_t, 3> arguments{};
    for (std::size_t k = 0; k < 3 && e.arguments[k] != Expression::kNone; ++k) arguments[k] = result[e.arguments[k]];
    if (e.kind == Kind::kOperator && forms.configuration().choices[e.number].op->commutative() && arguments[1] < arguments[0])
      std::swap(arguments[0], arguments[1]);
    for (const std::uint64_t a : arguments) h = mix(h, a);
    result.push_back(h);
  }
  return result;
}

// A hash of the equation that ignores the order of the sides and of the outputs.
std::uint64_t hash_of_sides(const Equation& q, const std::vector<std::uint64_t>& values) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> forward, backward;
  for (std::size_t i = 0; i < q.left.size(); ++i) {
    forward.emplace_back(values[q.left[i]], values[q.right[i]]);
    backward.emplace_back(values[q.right[i]], values[q.left[i]]);
  }
  std::sort(forward.begin(), forward.end());
  std::sort(backward.begin(), backward.end());
  std::uint64_t h = q.left.size();
  for (const auto& [a, b] : std::min(forward, backward)) h = mix(mix(h, a), b);
  return h;
}

}  // namespace

std::uint32_t Equation::add(const Expression& e) {
  const auto at = std::find(expressions.begin(), expressions.end(), e);
  if (at != expressions.end()) return static_cast<std::uint32_t>(at - expressions.begin());
  expressions.push_back(e);
  if (e.kind == Kind::kVariable) variables = std::max(variables, e.number + 1);
  return static_cast<std::uint32_t>(expressions.size() - 1);
}

std::vector<bool> Equation::reachable(const std::vector<std::uint32_t>& roots) const {
  std::vector<bool> used(expressions.size());
  for (const std::uint32_t r : roots) used[r] = true;
  for (std::size_t i = expressions.size(); i-- > 0;)
    if (used[i])
      for (const std::uint32_t a : expressions[i].arguments)
        if (a != Expression::kNone) used[a] = true;
  return used;
}

std::vector<bool> Equation::of_weights() const {
  std::vector<bool> result;
  for (const Expression& e : expressions)
    result.push_back(e.kind == Kind::kVariable ? e.variant != 0
                                               : std::all_of(e.arguments.begin(), e.arguments.end(), [&](std::uint32_t a) {
                                                   return a == Expression::kNone || result[a];
                                                 }));
  return result;
}

std::size_t Equation::operators(const std::vector<std::uint32_t>& side) const {
  const std::vector<bool> used = reachable(side), weights = of_weights();
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::array<std::uint32_t, 3>>> applications;
  for (std::size_t i = 0; i < expressions.size(); ++i)
    if (used[i] && !weights[i] && expressions[i].kind == Kind::kOperator)
      applications.emplace(expressions[i].number, expressions[i].variant, expressions[i].arguments);
  return applications.size();
}

Equation Equation::tidied() const {
  std::vector<std::uint32_t> roots = left;
  roots.insert(roots.end(), right.begin(), right.end());
  Equation result;
  std::map<std::uint32_t, std::uint32_t> places, names;
  const auto copy = [&](auto&& self, std::uint32_t at) -> std::uint32_t {
    if (const auto known = places.find(at); known != places.end()) return known->second;
    Expression e = expressions[at];
    if (e.kind == Kind::kVariable)
      e.number = names.try_emplace(e.number, static_cast<std::uint32_t>(names.size())).first->second;
    for (std::uint32_t& a : e.arguments)
      if (a != Expression::kNone) a = self(self, a);
    return places[at] = result.add(e);
  };
  for (const std::uint32_t r : left) result.left.push_back(copy(copy, r));
  for (const std::uint32_t r : right) result.right.push_back(copy(copy, r));
  return result;
}

std::string to_string(const Equation& q, const Configuration& configuration) {
  const auto text = [&](auto&& self, std::uint32_t at) -> std::string {
    const Expression& e = q.expressions[at];
    if (e.kind == Kind::kVariable) return "x" + std::to_string(e.number);
    if (e.kind == Kind::kConstant) return configuration.leaves[e.number].name;
    std::string result = configuration.choices[e.number].name;
    if (e.variant) result += " #" + std::to_string(e.variant);
    result += "(";
    for (std::size_t k = 0; k < 3 && e.arguments[k] != Expression::kNone; ++k)
      result += (k ? ", " : "") + self(self, e.arguments[k]);
    result += ")";
    return e.output ? result + "." + std::to_string(e.output) : result;
  };
  std::string result;
  for (std::size_t i = 0; i < q.left.size(); ++i)
    result += (i ? "; " : "") + text(text, q.left[i]) + " = " + text(text, q.right[i]);
  return result;
}

double cost(const Equation& equation, const std::vector<std::uint32_t>& side, Forms& forms) {
  const std::vector<bool> used = equation.reachable(side), weights = equation.of_weights();
  double total = 0;
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::array<std::uint32_t, 3>>> seen;
  for (std::size_t i = 0; i < equation.expressions.size(); ++i) {
    const Expression& e = equation.expressions[i];
    if (!used[i] || weights[i] || e.kind != Kind::kOperator || !seen.emplace(e.number, e.variant, e.arguments).second) continue;
    std::vector<TypeId> types;
    for (const std::uint32_t a : e.arguments)
      if (a != Expression::kNone) types.push_back(equation.expressions[a].type);
    for (const FormId f : forms.find(e.number, types))
      if (forms.form(f).variant == e.variant) total += forms.form(f).cost;
  }
  return total;
}

bool is_vector(TypeId type, const Forms& forms) { return forms.type(type).type.rank() == 1; }

std::uint64_t canonical_hash(const Equation& q, const Forms& forms) {
  // Variables are coloured by where they occur. Only permutations of variables of one colour have to be tried.
  std::vector<std::uint64_t> colours(q.variables, 7);
  for (int round = 0; round < 3; ++round) {
    const std::vector<std::uint64_t> values = hashes(q, forms, colours);
    std::vector<std::uint64_t> context(q.expressions.size(), 0);
    std::vector<std::uint64_t> at_left(q.expressions.size(), 0), at_right(q.expressions.size(), 0);
    for (const std::uint32_t r : q.left) at_left[r] += 0x51ed;
    for (const std::uint32_t r : q.right) at_right[r] += 0x51ed;
    const auto down = [&](std::vector<std::uint64_t>& seen) {
      for (std::size_t i = q.expressions.size(); i-- > 0;) {
        const Expression& e = q.expressions[i];
        if (e.kind != Kind::kOperator || seen[i] == 0) continue;
        const bool commutative = forms.configuration().choices[e.number].op->commutative();
        for (std::size_t k = 0; k < 3 && e.arguments[k] != Expression::kNone; ++k)
          seen[e.arguments[k]] += mix(mix(seen[i], values[i]), commutative && k < 2 ? 0 : k + 1);
      }
    };
    down(at_left), down(at_right);
    for (std::size_t i = 0; i < q.expressions.size(); ++i)
      if (q.expressions[i].kind == Kind::kVariable) {
        const auto [low, high] = std::minmax(at_left[i], at_right[i]);
        colours[q.expressions[i].number] = mix(mix(colours[q.expressions[i].number], low), high);
      }
  }
  std::vector<std::uint32_t> order(q.variables);
  std::iota(order.begin(), order.end(), 0u);
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return colours[a] != colours[b] ? colours[a] < colours[b] : a < b;
  };
  std::sort(order.begin(), order.end(), before);
  std::uint64_t best = ~std::uint64_t{0};
  do {
    std::vector<std::uint64_t> names(q.variables);
    for (std::size_t i = 0; i < order.size(); ++i) names[order[i]] = mix(0xabc, i);
    best = std::min(best, hash_of_sides(q, hashes(q, forms, names)));
    // Advances to the next permutation within the runs of equal colour.
    bool advanced = false;
    for (std::size_t begin = 0; begin < order.size() && !advanced;) {
      std::size_t end = begin + 1;
      while (end < order.size() && colours[order[end]] == colours[order[begin]]) ++end;
      advanced = std::next_permutation(order.begin() + static_cast<std::ptrdiff_t>(begin),
                                       order.begin() + static_cast<std::ptrdiff_t>(end));
      begin = end;
    }
    if (!advanced) break;
  } while (true);
  return best;
}

bool holds(const Equation& q, Forms& forms, std::uint64_t key) {
  std::vector<std::vector<Residue>> elements;
  Forms::Scratch scratch;
  for (const Expression& e : q.expressions) {
    if (e.kind == Kind::kVariable) {
      elements.push_back(forms.random_elements(e.type, e.number, key));
      continue;
    }
    if (e.kind == Kind::kConstant) {
      elements.push_back(forms.leaf_elements(forms.configuration().leaves[e.number], e.number, key));
      continue;
    }
    std::vector<TypeId> types;
    std::vector<const Residue*> operands;
    for (const std::uint32_t a : e.arguments)
      if (a != Expression::kNone) types.push_back(q.expressions[a].type), operands.push_back(elements[a].data());
    const Form* form = nullptr;
    for (const FormId f : forms.find(e.number, types))
      if (forms.form(f).variant == e.variant) form = &forms.form(f);
    if (!form) return false;
    std::vector<Residue> results(form->results);
    if (!forms.evaluate(*form, operands, key, scratch, results.data())) return false;
    const auto begin = results.begin() + static_cast<std::ptrdiff_t>(form->output_offsets[e.output]);
    elements.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(forms.type(form->outputs[e.output]).elements));
  }
  for (std::size_t i = 0; i < q.left.size(); ++i) {
    if (q.expressions[q.left[i]].type != q.expressions[q.right[i]].type) return false;
    if (elements[q.left[i]] != elements[q.right[i]]) return false;
  }
  return true;
}

}  // namespace rewright::generator
