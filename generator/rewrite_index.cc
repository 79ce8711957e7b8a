#include "generator/rewrite_index.h"

namespace rewright::generator {

namespace {

using Kind = Expression::Kind;
constexpr std::uint32_t kNone = Expression::kNone;

}  // namespace

Symbols::Key Symbols::key(const Expression& e) { return {static_cast<std::uint32_t>(e.kind), e.number, e.variant, e.output}; }

Symbol Symbols::number(const Expression& e) {
  const auto [at, fresh] = numbers_.try_emplace(key(e), static_cast<Symbol>(expressions_.size()));
  if (fresh) {
    expressions_.push_back(e);
    expressions_.back().arguments = {kNone, kNone, kNone};
    commutative_.push_back(e.kind == Kind::kOperator && configuration_.choices[e.number].op->commutative());
  }
  return at->second;
}

Symbol Symbols::find(const Expression& e) const {
  const auto at = numbers_.find(key(e));
  return at == numbers_.end() ? kUnknown : at->second;
}

std::uint32_t RewriteIndex::branch(std::uint32_t from, Branch wanted) {
  std::vector<Branch>& branches = wanted.kind == Branch::Kind::kSymbol ? positions_[from].symbols : positions_[from].variables;
  const auto at = std::lower_bound(branches.begin(), branches.end(), wanted, [](const Branch& a, const Branch& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.number < b.number;
  });
  if (at != branches.end() && at->kind == wanted.kind && at->number == wanted.number) return at->next;
  wanted.next = static_cast<std::uint32_t>(positions_.size());
  branches.insert(at, wanted);
  if (wanted.kind == Branch::Kind::kSymbol) positions_[from].begins |= bit_of(wanted.number);
  positions_.emplace_back();  // `branches` is gone from here on
  return wanted.next;
}

void RewriteIndex::add(const Equation& equation, std::uint32_t number, const Forms& forms, Symbols& symbols) {
  if (equation.variables > kMostVariables) return;
  for (std::size_t i = 0; i < equation.left.size(); ++i) {
    add(equation, equation.left[i], equation.right[i], number, forms, symbols);
    add(equation, equation.right[i], equation.left[i], number, forms, symbols);
  }
}

void RewriteIndex::add(const Equation& q, std::uint32_t from, std::uint32_t to, std::uint32_t number, const Forms& forms,
                       Symbols& symbols) {
  if (q.expressions[from].kind == Kind::kVariable) return;
  const std::vector<bool> source = q.reachable({from}), target = q.reachable({to});
  for (std::size_t e = 0; e < q.expressions.size(); ++e)
    if (target[e] && !source[e] && q.expressions[e].kind == Kind::kVariable) return;
  std::vector<std::uint32_t> names(q.variables, kNone);
  std::uint32_t count = 0, at = 0;
  const auto walk = [&](auto&& self, std::uint32_t expression) -> void {
    const Expression& e = q.expressions[expression];
    if (e.kind != Kind::kVariable) {
      at = branch(at, {Branch::Kind::kSymbol, symbols.number(e), 0});
      for (const std::uint32_t a : e.arguments)
        if (a != kNone) self(self, a);
    } else if (names[e.number] != kNone) {
      at = branch(at, {Branch::Kind::kKnown, names[e.number], 0});
    } else {
      names[e.number] = count++;
      at = branch(at, {Branch::Kind::kNew, is_vector(e.type, forms) ? 1u : 0u, 0});
    }
  };
  walk(walk, from);
  Rewrite rewrite{number, symbols.number(q.expressions[from]), {}};
  std::vector<std::uint32_t> places(q.expressions.size(), kNone);
  const auto write = [&](auto&& self, std::uint32_t expression) -> std::uint32_t {
    if (places[expression] != kNone) return places[expression];
    const Expression& e = q.expressions[expression];
    Step step;
    step.variable = e.kind == Kind::kVariable;
    step.number = step.variable ? names[e.number] : symbols.number(e);
    for (std::size_t k = 0; k < 3; ++k)
      if (e.arguments[k] != kNone) step.operands[k] = self(self, e.arguments[k]);
    rewrite.target.push_back(step);
    return places[expression] = static_cast<std::uint32_t>(rewrite.target.size() - 1);
  };
  write(write, to);
  positions_[at].rewrites.push_back(static_cast<std::uint32_t>(rewrites_.size()));
  rewrites_.push_back(std::move(rewrite));
}

}  // namespace rewright::generator
