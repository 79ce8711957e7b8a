#include "generator/pruning/class_theory.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/hash_mix.h"
#include "base/parallel.h"
#include "operators/readings/number_system.h"

namespace rewright::generator {

namespace {

using Kind = Expression::Kind;
constexpr std::array<ClassId, 3> kNoOperands{kNoClass, kNoClass, kNoClass};
static_assert(kNoClass == Expression::kNone);

Expression symbol_of(const Form& form, std::uint32_t output) {
  return {Kind::kOperator, form.choice, form.variant, output, kNoOperands, form.outputs[output]};
}

// Marks members that equal the best member of their class for other random tensors too.
std::vector<std::uint8_t> sound_members(const Enumeration& enumeration, std::span<const std::uint64_t> keys) {
  const Forms& forms = enumeration.forms();
  const std::vector<Class>& classes = enumeration.classes();
  const std::vector<Member>& members = enumeration.members();
  const int threads = enumeration.options().threads;
  std::vector<std::uint8_t> sound(members.size(), 1);
  for (const std::uint64_t key : keys) {
    std::vector<std::vector<Residue>> elements(classes.size());  // empty where they are not in the field
    const auto evaluate = [&](const Member& m, Forms::Scratch& scratch, std::vector<Residue>& result) {
      const Form& form = forms.form(m.form);
      const Residue* operands[3];
      for (std::size_t k = 0; k < form.operands.size(); ++k) {
        if (elements[m.operands[k]].empty()) return false;
        operands[k] = elements[m.operands[k]].data();
      }
      result.resize(form.results);
      return forms.evaluate(form, {operands, form.operands.size()}, key, scratch, result.data());
    };
    const auto output = [&](const Member& m, std::vector<Residue>& result) {
      const Form& form = forms.form(m.form);
      return std::span<const Residue>(result.data() + form.output_offsets[m.output],
                                      forms.type(form.outputs[m.output]).elements);
    };
    // Operands are on lower levels.
    for (std::size_t begin = 0; begin < classes.size();) {
      std::size_t end = begin;
      while (end < classes.size() && classes[end].operators == classes[begin].operators) ++end;
      parallel(threads, end - begin, 64, [&](std::size_t first, std::size_t last, std::size_t) {
        Forms::Scratch scratch;
        std::vector<Residue> result;
        for (std::size_t c = begin + first; c < begin + last; ++c) {
          if (classes[c].leaf < forms.configuration().leaves.size()) {
            elements[c] = forms.leaf_elements(forms.configuration().leaves[classes[c].leaf], classes[c].leaf, key);
          } else if (const Member& best = members[classes[c].best]; evaluate(best, scratch, result)) {
            const auto own = output(best, result);
            elements[c].assign(own.begin(), own.end());
          }
        }
      });
      begin = end;
    }
    parallel(threads, members.size(), 256, [&](std::size_t first, std::size_t last, std::size_t) {
      Forms::Scratch scratch;
      std::vector<Residue> result;
      for (std::size_t m = first; m < last; ++m) {
        if (!sound[m]) continue;
        const std::vector<Residue>& wanted = elements[members[m].result];
        const auto same = [&] {
          const auto own = output(members[m], result);
          return std::equal(own.begin(), own.end(), wanted.begin(), wanted.end());
        };
        sound[m] = evaluate(members[m], scratch, result) && same();
      }
    });
  }
  return sound;
}

}  // namespace

std::size_t ClassTheory::NodeTable::slot(const Node& node) const {
  std::uint64_t h = node.symbol;
  for (const ClassId c : node.operands) h = hash_mix(h, c);
  for (std::size_t i = h & (entries_.size() - 1);; i = (i + 1) & (entries_.size() - 1))
    if (entries_[i].node.symbol == Symbols::kUnknown || entries_[i].node == node) return i;
}

std::pair<ClassId*, bool> ClassTheory::NodeTable::insert(const Node& node) {
  if (count_ * 2 >= entries_.size()) {
    std::vector<Entry> before(entries_.size() * 2);
    before.swap(entries_);
    for (const Entry& e : before)
      if (e.node.symbol != Symbols::kUnknown) entries_[slot(e.node)] = e;
  }
  Entry& entry = entries_[slot(node)];
  const bool fresh = entry.node.symbol == Symbols::kUnknown;
  if (fresh) entry.node = node, ++count_;
  return {&entry.number, fresh};
}

ClassId ClassTheory::NodeTable::find(const Node& node) const { return entries_[slot(node)].number; }

ClassTheory::ClassTheory(const Enumeration& enumeration, std::span<const std::uint64_t> keys)
    : enumeration_(enumeration), symbols_(enumeration.forms().configuration()) {
  const Forms& forms = enumeration.forms();
  const std::vector<Class>& classes = enumeration.classes();
  for (const Class& c : classes) vector_.push_back(is_vector(c.fingerprint.type, forms));
  const auto insert = [&](const Node& node, ClassId owner) {
    if (const auto [number, fresh] = known_.insert(node); fresh) *number = owner;
  };
  for (ClassId c = 0; c < classes.size(); ++c)
    if (const auto& leaves = forms.configuration().leaves; classes[c].leaf < leaves.size()) {
      if (leaves[classes[c].leaf].constant())
        insert(
            {symbols_.number({Kind::kConstant, classes[c].leaf, 0, 0, kNoOperands, classes[c].fingerprint.type}), kNoOperands},
            c);
      else
        variables_[classes[c].fingerprint.type].push_back(c);
    }
  const std::vector<std::uint8_t> sound = sound_members(enumeration, keys);
  for (std::size_t m = 0; m < sound.size(); ++m) {
    const Member& member = enumeration.members()[m];
    if (!sound[m] || classes[member.result].zero) continue;
    insert(node(symbols_.number(symbol_of(forms.form(member.form), member.output)), member.operands), member.result);
  }
  first_.assign(classes.size() + 1, 0);
  begins_.assign(classes.size(), 0);
  known_.each([&](const Node& node, ClassId owner) {
    ++first_[owner + 1];
    begins_[owner] |= RewriteIndex::bit_of(node.symbol);
  });
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  nodes_.resize(known_.size());
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  known_.each([&](const Node& node, ClassId owner) { nodes_[next[owner]++] = node; });
  for (ClassId c = 0; c < classes.size(); ++c) std::sort(nodes_.begin() + first_[c], nodes_.begin() + first_[c + 1]);
}

std::uint32_t ClassTheory::add(const Equation& equation) {
  const auto number = static_cast<std::uint32_t>(active_.size());
  active_.push_back(true);
  index_.add(equation, number, enumeration_.forms(), symbols_);
  return number;
}

ClassTheory::Node ClassTheory::node(Symbol symbol, std::array<ClassId, 3> operands) const {
  if (symbols_.commutative(symbol) && operands[1] < operands[0]) std::swap(operands[0], operands[1]);
  return {symbol, operands};
}

std::optional<ClassTheory::Place> ClassTheory::place(const Graphlet& g) const {
  if (g.form == Graphlet::kNoForm) return Place{.known = g.operands[0]};
  const Form& form = enumeration_.forms().form(g.form);
  const Symbol symbol = symbols_.find(symbol_of(form, g.output));
  if (symbol == Symbols::kUnknown) return std::nullopt;
  Place place{.root = node(symbol, g.operands), .type = form.outputs[g.output]};
  place.known = known_.find(place.root);
  return place;
}

std::optional<ClassTheory::Place> ClassTheory::place(const Equation& q, std::uint32_t at,
                                                     const std::vector<ClassId>& variables) const {
  const Expression& e = q.expressions[at];
  if (e.kind == Kind::kVariable) return Place{.known = variables[e.number]};
  const Symbol symbol = symbols_.find(e);
  if (symbol == Symbols::kUnknown) return std::nullopt;
  std::array<ClassId, 3> operands = kNoOperands;
  for (std::size_t k = 0; k < 3 && e.arguments[k] != Expression::kNone; ++k) {
    const auto operand = place(q, e.arguments[k], variables);
    if (!operand || operand->known == kNoClass) return std::nullopt;
    operands[k] = operand->known;
  }
  Place result{.root = node(symbol, operands), .type = e.type};
  result.known = known_.find(result.root);
  return result;
}

// Bidirectional search: from both sides towards each other.
class RootSearch {
 public:
  RootSearch(const ClassTheory& theory, const ClassDerivationLimits& limits, Forms& forms, std::optional<std::uint32_t> without)
      : theory_(theory), limits_(limits), forms_(forms), without_(without) {}

  using Place = ClassTheory::Place;
  using Node = ClassTheory::Node;

  bool run(const Place& from, const Place& to) {
    if (from.known != kNoClass && to.known != kNoClass) return false;
    type_ = from.known == kNoClass ? from.type : to.type;
    for (const Place* place : {&from, &to}) {
      if (place->known != kNoClass)
        goal_ = place->known;
      else
        visit(place->root, place == &from ? 0 : 1);
    }
    for (std::size_t at = 0; at < queue_.size() && at < limits_.roots && !met_; ++at) expand(queue_[at]);
    return met_;
  }

  // The interface of a host for RewriteIndex::match.
  bool is_vector(ClassId c) const { return theory_.vector_[c]; }
  static bool same(ClassId a, ClassId b) { return a == b; }
  std::uint64_t begins(ClassId c) const { return theory_.begins_[c]; }
  template <class F>
  bool members(ClassId c, Symbol symbol, const F& f) const {
    const auto end = theory_.nodes_.begin() + theory_.first_[c + 1];
    auto at = std::lower_bound(theory_.nodes_.begin() + theory_.first_[c], end, symbol,
                               [](const Node& node, Symbol s) { return node.symbol < s; });
    for (; at != end && at->symbol == symbol; ++at)
      if (!f(at->operands)) return false;
    return true;
  }

 private:
  void visit(const Node& node, ClassId side) {
    const auto [known, fresh] = sides_.insert(node);
    if (fresh) {
      *known = side;
      queue_.push_back(node);
    } else {
      met_ |= *known != side;
    }
  }

  void expand(const Node node) {
    const ClassId side = sides_.find(node);
    std::size_t matches = 0;
    theory_.index_.match(*this, theory_.symbols_, node.symbol, node.operands, [&](std::uint32_t number, const auto& bound) {
      const RewriteIndex::Rewrite& rewrite = theory_.index_.rewrite(number);
      if (!theory_.active_[rewrite.equation] || rewrite.equation == without_) return true;
      apply(rewrite, bound, side);
      return !met_ && ++matches < limits_.matches;
    });
  }

  template <class Bound>
  void apply(const RewriteIndex::Rewrite& rewrite, const Bound& bound, ClassId side) {
    values_.clear();
    for (std::size_t i = 0; i < rewrite.target.size(); ++i) {
      const RewriteIndex::Step& step = rewrite.target[i];
      const bool root = i + 1 == rewrite.target.size();
      if (step.variable) {
        values_.push_back(bound[step.number]);
      } else {
        std::array<ClassId, 3> operands = kNoOperands;
        for (std::size_t k = 0; k < 3; ++k)
          if (step.operands[k] != Expression::kNone) operands[k] = values_[step.operands[k]];
        const Node node = theory_.node(step.number, operands);
        values_.push_back(theory_.known_.find(node));
        if (values_.back() == kNoClass) {
          if (root && (rewrite.own || sides_.find(node) != kNoClass || type_of(node) == type_)) visit(node, side);
          return;
        }
      }
      if (root) met_ |= values_.back() == goal_;
    }
  }

  std::optional<TypeId> type_of(const Node& node) {
    const Expression& e = theory_.symbols_.expression(node.symbol);
    std::array<TypeId, 3> types{};
    std::size_t count = 0;
    for (; count < 3 && node.operands[count] != kNoClass; ++count)
      types[count] = theory_.enumeration_.classes()[node.operands[count]].fingerprint.type;
    for (const FormId f : forms_.find(e.number, {types.data(), count}))
      if (forms_.form(f).variant == e.variant) return forms_.form(f).outputs[e.output];
    return std::nullopt;
  }

  const ClassTheory& theory_;
  const ClassDerivationLimits& limits_;
  Forms& forms_;
  std::optional<std::uint32_t> without_;
  TypeId type_ = 0;
  ClassId goal_ = kNoClass;
  ClassTheory::NodeTable sides_;  // the side that each root was found from
  std::vector<Node> queue_;
  std::vector<ClassId> values_;
  bool met_ = false;
};

bool ClassTheory::derives(const Candidate& candidate, const ClassDerivationLimits& limits, Forms& forms,
                          std::optional<std::uint32_t> without) const {
  for (std::uint32_t o = 0; o < candidate.outputs; ++o) {
    Graphlet left = candidate.left;
    if (candidate.outputs > 1) left.output = o;
    const auto from = place(left), to = place(candidate.right[o]);
    if (!from || !to || !RootSearch(*this, limits, forms, without).run(*from, *to)) return false;
  }
  return true;
}

bool ClassTheory::derives(const Equation& q, const ClassDerivationLimits& limits, Forms& forms,
                          std::optional<std::uint32_t> without) const {
  std::vector<ClassId> variables(q.variables, kNoClass);
  std::map<TypeId, std::size_t> used;
  for (const Expression& e : q.expressions) {
    if (e.kind != Kind::kVariable) continue;
    const auto known = variables_.find(e.type);
    if (known == variables_.end() || used[e.type] == known->second.size()) return false;
    variables[e.number] = known->second[used[e.type]++];
  }
  for (std::size_t i = 0; i < q.left.size(); ++i) {
    const auto from = place(q, q.left[i], variables), to = place(q, q.right[i], variables);
    if (!from || !to || !RootSearch(*this, limits, forms, without).run(*from, *to)) return false;
  }
  return true;
}

}  // namespace rewright::generator
