// Finds an axis of a case without which the definitions are the same.
#include <algorithm>
#include <functional>
#include <optional>

#include "base/error.h"
#include "verifier/ranks.h"

namespace rewright::proof {

namespace {

// The axis in one value: which one, and the position on it for the position z of the output. None: the value does not have it.
struct AxisPlace {
  std::optional<std::size_t> axis;
  Index position;
  friend bool operator==(const AxisPlace&, const AxisPlace&) = default;
};

struct Reductions {
  bool failed = false;
  std::map<std::uint32_t, AxisPlace> inputs;
  std::map<std::pair<std::uint32_t, std::uint32_t>, AxisPlace> nodes[2];  // by node and output; of the source, of the target
};

Index output_position() { return Index::symbol("axis!"); }

Indices without(Indices list, const std::optional<std::size_t>& entry) {
  if (entry && *entry < list.size()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(*entry));
  return list;
}

TensorType without(TensorType type, const AxisPlace& place) {
  type.shape = without(std::move(type.shape), place.axis);
  return type;
}

void for_each_read(const ElementNode& e, const std::function<void(const ElementNode&)>& visit) {
  if (e.kind == ElementNode::Kind::kRead) visit(e);
  for (const Element& a : e.arguments) for_each_read(*a, visit);
}

// Is the denotation `a`, without the axis, the denotation `b`? `names` are the variables of `a` and those of `b`.
class SameWithoutAxis {
 public:
  SameWithoutAxis(Replacements names, const std::vector<AxisPlace>& operands) : names_(std::move(names)), operands_(operands) {}

  bool same(const ElementNode& a, const ElementNode& b) {
    if (a.kind != b.kind || a.scalar != b.scalar || !(a.real == b.real) || a.integer != b.integer ||
        a.reduction != b.reduction || a.operand != b.operand || a.zero_outside != b.zero_outside || a.function != b.function ||
        a.conditions.size() != b.conditions.size() || a.arguments.size() != b.arguments.size())
      return false;
    if (a.kind == ElementNode::Kind::kReduce) {
      if (!same(a.bound, b.bound)) return false;
      names_.emplace_back(a.index, b.index);
    } else if (!same(a.index, b.index)) {
      return false;
    }
    if (a.kind == ElementNode::Kind::kRead) {
      const Indices position = without(a.position, operands_.at(static_cast<std::size_t>(a.operand)).axis);
      if (position.size() != b.position.size()) return false;
      for (std::size_t i = 0; i < position.size(); ++i)
        if (!same(position[i], b.position[i])) return false;
    }
    for (std::size_t i = 0; i < a.conditions.size(); ++i)
      if (a.conditions[i].relation != b.conditions[i].relation || !same(a.conditions[i].left, b.conditions[i].left) ||
          !same(a.conditions[i].right, b.conditions[i].right))
        return false;
    for (std::size_t i = 0; i < a.arguments.size(); ++i)
      if (!same(*a.arguments[i], *b.arguments[i])) return false;
    if (a.kind == ElementNode::Kind::kReduce) names_.pop_back();
    return true;
  }

 private:
  // A variable of the axis has no name in `b`, so what mentions it differs. What depends on elements is not compared.
  bool same(const Index& a, const Index& b) const {
    bool loads = false;
    if (!a.is_constant())
      for_each_atom(a,
                    [&](const Atom& atom) { loads |= atom.kind == Atom::Kind::kLoad || atom.kind == Atom::Kind::kPosition; });
    return !loads && replaced(a, names_) == b;
  }

  Replacements names_;
  const std::vector<AxisPlace>& operands_;
};

// The search in one case.
class AxisSearch {
 public:
  AxisSearch(const Rule& rule, const SymbolicCase& c, Solver& solver) : rule_(rule), case_(c), solver_(solver) {}

  bool run() {
    try {
      sides_[0] = define_side(rule_, rule_.source, case_.inputs, case_.bindings, true, conditions_[0]);
      sides_[1] = define_side(rule_, rule_.target, case_.inputs, case_.bindings, true, conditions_[1]);
    } catch (const Error&) {
      return false;
    }
    return try_outputs(0, Reductions());
  }

 private:
  const Pattern& pattern(int side) const { return side == 0 ? rule_.source : rule_.target; }

  // Chooses an axis of each output in turn.
  bool try_outputs(std::size_t k, const Reductions& so_far) {
    if (k == rule_.source.outputs.size()) return complete(so_far);
    const std::size_t rank = type_of(sides_[0], rule_.source.outputs[k]).rank();
    for (std::size_t axis = 0; axis < rank; ++axis) {
      Reductions r = so_far;
      const AxisPlace place{axis, output_position()};
      assign(r, 0, rule_.source.outputs[k], place);
      assign(r, 1, rule_.target.outputs[k], place);
      if (!r.failed && try_outputs(k + 1, r)) return true;
    }
    return false;
  }

  static void assign(Reductions& r, int side, const PatternValue& value, const AxisPlace& place) {
    if (value.kind == PatternValue::Kind::kAbsent) return;
    if (value.kind == PatternValue::Kind::kInput) {
      const auto [known, is_new] = r.inputs.emplace(value.number, place);
      r.failed |= !is_new && !(known->second == place);
    } else {
      const auto [known, is_new] = r.nodes[side].emplace(std::pair(value.number, value.output), place);
      r.failed |= !is_new && !(known->second == place);
    }
  }

  // Follows the axis from the outputs to the inputs, then compares the definitions.
  bool complete(Reductions r) {
    for (const int side : {0, 1})
      for (std::size_t n = pattern(side).nodes.size(); n-- > 0 && !r.failed;) follow(r, side, static_cast<std::uint32_t>(n));
    if (r.failed) return false;
    std::size_t highest = 0;
    for (const TensorType& type : case_.inputs) highest = std::max(highest, type.rank());
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < case_.inputs.size(); ++i) {
      const AxisPlace place =
          r.inputs.count(static_cast<std::uint32_t>(i)) ? r.inputs.at(static_cast<std::uint32_t>(i)) : AxisPlace{};
      if (case_.inputs[i].rank() == highest && !place.axis) return false;
      types.push_back(without(case_.inputs[i], place));
    }
    Bindings bindings(rule_);
    for (std::size_t i = 0; i < types.size(); ++i)
      if (!bindings.bind_input(i, types[i])) return false;
    for (const auto& [name, value] :
         case_.bindings.values())  // sizes, numbers, types: but not axes, lists, and what is computed
      if (const auto* index = std::get_if<Index>(&value);
          (index ? !index->is_constant() : !std::holds_alternative<Indices>(value)) && !bindings.values().count(name) &&
          !is_quantity(name))
        bindings.bind(name, value);
    return define_source(r, types, std::move(bindings), 0);
  }

  bool is_quantity(const std::string& name) const {
    return std::any_of(rule_.quantities.begin(), rule_.quantities.end(), [&](const Quantity& q) { return q.name == name; });
  }

  void follow(Reductions& r, int side, std::uint32_t n) {
    const PatternNode& node = pattern(side).nodes[n];
    for (std::uint32_t o = 0; o < sides_[side].nodes[n].size(); ++o) {
      const auto known = r.nodes[side].find({n, o});
      if (known == r.nodes[side].end()) continue;
      const AxisPlace place = known->second;
      const Output& output = sides_[side].nodes[n][o];
      if (!output.element) {
        r.failed = true;
        return;
      }
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i].kind == PatternValue::Kind::kAbsent) continue;
        const auto found = place_in(sides_[side], node.inputs[i], static_cast<int>(i), output, place);
        if (!found)
          r.failed = true;
        else
          assign(r, side, node.inputs[i], *found);
      }
    }
  }

  // The axis in an operand, from the positions at which it is read.
  std::optional<AxisPlace> place_in(const DefinedSide& side, const PatternValue& operand, int number, const Output& output,
                                    const AxisPlace& place) const {
    if (!place.axis) return AxisPlace{};
    const Index& variable = output.position.at(*place.axis);
    const TensorType& type = type_of(side, operand);
    std::vector<const ElementNode*> reads;
    for_each_read(*output.element, [&](const ElementNode& e) {
      if (e.operand == number) reads.push_back(&e);
    });
    std::optional<std::size_t> axis;
    for (const ElementNode* e : reads)
      for (std::size_t a = 0; a < e->position.size(); ++a)
        if (occurs(variable, e->position[a])) {
          if (axis && *axis != a) return std::nullopt;
          axis = a;
        }
    if (!axis) {  // an axis of size 1 that is repeated goes with it
      const std::size_t missing = output.type.rank() - std::min(type.rank(), output.type.rank());
      const bool aligned = *place.axis >= missing && type.rank() <= output.type.rank() && !reads.empty();
      if (!aligned || !(type.shape[*place.axis - missing] == Index(1))) return AxisPlace{};
      axis = *place.axis - missing;
    }
    std::optional<Index> position;
    for (const ElementNode* e : reads) {
      const Index& here = e->position[*axis];
      bool mixed = false;
      if (!here.is_constant())
        for_each_atom(here, [&](const Atom& a) {
          mixed |= (a.kind == Atom::Kind::kBound && !(Index::atom(std::make_shared<const Atom>(a)) == variable)) ||
                   a.kind == Atom::Kind::kLoad || a.kind == Atom::Kind::kPosition;
        });
      if (mixed || (position && !(*position == here))) return std::nullopt;
      // Outside of the operand an element is 0: not along this axis.
      const bool inside = here == variable && type.shape[*axis] == output.type.shape[*place.axis];
      if (e->zero_outside && !inside && !(here == Index(0))) return std::nullopt;
      position = here;
    }
    if (!position) return AxisPlace{};
    return AxisPlace{axis, replaced(*position, {{variable, place.position}})};
  }

  // ---- The definitions without the axis

  void compute_quantities(Bindings& bindings) const {
    for (const Quantity& q : rule_.quantities)
      if (!bindings.values().count(q.name))
        if (const auto value = bindings.try_evaluate(q.value)) bindings.bind(q.name, *value);
  }

  // Values that a list or an axis may have without the axis: an entry less, an axis renumbered, or both.
  std::vector<AttributeValue> smaller(const AttributeValue& value, const std::vector<std::size_t>& axes) const {
    std::vector<AttributeValue> result{value};
    const auto add = [&](AttributeValue v) {
      if (std::find(result.begin(), result.end(), v) == result.end()) result.push_back(std::move(v));
    };
    for (const std::size_t removed : axes) {
      const auto renumbered = [&](const Index& i) {
        return i.is_constant() && i.value() > static_cast<std::int64_t>(removed) ? i - 1 : i;
      };
      if (const auto* index = std::get_if<Index>(&value)) add(renumbered(*index));
      const auto* list = std::get_if<Indices>(&value);
      if (!list) continue;
      add(without(*list, removed));
      Indices renamed, rest;
      for (const Index& i : *list) {
        renamed.push_back(renumbered(i));
        if (!(i == Index(removed))) rest.push_back(renumbered(i));
      }
      add(renamed), add(rest);
    }
    return result;
  }

  // Gives the variables of the source's attributes, node by node, values with which the nodes are the same without the axis.
  bool define_source(const Reductions& r, const std::vector<TensorType>& types, Bindings bindings, std::size_t n) {
    compute_quantities(bindings);
    if (n == rule_.source.nodes.size()) return define_all(r, types, bindings);
    std::vector<std::string> unknown;
    const std::function<void(const Expression&)> collect = [&](const Expression& e) {
      const auto add = [&](const std::string& name) {
        if (case_.bindings.values().count(name) && !bindings.values().count(name) && !is_quantity(name) &&
            std::find(unknown.begin(), unknown.end(), name) == unknown.end())
          unknown.push_back(name);
      };
      const auto index = [&](const Index& i) {
        if (!i.is_constant())
          for_each_atom(i, [&](const Atom& a) {
            if (a.kind == Atom::Kind::kSymbol) add(a.name);
          });
      };
      if (e.kind == Expression::Kind::kVariable) add(e.name);
      if (const auto* i = std::get_if<Index>(&e.value)) index(*i);
      if (const auto* list = std::get_if<Indices>(&e.value)) std::for_each(list->begin(), list->end(), index);
      for (const Expression& a : e.arguments) collect(a);
    };
    for (const Expression& e : rule_.source.nodes[n].attributes) collect(e);
    std::vector<std::size_t> axes;
    const auto add_axis = [&](const AxisPlace& place) {
      if (place.axis && std::find(axes.begin(), axes.end(), *place.axis) == axes.end()) axes.push_back(*place.axis);
    };
    for (const auto& [where, place] : r.nodes[0])
      if (where.first == n) add_axis(place);
    for (const PatternValue& v : rule_.source.nodes[n].inputs) add_axis(place_of(r, 0, v));
    const std::function<bool(std::size_t, const Bindings&)> choose = [&](std::size_t k, const Bindings& now) {
      if (k == unknown.size()) {
        Bindings full = now;
        compute_quantities(full);
        return same_node(r, 0, n, types, full) && define_source(r, types, full, n + 1);
      }
      for (const AttributeValue& value : smaller(case_.bindings.values().at(unknown[k]), axes)) {
        Bindings next = now;
        if (next.bind(unknown[k], value) && choose(k + 1, next)) return true;
      }
      return false;
    };
    return choose(0, bindings);
  }

  AxisPlace place_of(const Reductions& r, int side, const PatternValue& v) const {
    if (v.kind == PatternValue::Kind::kInput) {
      const auto known = r.inputs.find(v.number);
      return known == r.inputs.end() ? AxisPlace{} : known->second;
    }
    const auto known = r.nodes[side].find({v.number, v.output});
    return known == r.nodes[side].end() ? AxisPlace{} : known->second;
  }

  const TensorType& full_type(int side, const PatternValue& v) const { return type_of(sides_[side], v); }

  // Is the node's denotation without the axis that of the node with the operands and attributes that it has without it?
  bool same_node(const Reductions& r, int side, std::size_t n, const std::vector<TensorType>& types,
                 const Bindings& bindings) const {
    const PatternNode& node = pattern(side).nodes[n];
    std::vector<std::optional<TensorType>> operands;
    std::vector<AxisPlace> places;
    for (const PatternValue& v : node.inputs) {
      const bool absent = v.kind == PatternValue::Kind::kAbsent;
      places.push_back(absent ? AxisPlace{} : place_of(r, side, v));
      operands.push_back(absent                                 ? std::nullopt
                         : v.kind == PatternValue::Kind::kInput ? std::optional(types[v.number])
                                                                : std::optional(without(full_type(side, v), places.back())));
    }
    try {
      const Inputs in = Inputs::of(std::span<const std::optional<TensorType>>(operands));
      Attributes written;
      for (const Expression& e : node.attributes) {
        auto value = bindings.try_evaluate(e);
        if (!value) return false;
        written.push_back(std::move(*value));
      }
      const Attributes normalized = node.op->normalized(written, in);
      const Definition d = node.op->define(normalized, in);
      const std::vector<Output>& full = sides_[side].nodes[n];
      if (d.outputs().size() != full.size()) return false;
      for (std::uint32_t o = 0; o < full.size(); ++o) {
        const AxisPlace place = place_of(r, side, PatternValue::node(static_cast<std::uint32_t>(n), o));
        const Output& small = d.outputs()[o];
        if (!r.nodes[side].count({static_cast<std::uint32_t>(n), o})) continue;  // nothing reads it
        if (!(without(full[o].type, place) == small.type) || !small.element) return false;
        const Indices position = without(full[o].position, place.axis);
        Replacements names;
        for (std::size_t a = 0; a < position.size(); ++a) names.emplace_back(position[a], small.position.at(a));
        if (!SameWithoutAxis(names, places).same(*full[o].element, *small.element)) return false;
      }
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  // ---- The whole rule without the axis

  bool define_all(const Reductions& r, const std::vector<TensorType>& types, const Bindings& bindings) {
    SideConditions small[2];
    try {
      for (const int side : {0, 1}) define_side(rule_, pattern(side), types, bindings, false, small[side]);
    } catch (const Error&) {
      return false;
    }
    if (!small[0].reachable) return false;
    for (std::size_t n = 0; n < rule_.target.nodes.size(); ++n)
      if (!same_node(r, 1, n, types, bindings)) return false;
    // The smaller instance satisfies what the rule asks for.
    Guards needed;
    if (!conditions_of(bindings, needed)) return false;
    for (const Condition& c : small[0].typing) needed.push_back(guard(c));
    for (const Guard& g : needed)
      if (!is_known(g)) return false;
    // All else that is known is about the axis. From it follows that the target is well-typed, and as large, along the axis.
    Guards about_axis, known_below;
    for (const Condition& c : small[1].typing) known_below.push_back(guard(c));
    for (const Guard& g : case_.hypotheses)
      if (std::find(needed.begin(), needed.end(), g) == needed.end()) about_axis.push_back(g);
    const auto follows = [&](const Guard& g) {
      return g.decided() == true || std::find(about_axis.begin(), about_axis.end(), g) != about_axis.end() ||
             solver_.proves_quickly(about_axis, g);
    };
    for (const Condition& c : conditions_[1].typing) {
      const Guard g = guard(c);
      if (std::find(known_below.begin(), known_below.end(), g) == known_below.end() && !follows(g)) return false;
    }
    for (std::size_t k = 0; k < rule_.source.outputs.size(); ++k) {
      const AxisPlace place = place_of(r, 0, rule_.source.outputs[k]);
      const TensorType &a = type_of(sides_[0], rule_.source.outputs[k]), &b = type_of(sides_[1], rule_.target.outputs[k]);
      if (a.type != b.type || a.rank() != b.rank() || !follows(zero(a.shape[*place.axis] - b.shape[*place.axis]))) return false;
    }
    return true;
  }

  bool is_known(const Guard& g) const {
    return g.decided() == true || std::find(case_.hypotheses.begin(), case_.hypotheses.end(), g) != case_.hypotheses.end();
  }

  // The rule's conditions for these bindings; false if one has no value or cannot hold.
  bool conditions_of(const Bindings& bindings, Guards& guards) const {
    for (const Quantity& q : rule_.quantities)
      if (!bindings.values().count(q.name)) return false;
    for (const Condition& c : rule_.conditions) {
      const auto left = bindings.try_evaluate(c.left), right = bindings.try_evaluate(c.right);
      if (!left || !right) return false;
      guards.push_back(guard({*left, c.relation, *right}));
    }
    for (const Predicate& p : rule_.predicates) {
      std::vector<AttributeValue> values;
      for (const Expression& e : p.arguments) {
        auto value = bindings.try_evaluate(e);
        if (!value) return false;
        values.push_back(std::move(*value));
      }
      const auto* list = std::get_if<Indices>(&values[0]);
      switch (p.kind) {
        case Predicate::Kind::kEqual:
        case Predicate::Kind::kNotEqual: {
          const bool wanted = p.kind == Predicate::Kind::kEqual;
          if (!list) {
            if (!std::holds_alternative<Real>(values[0]) && (values[0] == values[1]) != wanted) return false;
            break;
          }
          const auto& other = std::get<Indices>(values[1]);
          if (!wanted || list->size() != other.size()) return false;
          for (std::size_t i = 0; i < list->size(); ++i) guards.push_back(zero((*list)[i] - other[i]));
          break;
        }
        case Predicate::Kind::kPermutation: {
          std::vector<bool> seen(list->size());
          for (const Index& i : *list) {
            const auto at = i.constant();
            if (!at || *at < 0 || *at >= static_cast<std::int64_t>(seen.size()) || seen[static_cast<std::size_t>(*at)])
              return false;
            seen[static_cast<std::size_t>(*at)] = true;
          }
          break;
        }
        case Predicate::Kind::kPositive:
        case Predicate::Kind::kNonNegative:
          if (list)
            for (const Index& i : *list) guards.push_back(at_least(i, p.kind == Predicate::Kind::kPositive ? 1 : 0));
          break;
      }
    }
    return true;
  }

  const Rule& rule_;
  const SymbolicCase& case_;
  Solver& solver_;
  DefinedSide sides_[2];
  SideConditions conditions_[2];
};

}  // namespace

bool has_pointwise_axis(const Rule& rule, const SymbolicCase& c, Solver& solver) { return AxisSearch(rule, c, solver).run(); }

}  // namespace rewright::proof
