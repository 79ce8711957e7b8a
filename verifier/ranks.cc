#include "verifier/ranks.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

namespace rewright::proof {

namespace {

// Marks the arguments of a call that are positions in a list, or its length.
std::string_view positions_of(const std::string& function) {
  if (function == "slice") return "-ii";
  if (function == "identity") return "i";
  const bool one = function == "at" || function == "with" || function == "insert" || function == "remove" ||
                   function == "position" || function == "repeat" || function == "size";
  return one ? "-i" : "";
}

}  // namespace

void RankArgument::visit(std::size_t rank, const SymbolicCase& c) {
  note_lengths(c);
  note_numbers(c);
  Rank& seen = ranks_[rank];
  ++seen.cases;
  if (rank > 0 && open_list_.empty() && seen.without.empty() && !has_pointwise_axis(rule_, c, solver_))
    seen.without = c.to_string();
}

// A list that is as long as it likes was enumerated only up to some length.
void RankArgument::note_lengths(const SymbolicCase& c) {
  std::string ranks;
  std::size_t highest = 0;
  for (const TensorType& type : c.inputs) ranks += " " + std::to_string(type.rank()), highest = std::max(highest, type.rank());
  for (const auto& [name, value] : c.bindings.values()) {
    const auto* list = std::get_if<Indices>(&value);
    const auto computes = [&name = name](const Quantity& q) { return q.name == name; };
    if (!list || std::any_of(rule_.quantities.begin(), rule_.quantities.end(), computes)) continue;
    const auto [known, is_new] = lengths_.emplace(name + ranks, list->size());
    if (known->second != list->size() || list->size() > highest) open_list_ = name;
  }
}

void RankArgument::note_numbers(const SymbolicCase& c) {
  for (const auto& [name, value] : c.bindings.values())
    if (const auto* index = std::get_if<Index>(&value)) {
      const auto known = numbers_.emplace(name, true).first;
      known->second = known->second && index->is_constant();
    }
}

bool RankArgument::holds(std::size_t ranks, std::size_t largest) const { return reason(ranks, largest).empty(); }

std::string RankArgument::reason(std::size_t ranks, std::size_t largest) const {
  if (!open_list_.empty()) return "the length of " + open_list_ + " is open";
  bool open = false;
  std::size_t fixed = 0;
  for (const PatternInput& input : rule_.inputs) {
    open |= input.shape.open;
    fixed = std::max(fixed, input.shape.front.size() + input.shape.back.size());
  }
  if (!open) return ranks == largest ? "" : "not all cases were examined";
  for (const std::size_t rank : {ranks, ranks - 1}) {
    const auto seen = ranks_.find(rank);
    if (ranks < 2 || seen == ranks_.end() || seen->second.cases == 0) return "there are no cases of two ranks";
    if (!seen->second.without.empty()) return "no axis is pointwise: " + seen->second.without;
  }
  std::size_t named = 0;
  if (const std::string text = computes_with_ranks(named); !text.empty()) return "it computes with ranks: " + text;
  return ranks < fixed + named + 2 ? "it names as many axes as were examined" : "";
}

// Numbers of axes and of ranks may be compared, and differ by small numbers. `named` counts the axes that the rule can single
// out with them: beyond these, and two more, axes are like others that were examined.
std::string RankArgument::computes_with_ranks(std::size_t& named) const {
  std::string found;
  std::vector<Index> indices;
  std::vector<Expression> calls;
  const auto of_axes = [&](const Index& index) {
    bool result = false;
    if (!index.is_constant())
      for_each_atom(index, [&](const Atom& a) {
        const auto known = a.kind == Atom::Kind::kSymbol ? numbers_.find(a.name) : numbers_.end();
        result |= known != numbers_.end() && known->second;
      });
    return result;
  };
  // A number, a number and a constant, or a difference of two.
  const auto check = [&](const Index& index) {
    if (!of_axes(index) || std::find(indices.begin(), indices.end(), index) != indices.end()) return;
    indices.push_back(index);
    const auto& monomials = index.polynomial()->monomials;
    bool plain = monomials.size() <= 2;
    std::int64_t sum = 0;
    for (const Monomial& m : monomials) {
      plain &=
          m.factors.size() == 1 && m.factors[0]->kind == Atom::Kind::kSymbol && (m.coefficient == 1 || m.coefficient == -1);
      sum += m.coefficient;
    }
    plain &= monomials.size() == 1 ? sum == 1 || sum == -1 : sum == 0;
    if (!plain) found = index.to_string();
    named += static_cast<std::size_t>(std::min<std::int64_t>(std::abs(index.constant_term()), 1000));
  };
  const std::function<void(const Expression&)> visit = [&](const Expression& e) {
    if (const auto* index = std::get_if<Index>(&e.value)) check(*index);
    if (const auto* list = std::get_if<Indices>(&e.value)) std::for_each(list->begin(), list->end(), check);
    if (e.kind != Expression::Kind::kCall || std::find(calls.begin(), calls.end(), e) != calls.end()) return;
    calls.push_back(e);
    const std::string_view positions = positions_of(e.name);
    if (e.name == "slice" || e.name == "remove" || e.name == "insert") ++named;  // entries move, one call within another
    for (std::size_t i = 0; i < e.arguments.size(); ++i) {
      visit(e.arguments[i]);
      if (e.arguments[i].kind != Expression::Kind::kValue) continue;
      const auto* index = std::get_if<Index>(&e.arguments[i].value);
      const auto* list = std::get_if<Indices>(&e.arguments[i].value);
      if (i < positions.size() && positions[i] == 'i' && index && index->is_constant())
        named += 1 + static_cast<std::size_t>(std::min<std::int64_t>(std::abs(index->value()), 1000));
      if (list) named += list->size();
    }
  };
  for (const auto& [name, is_number] : numbers_) named += is_number ? 1 : 0;
  for (const Pattern* side : {&rule_.source, &rule_.target})
    for (const PatternNode& node : side->nodes) std::for_each(node.attributes.begin(), node.attributes.end(), visit);
  for (const Quantity& q : rule_.quantities) visit(q.value);
  for (const Predicate& p : rule_.predicates) std::for_each(p.arguments.begin(), p.arguments.end(), visit);
  for (const Condition& c : rule_.conditions) check(c.left - c.right);
  for (const PatternInput& input : rule_.inputs) {
    std::for_each(input.shape.front.begin(), input.shape.front.end(), check);
    std::for_each(input.shape.back.begin(), input.shape.back.end(), check);
  }
  return found;
}

}  // namespace rewright::proof
