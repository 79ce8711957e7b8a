// Compares rules by walking both sides of both rules at once from their outputs, pairing variables. Compound index expressions
// are compared at the end, when their names are paired.
#include "rules/isomorphism.h"

#include <algorithm>
#include <map>
#include <set>

#include "rules/io.h"

namespace rewright::rules {

namespace {

constexpr int kMaximumSteps = 100000;
constexpr std::size_t kMaximumFree = 6;  // names whose permutations are tried

// A bijection between items of the first and the second rule.
template <class T>
struct Bijection {
  std::map<T, T> there, back;
  bool bind(const T& a, const T& b) {
    const auto found = there.find(a);
    if (found != there.end()) return found->second == b;
    if (!back.emplace(b, a).second) return false;
    there.emplace(a, b);
    return true;
  }
};

struct Pairing {
  Bijection<std::string> names;
  Bijection<std::uint32_t> inputs;
  Bijection<std::uint32_t> nodes[2];  // of the sources, of the targets
  std::vector<std::pair<Index, Index>> open;
};

class Isomorphism {
 public:
  Isomorphism(const Rule& a, const Rule& b) : a_(a), b_(b) {}

  bool run() {
    if (a_.inputs.size() != b_.inputs.size() || a_.math != b_.math || a_.for_training != b_.for_training ||
        a_.quantities.size() != b_.quantities.size() || a_.conditions.size() != b_.conditions.size() ||
        a_.predicates.size() != b_.predicates.size())
      return false;
    std::vector<Task> tasks;
    for (const int side : {0, 1}) {
      const Pattern &p = pattern(a_, side), &q = pattern(b_, side);
      if (p.nodes.size() != q.nodes.size() || p.outputs.size() != q.outputs.size()) return false;
      for (std::size_t i = 0; i < p.outputs.size(); ++i) tasks.push_back({side, p.outputs[i], q.outputs[i]});
    }
    std::reverse(tasks.begin(), tasks.end());
    return solve({}, std::move(tasks));
  }

 private:
  struct Task {
    int side;
    PatternValue a, b;
  };

  static const Pattern& pattern(const Rule& rule, int side) { return side == 0 ? rule.source : rule.target; }

  // Processes the tasks, last one first.
  bool solve(Pairing pairing, std::vector<Task> tasks) {
    while (!tasks.empty()) {
      if (++steps_ > kMaximumSteps) return false;
      const Task task = tasks.back();
      tasks.pop_back();
      if (task.a.kind != task.b.kind || task.a.output != task.b.output) return false;
      if (task.a.kind == PatternValue::Kind::kAbsent) continue;
      if (task.a.kind == PatternValue::Kind::kInput) {
        if (!pairing.inputs.bind(task.a.number, task.b.number)) return false;
        continue;
      }
      const bool known = pairing.nodes[task.side].there.count(task.a.number) != 0;
      if (!pairing.nodes[task.side].bind(task.a.number, task.b.number)) return false;
      if (known) continue;
      const PatternNode &a = pattern(a_, task.side).nodes[task.a.number], &b = pattern(b_, task.side).nodes[task.b.number];
      if (a.op != b.op || a.outputs != b.outputs || a.inputs.size() != b.inputs.size()) return false;
      for (std::size_t i = 0; i < a.attributes.size(); ++i)
        if (!match(a.attributes[i], b.attributes[i], pairing)) return false;
      const auto with_operands = [&](bool exchanged) {
        std::vector<Task> more = tasks;
        for (std::size_t i = a.inputs.size(); i-- > 0;)
          more.push_back({task.side, a.inputs[i], b.inputs[exchanged && i < 2 ? 1 - i : i]});
        return more;
      };
      if (a.op->commutative() && a.inputs.size() >= 2 && solve(pairing, with_operands(true))) return true;
      tasks = with_operands(false);
    }
    return finish(std::move(pairing));
  }

  static bool match(const Index& a, const Index& b, Pairing& pairing) {
    const Atom *x = a.as_atom(), *y = b.as_atom();
    if (x && y && x->kind == Atom::Kind::kSymbol && y->kind == Atom::Kind::kSymbol) return pairing.names.bind(x->name, y->name);
    if (a.is_constant() || b.is_constant()) return a == b;
    pairing.open.emplace_back(a, b);
    return true;
  }

  static bool match(const Indices& a, const Indices& b, Pairing& pairing) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!match(a[i], b[i], pairing)) return false;
    return true;
  }

  static bool match(const Expression& a, const Expression& b, Pairing& pairing) {
    if (a.kind != b.kind || a.arguments.size() != b.arguments.size()) return false;
    if (a.kind == Expression::Kind::kVariable) return pairing.names.bind(a.name, b.name);
    if (a.kind == Expression::Kind::kCall) {
      if (a.name != b.name) return false;
      for (std::size_t i = 0; i < a.arguments.size(); ++i)
        if (!match(a.arguments[i], b.arguments[i], pairing)) return false;
      return true;
    }
    if (a.value.index() != b.value.index()) return false;
    if (const auto* i = std::get_if<Index>(&a.value)) return match(*i, std::get<Index>(b.value), pairing);
    if (const auto* l = std::get_if<Indices>(&a.value)) return match(*l, std::get<Indices>(b.value), pairing);
    if (const auto* r = std::get_if<Real>(&a.value); r && !r->symbol.empty() && !std::get<Real>(b.value).symbol.empty())
      return pairing.names.bind(r->symbol, std::get<Real>(b.value).symbol);
    return a.value == b.value;
  }

  static bool match(const PatternInput& a, const PatternInput& b, Pairing& pairing) {
    if (a.constant != b.constant || a.type.kind != b.type.kind || a.type.fixed != b.type.fixed ||
        a.shape.open != b.shape.open || a.type.variable.empty() != b.type.variable.empty() ||
        a.shape.middle.empty() != b.shape.middle.empty())
      return false;
    if (!a.type.variable.empty() && !pairing.names.bind(a.type.variable, b.type.variable)) return false;
    if (!a.shape.middle.empty() && !pairing.names.bind(a.shape.middle, b.shape.middle)) return false;
    return pairing.names.bind(a.name, b.name) && match(a.shape.front, b.shape.front, pairing) &&
           match(a.shape.back, b.shape.back, pairing);
  }

  // All operators are paired. Compares inputs and quantities, then everything over paired names.
  bool finish(Pairing pairing) {
    for (const auto& [a, b] : pairing.inputs.there)
      if (!match(a_.inputs[a], b_.inputs[b], pairing)) return false;
    for (std::size_t i = 0; i < a_.quantities.size(); ++i) {
      const Quantity& a = a_.quantities[i];
      const auto named = pairing.names.there.find(a.name);
      const std::string name = named == pairing.names.there.end() ? b_.quantities[i].name : named->second;
      const auto b =
          std::find_if(b_.quantities.begin(), b_.quantities.end(), [&](const Quantity& q) { return q.name == name; });
      if (b == b_.quantities.end() || !pairing.names.bind(a.name, b->name) || !match(a.value, b->value, pairing)) return false;
    }
    std::set<std::string> free_a, free_b;
    const auto collect = [](const Index& index, const std::map<std::string, std::string>& bound, std::set<std::string>& names) {
      for_each_atom(index, [&](const Atom& atom) {
        if (atom.kind == Atom::Kind::kSymbol && !bound.count(atom.name)) names.insert(atom.name);
      });
    };
    for (const auto& [a, b] : pairing.open) {
      collect(a, pairing.names.there, free_a);
      collect(b, pairing.names.back, free_b);
    }
    if (free_a.size() != free_b.size() || free_a.size() > kMaximumFree) return false;
    std::vector<std::string> others(free_b.begin(), free_b.end());
    do {
      Pairing complete = pairing;
      std::size_t i = 0;
      for (const std::string& name : free_a) complete.names.bind(name, others[i++]);
      if (agrees(complete)) return true;
    } while (std::next_permutation(others.begin(), others.end()));
    return false;
  }

  static Index renamed(const Index& index, const Pairing& pairing) {
    return substitute(index, [&](const Atom& atom) -> std::optional<Index> {
      const auto found = atom.kind == Atom::Kind::kSymbol ? pairing.names.there.find(atom.name) : pairing.names.there.end();
      return found == pairing.names.there.end() ? std::nullopt : std::optional(Index::symbol(found->second));
    });
  }

  static bool open_agree(const Pairing& pairing) {
    return std::all_of(pairing.open.begin(), pairing.open.end(),
                       [&](const auto& pair) { return renamed(pair.first, pairing) == pair.second; });
  }

  bool agrees(const Pairing& pairing) const {
    if (!open_agree(pairing)) return false;
    std::vector<std::string> left, right;
    const auto text = [](const Index& l, Condition::Relation relation, const Index& r) {
      const bool symmetric = relation == Condition::Relation::kEqual || relation == Condition::Relation::kNotEqual;
      const bool exchanged = symmetric && Index::compare(r, l) < 0;
      return (exchanged ? Condition{r, relation, l} : Condition{l, relation, r}).to_string();
    };
    for (const Condition& c : a_.conditions)
      left.push_back(text(renamed(c.left, pairing), c.relation, renamed(c.right, pairing)));
    for (const Condition& c : b_.conditions) right.push_back(text(c.left, c.relation, c.right));
    std::sort(left.begin(), left.end());
    std::sort(right.begin(), right.end());
    if (left != right) return false;
    std::vector<const Predicate*> others;
    for (const Predicate& p : b_.predicates) others.push_back(&p);
    for (const Predicate& p : a_.predicates) {
      const auto found =
          std::find_if(others.begin(), others.end(), [&](const Predicate* other) { return same(p, *other, pairing); });
      if (found == others.end()) return false;
      others.erase(found);
    }
    return true;
  }

  // The order of the two sides of an equation does not matter.
  static bool same(const Predicate& a, const Predicate& b, const Pairing& pairing) {
    if (a.kind != b.kind || a.arguments.size() != b.arguments.size()) return false;
    const auto in_order = [&](bool exchanged) {
      Pairing trial = pairing;
      trial.open.clear();
      for (std::size_t i = 0; i < a.arguments.size(); ++i)
        if (!match(a.arguments[i], b.arguments[exchanged ? 1 - i : i], trial)) return false;
      return open_agree(trial);
    };
    return in_order(false) || (a.arguments.size() == 2 && in_order(true));
  }

  const Rule &a_, &b_;
  int steps_ = 0;
};

}  // namespace

bool same_rule(const Rule& a, const Rule& b) { return Isomorphism(a, b).run(); }

}  // namespace rewright::rules
