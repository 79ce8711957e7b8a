#include "generator/derivation.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <tuple>

namespace rewright::generator {

using Kind = Expression::Kind;
using ClassNumber = std::uint32_t;
constexpr ClassNumber kNothing = Expression::kNone;

namespace {

// Operators and constants as bits; several may have the same one.
std::uint64_t bit_of(const Expression& e) { return std::uint64_t{1} << (e.number * 2 + (e.kind == Kind::kConstant)) % 64; }

}  // namespace

class EGraph {
 public:
  EGraph(const Theory& theory, Forms& forms, std::optional<std::uint32_t> without)
      : theory_(theory), forms_(forms), without_(without) {}

  ClassNumber find(ClassNumber c) const {
    while (parent_[c] != c) c = parent_[c];
    return c;
  }
  std::size_t size() const { return nodes_.size(); }

  // The class of an expression whose arguments are classes; kNothing where it is ill-typed.
  ClassNumber add(Expression e) {
    std::vector<TypeId> types;
    for (ClassNumber& a : e.arguments)
      if (a != kNothing) {
        a = find(a);
        types.push_back(types_[a]);
      }
    if (e.kind == Kind::kOperator) {
      const Form* form = nullptr;
      for (const FormId f : forms_.find(e.number, types))
        if (forms_.form(f).variant == e.variant) form = &forms_.form(f);
      if (!form) return kNothing;
      e.type = form->outputs[e.output];
      if (forms_.configuration().choices[e.number].op->commutative() && e.arguments[1] < e.arguments[0])
        std::swap(e.arguments[0], e.arguments[1]);
    }
    const auto [at, fresh] = known_.try_emplace(key(e), 0);
    if (!fresh) return find(at->second);
    const auto number = static_cast<ClassNumber>(parent_.size());
    at->second = number;
    parent_.push_back(number);
    types_.push_back(e.type);
    by_root_[{static_cast<std::uint32_t>(e.kind), e.number}].push_back(static_cast<std::uint32_t>(nodes_.size()));
    nodes_.push_back({e, number});
    return number;
  }

  ClassNumber add(const Equation& equation, std::uint32_t root) {
    const auto& e = equation.expressions[root];
    Expression node = e;
    for (std::uint32_t& a : node.arguments)
      if (a != kNothing) a = add(equation, a);
    return add(node);
  }

  void merge(ClassNumber a, ClassNumber b) {
    a = find(a), b = find(b);
    if (a == b) return;
    if (b < a) std::swap(a, b);
    parent_[b] = a;
    dirty_ = true;
  }

  // Congruence: nodes whose arguments have become equal are equal.
  void rebuild() {
    while (dirty_) {
      dirty_ = false;
      known_.clear();
      for (Node& node : nodes_) {
        for (ClassNumber& a : node.expression.arguments)
          if (a != kNothing) a = find(a);
        if (node.expression.kind == Kind::kOperator &&
            forms_.configuration().choices[node.expression.number].op->commutative() &&
            node.expression.arguments[1] < node.expression.arguments[0])
          std::swap(node.expression.arguments[0], node.expression.arguments[1]);
        const auto [at, fresh] = known_.try_emplace(key(node.expression), node.owner);
        if (!fresh) merge(at->second, node.owner);
      }
    }
    members_.clear();
    begins_.assign(parent_.size(), 0);
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      const ClassNumber owner = find(nodes_[n].owner);
      members_[owner].push_back(n);
      begins_[owner] |= bit_of(nodes_[n].expression);
    }
  }

  // All substitutions for which an expression of a pattern is in a class.
  using Substitution = std::array<ClassNumber, 16>;
  void match(const Equation& pattern, std::uint32_t at, ClassNumber c, const Substitution& bound,
             const std::function<void(const Substitution&)>& found) {
    const Expression& e = pattern.expressions[at];
    c = find(c);
    if (e.kind == Kind::kVariable) {
      if (is_vector(e.type, forms_) != is_vector(types_[c], forms_)) return;
      if (bound[e.number] != kNothing) {
        if (find(bound[e.number]) == c) found(bound);
        return;
      }
      Substitution next = bound;
      next[e.number] = c;
      return found(next);
    }
    const auto members = members_.find(c);
    if (members == members_.end()) return;
    for (const std::uint32_t n : members->second) match_node(pattern, at, n, bound, found);
  }

  void match_node(const Equation& pattern, std::uint32_t at, std::uint32_t n, const Substitution& bound,
                  const std::function<void(const Substitution&)>& found) {
    const Expression& e = pattern.expressions[at];
    const Expression& node = nodes_[n].expression;
    if (node.kind != e.kind || node.number != e.number || node.variant != e.variant || node.output != e.output) return;
    match_arguments(pattern, e, node.arguments, 0, bound, found);
    if (e.kind == Kind::kOperator && forms_.configuration().choices[e.number].op->commutative() &&
        node.arguments[0] != node.arguments[1]) {
      auto swapped = node.arguments;
      std::swap(swapped[0], swapped[1]);
      match_arguments(pattern, e, swapped, 0, bound, found);
    }
  }

  // One round: everything that matches now. False if the limit on nodes was reached.
  bool round(std::size_t limit) {
    rebuild();
    struct Found {
      std::uint32_t rewrite;
      ClassNumber root;
      Substitution bound;
    };
    std::vector<Found> all;
    for (const auto& [root, nodes] : by_root_) {
      const auto rewrites = theory_.by_root_.find(root);
      if (rewrites == theory_.by_root_.end()) continue;
      for (const std::uint32_t r : rewrites->second) {
        const std::uint32_t number = theory_.rewrites_[r].number;
        if (!theory_.active_[number] || number == without_) continue;
        const bool commutative = root.first == static_cast<std::uint32_t>(Kind::kOperator) &&
                                 forms_.configuration().choices[root.second].op->commutative();
        for (const std::uint32_t n : nodes) {
          if (!may_match(theory_.rewrites_[r], nodes_[n].expression.arguments, commutative)) continue;
          Substitution none;
          none.fill(kNothing);
          match_node(theory_.rewrites_[r].equation, theory_.rewrites_[r].from, n, none, [&](const Substitution& bound) {
            all.push_back({r, nodes_[n].owner, bound});
          });
        }
      }
    }
    for (const Found& f : all) {
      if (nodes_.size() >= limit) return false;
      const Theory::Rewrite& rewrite = theory_.rewrites_[f.rewrite];
      const ClassNumber result = instantiate(rewrite.equation, rewrite.to, f.bound);
      if (result != kNothing && types_[result] == types_[find(f.root)]) merge(f.root, result);
    }
    rebuild();
    return true;
  }

 private:
  struct Node {
    Expression expression;
    ClassNumber owner;
  };
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::array<std::uint32_t, 3>>;
  static Key key(const Expression& e) {
    return {static_cast<std::uint64_t>(e.kind) << 32 | e.number, static_cast<std::uint64_t>(e.variant) << 32 | e.output,
            e.arguments};
  }

  // A look at what the operands begin with, before the search for substitutions: most rewrites do not match.
  bool may_match(const Theory::Rewrite& rewrite, const std::array<ClassNumber, 3>& arguments, bool commutative) const {
    const auto may = [&](std::size_t k, std::size_t at) {
      return rewrite.wants[k] == 0 || (arguments[at] != kNothing && (rewrite.wants[k] & begins_[find(arguments[at])]) != 0);
    };
    return may(2, 2) && ((may(0, 0) && may(1, 1)) || (commutative && may(0, 1) && may(1, 0)));
  }

  void match_arguments(const Equation& pattern, const Expression& e, const std::array<ClassNumber, 3>& arguments, std::size_t k,
                       const Substitution& bound, const std::function<void(const Substitution&)>& found) {
    if (k == 3 || e.arguments[k] == kNothing) return found(bound);
    match(pattern, e.arguments[k], arguments[k], bound,
          [&](const Substitution& next) { match_arguments(pattern, e, arguments, k + 1, next, found); });
  }

  ClassNumber instantiate(const Equation& equation, std::uint32_t at, const Substitution& bound) {
    Expression e = equation.expressions[at];
    if (e.kind == Kind::kVariable) return find(bound[e.number]);
    for (std::uint32_t& a : e.arguments)
      if (a != kNothing && (a = instantiate(equation, a, bound)) == kNothing) return kNothing;
    return add(e);
  }

  const Theory& theory_;
  Forms& forms_;
  std::optional<std::uint32_t> without_;
  std::vector<ClassNumber> parent_;
  std::vector<TypeId> types_;
  std::vector<Node> nodes_;
  std::map<Key, ClassNumber> known_;
  std::map<ClassNumber, std::vector<std::uint32_t>> members_;
  std::vector<std::uint64_t> begins_;  // of a class: its nodes' bits
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> by_root_;
  bool dirty_ = true;
};

std::uint32_t Theory::add(const Equation& equation) {
  const auto number = static_cast<std::uint32_t>(active_.size());
  active_.push_back(true);
  by_hash_.emplace(canonical_hash(equation.tidied(), forms_), number);
  for (std::size_t i = 0; i < equation.left.size(); ++i)
    for (const bool reversed : {false, true}) {
      const std::uint32_t from = reversed ? equation.right[i] : equation.left[i];
      const std::uint32_t to = reversed ? equation.left[i] : equation.right[i];
      const Expression& root = equation.expressions[from];
      if (root.kind == Kind::kVariable || equation.variables > 16) continue;
      // What stands on the new side must be found on the old one.
      const std::vector<bool> source = equation.reachable({from}), target = equation.reachable({to});
      bool bound = true;
      for (std::size_t e = 0; e < equation.expressions.size(); ++e)
        bound &= !(target[e] && !source[e] && equation.expressions[e].kind == Kind::kVariable);
      if (!bound) continue;
      by_root_[{static_cast<std::uint32_t>(root.kind), root.number}].push_back(static_cast<std::uint32_t>(rewrites_.size()));
      std::array<std::uint64_t, 3> wants{};
      for (std::size_t k = 0; k < 3 && root.arguments[k] != kNothing; ++k)
        if (const Expression& operand = equation.expressions[root.arguments[k]]; operand.kind != Kind::kVariable)
          wants[k] = bit_of(operand);
      rewrites_.push_back({equation, from, to, number, wants});
    }
  return number;
}

bool Theory::derives(const Equation& equation, const DerivationLimits& limits, Forms& forms,
                     std::optional<std::uint32_t> without) const {
  const auto [first, last] = by_hash_.equal_range(canonical_hash(equation.tidied(), forms_));
  if (std::any_of(first, last, [&](const auto& known) { return active_[known.second] && known.second != without; }))
    return true;
  EGraph graph(*this, forms, without);
  std::vector<std::pair<ClassNumber, ClassNumber>> goals;
  for (std::size_t i = 0; i < equation.left.size(); ++i) {
    const ClassNumber left = graph.add(equation, equation.left[i]), right = graph.add(equation, equation.right[i]);
    if (left == kNothing || right == kNothing) return false;
    goals.emplace_back(left, right);
  }
  for (std::size_t round = 0; round <= limits.rounds; ++round) {
    const bool done = std::all_of(goals.begin(), goals.end(),
                                  [&](const auto& goal) { return graph.find(goal.first) == graph.find(goal.second); });
    if (done) return true;
    if (round < limits.rounds) graph.round(limits.nodes);
  }
  return false;
}

}  // namespace rewright::generator
