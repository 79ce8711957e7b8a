#include "generator/pruning/derivation.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "base/congruence.h"
#include "base/hash_mix.h"

namespace rewright::generator {

using Kind = Expression::Kind;
using ClassNumber = std::uint32_t;
constexpr ClassNumber kNothing = Expression::kNone;

class EGraph {
 public:
  EGraph(const Theory& theory, Forms& forms, std::optional<std::uint32_t> without)
      : theory_(theory), forms_(forms), without_(without) {}

  ClassNumber find(ClassNumber c) const { return classes_.find(c); }
  std::size_t size() const { return nodes_.size(); }

  // The class of an expression over classes; kNothing if it is ill-typed.
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
    if (const auto known = lookup(e)) return find(nodes_[*known].owner);
    known_.insert(hash_of(e), static_cast<std::uint32_t>(nodes_.size()));
    const ClassNumber number = classes_.add();
    types_.push_back(e.type);
    nodes_.push_back({e, number, theory_.symbols_.find(e)});
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
    if (classes_.merge(a, b)) dirty_ = true;
  }

  // Congruence: nodes whose arguments have become equal are equal.
  void rebuild() {
    const auto enter_nodes = [&] {
      dirty_ = false;
      for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
        Node& node = nodes_[n];
        for (ClassNumber& a : node.expression.arguments)
          if (a != kNothing) a = find(a);
        if (node.expression.kind == Kind::kOperator &&
            forms_.configuration().choices[node.expression.number].op->commutative() &&
            node.expression.arguments[1] < node.expression.arguments[0])
          std::swap(node.expression.arguments[0], node.expression.arguments[1]);
        if (const auto same = lookup(node.expression))
          merge(nodes_[*same].owner, node.owner);
        else
          known_.insert(hash_of(node.expression), n);
      }
      return dirty_;
    };
    if (dirty_) known_.rehash(enter_nodes);
    members_.assign(classes_.size(), {});
    begins_.assign(classes_.size(), 0);
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].symbol == Symbols::kUnknown) continue;
      const ClassNumber owner = find(nodes_[n].owner);
      members_[owner].push_back(n);
      begins_[owner] |= RewriteIndex::bit_of(nodes_[n].symbol);
    }
  }

  // The interface of a host for RewriteIndex::match. No classes are merged meanwhile.
  bool is_vector(ClassNumber c) const { return generator::is_vector(types_[c], forms_); }
  static bool same(ClassNumber a, ClassNumber b) { return a == b; }
  std::uint64_t begins(ClassNumber c) const { return begins_[c]; }
  template <class F>
  bool members(ClassNumber c, Symbol symbol, const F& f) const {
    return std::all_of(members_[c].begin(), members_[c].end(),
                       [&](std::uint32_t n) { return nodes_[n].symbol != symbol || f(nodes_[n].expression.arguments); });
  }

  // One round: applies everything that matches now, in the order of the rewrites. False if the limit on nodes was reached.
  bool round(std::size_t limit) {
    rebuild();
    std::vector<Found> all;
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].symbol == Symbols::kUnknown) continue;
      theory_.index_.match(*this, theory_.symbols_, nodes_[n].symbol, nodes_[n].expression.arguments,
                           [&](std::uint32_t r, const auto& bound) {
                             const std::uint32_t number = theory_.index_.rewrite(r).equation;
                             if (theory_.active_[number] && number != without_) all.push_back({r, n, bound});
                             return true;
                           });
    }
    const auto order = [&](const Found& f) {
      const Expression& e = nodes_[f.node].expression;
      return std::tuple(e.kind, e.number, f.rewrite, f.node);
    };
    std::stable_sort(all.begin(), all.end(), [&](const Found& a, const Found& b) { return order(a) < order(b); });
    for (const Found& f : all) {
      if (nodes_.size() >= limit) return false;
      const ClassNumber owner = nodes_[f.node].owner;
      const ClassNumber result = instantiate(theory_.index_.rewrite(f.rewrite), f.bound, types_[find(owner)]);
      if (result != kNothing && types_[result] == types_[find(owner)]) merge(owner, result);
    }
    rebuild();
    return true;
  }

 private:
  struct Node {
    Expression expression;
    ClassNumber owner;
    Symbol symbol;
  };
  using Bound = std::array<ClassNumber, RewriteIndex::kMostVariables>;
  struct Found {
    std::uint32_t rewrite, node;
    Bound bound;
  };
  static std::uint64_t hash_of(const Expression& e) {
    std::uint64_t h =
        hash_mix(static_cast<std::uint64_t>(e.kind) << 32 | e.number, static_cast<std::uint64_t>(e.variant) << 32 | e.output);
    for (const ClassNumber a : e.arguments) h = hash_mix(h, a);
    return h;
  }
  std::optional<std::uint32_t> lookup(const Expression& e) const {
    return known_.find(hash_of(e), [&](std::uint32_t n) {
      const Expression& other = nodes_[n].expression;
      return other.kind == e.kind && other.number == e.number && other.variant == e.variant && other.output == e.output &&
             other.arguments == e.arguments;
    });
  }

  ClassNumber instantiate(const RewriteIndex::Rewrite& rewrite, const Bound& bound, TypeId type) {
    values_.clear();
    for (const RewriteIndex::Step& step : rewrite.target) {
      if (step.variable) {
        values_.push_back(find(bound[step.number]));
        continue;
      }
      Expression e = theory_.symbols_.expression(step.number);
      for (std::size_t k = 0; k < 3; ++k)
        if (step.operands[k] != kNothing) e.arguments[k] = values_[step.operands[k]];
      if (rewrite.own) e.type = e.variant = type;  // one symbol for each type
      values_.push_back(add(e));
      if (values_.back() == kNothing) return kNothing;
    }
    return values_.back();
  }

  const Theory& theory_;
  Forms& forms_;
  std::optional<std::uint32_t> without_;
  Classes classes_;
  std::vector<TypeId> types_;
  std::vector<Node> nodes_;
  NodeTable known_;
  std::vector<std::vector<std::uint32_t>> members_;  // by class
  std::vector<std::uint64_t> begins_;                // by class: bits of its symbols
  std::vector<ClassNumber> values_;
  bool dirty_ = true;
};

std::uint32_t Theory::add(const Equation& equation) {
  const auto number = static_cast<std::uint32_t>(active_.size());
  active_.push_back(true);
  by_hash_.emplace(canonical_hash(equation.tidied(), forms_), number);
  index_.add(equation, number, forms_, symbols_);
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
