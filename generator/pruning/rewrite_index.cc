#include "generator/pruning/rewrite_index.h"

namespace rewright::generator {

namespace {

using Kind = Expression::Kind;
constexpr std::uint32_t kNone = Expression::kNone;
constexpr std::uint32_t kOwn = 1u << 24;  // numbers of equations' own symbols start here, above those of leaves

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
  positions_.emplace_back();  // invalidates `branches`
  return wanted.next;
}

void RewriteIndex::add(const Equation& equation, std::uint32_t number, const Forms& forms, Symbols& symbols) {
  if (equation.variables > kMostVariables) return;
  for (std::uint32_t i = 0; i < equation.left.size(); ++i)
    for (const bool back : {false, true}) add(equation, i, back, number, forms, symbols);
}

void RewriteIndex::add(const Equation& q, std::uint32_t output, bool back, std::uint32_t number, const Forms& forms,
                       Symbols& symbols) {
  const std::uint32_t from = (back ? q.right : q.left)[output], to = (back ? q.left : q.right)[output];
  if (q.expressions[from].kind == Kind::kVariable) return;
  const std::vector<bool> source = q.reachable({from}), target = q.reachable({to});
  bool more = false, less = false;
  std::vector<std::uint32_t> both;
  for (std::uint32_t e = 0; e < q.expressions.size(); ++e) {
    if (q.expressions[e].kind != Kind::kVariable) continue;
    more |= target[e] && !source[e], less |= source[e] && !target[e];
    if (source[e] && target[e]) both.push_back(e);
  }
  if (more && (!less || both.size() > 3)) return;
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
  Rewrite rewrite{number, symbols.number(q.expressions[from]), {}, more};
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
  if (more) {
    Step own;
    for (std::size_t k = 0; k < both.size(); ++k) own.operands[k] = write(write, both[k]);
    own.number = symbols.number({.kind = Kind::kConstant, .number = kOwn + number, .output = output});
    rewrite.target.push_back(own);
  } else {
    write(write, to);
  }
  positions_[at].rewrites.push_back(static_cast<std::uint32_t>(rewrites_.size()));
  rewrites_.push_back(std::move(rewrite));
}

}  // namespace rewright::generator
