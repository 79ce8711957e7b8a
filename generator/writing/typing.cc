#include "generator/writing/typing.h"

#include <algorithm>
#include <map>
#include <set>

namespace rewright::generator {

namespace {

using Kind = Expression::Kind;

bool has_symbols(const Attributes& attributes) {
  bool found = false;
  const auto look = [&](const Index& i) { for_each_atom(i, [&](const Atom& a) { found |= a.kind == Atom::Kind::kSymbol; }); };
  for (const AttributeValue& v : attributes) {
    if (const Index* i = std::get_if<Index>(&v)) look(*i);
    if (const Indices* l = std::get_if<Indices>(&v)) std::for_each(l->begin(), l->end(), look);
  }
  return found;
}

// The attributes as expressions of a rule. Element types are those of the inputs.
std::vector<rules::Expression> said(const Operator& op, const Attributes& attributes) {
  std::vector<rules::Expression> result;
  for (std::size_t i = 0; i < attributes.size(); ++i)
    result.push_back(std::holds_alternative<DataType>(attributes[i]) && op.fields()[i].name == "type"
                         ? rules::Expression::variable("T")
                         : rules::Expression::literal(attributes[i]));
  return result;
}

class Sizes {
 public:
  Sizes(const Equation& equation, Forms& forms, const SizeOptions& options) : q_(equation), forms_(forms), options_(options) {}

  std::optional<Typing> run() {
    for (std::uint32_t at = 0; at < q_.expressions.size(); ++at) prepare(at);
    for (const auto* side : {&q_.left, &q_.right})
      for (const std::uint32_t leaf : parameters_of(q_, *side, forms_.configuration())) prepare_parameter(leaf);
    if (options_.windows != SizeOptions::Windows::kNone) prepare_windows();
    for (int round = 0; round < 12; ++round) {
      changed_ = false;
      try {
        if (!infer()) return std::nullopt;
      } catch (const Error&) {
        return std::nullopt;
      }
      if (!changed_) return typing();
    }
    return std::nullopt;
  }

 private:
  Index fresh(const std::string& name, const Index& original) {
    originals_[name] = original;
    return Index::symbol(name);
  }

  void prepare(std::uint32_t at) {
    const Expression& e = q_.expressions[at];
    types_.push_back(forms_.type(e.type).type);
    attributes_.emplace_back();
    if (e.kind == Kind::kVariable) {
      std::string letter = input_name(e.number);
      for (char& c : letter) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
      for (std::size_t a = 0; a < types_[at].rank(); ++a)
        if (Index& size = types_[at].shape[a]; options_.numbers || !size.is_constant())
          size = fresh(letter + std::to_string(a), size);
    } else if (e.kind == Kind::kConstant) {
      const Leaf& leaf = forms_.configuration().leaves[e.number];
      Attributes attributes = leaf.attributes;
      if (options_.windows != SizeOptions::Windows::kNone) generalize_windows(*leaf.op, attributes);
      if (const auto group = options_.groups ? leaf.op->field("group") : std::nullopt)
        attributes[*group] = fresh("group", Index(1));
      attributes_[at] = with_own_symbols(attributes, "Q" + std::to_string(at));
    }
  }

  Attributes with_own_symbols(const Attributes& attributes, const std::string& prefix) {
    return substitute(attributes, [&](const Atom& atom) -> std::optional<Index> {
      if (atom.kind != Atom::Kind::kSymbol || originals_.count(atom.name)) return std::nullopt;
      return fresh(prefix + atom.name, Index::symbol(atom.name));
    });
  }

  void prepare_parameter(std::uint32_t number) {
    const Leaf& leaf = forms_.configuration().leaves[number];
    Parameter& p = parameters_[number];
    if (p.known) return;
    p = {true, leaf.type, {}};
    const std::string prefix = "P" + std::to_string(number) + "_";
    if (leaf.constant())
      p.attributes = with_own_symbols(leaf.attributes, "Q" + prefix);
    else
      for (std::size_t a = 0; a < p.type.rank(); ++a) p.type.shape[a] = fresh(prefix + std::to_string(a), p.type.shape[a]);
  }

  TensorType parameter(std::uint32_t number) {
    const Leaf& leaf = forms_.configuration().leaves[number];
    Parameter& p = parameters_.at(number);
    if (!leaf.constant()) return {p.type.type, substitute(p.type.shape, current())};
    p.attributes = substitute(p.attributes, current());
    return define(*leaf.op, p.attributes, {}).at(0);
  }

  Substitution current() const {
    return [this](const Atom& atom) -> std::optional<Index> {
      if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
      const auto known = solved_.find(atom.name);
      return known == solved_.end() ? std::nullopt : std::optional(known->second);
    };
  }
  Substitution back() const {
    return [this](const Atom& atom) -> std::optional<Index> {
      const auto known = originals_.find(atom.name);
      return atom.kind != Atom::Kind::kSymbol || known == originals_.end() ? std::nullopt : std::optional(known->second);
    };
  }

  using Windows = SizeOptions::Windows;

  // Prepares pads and the enlargement of kernels: a convolution with an enlarged kernel has larger pads.
  void prepare_windows() {
    for (const char* end : {"pads_begin", "pads_end"}) {
      std::vector<Indices> pads, enlarged;
      for (const Expression& e : q_.expressions) {
        const Form* form = form_of(q_, e, forms_);
        const Operator* op = operator_of(e, forms_.configuration());
        const auto field = form ? op->field(end) : std::nullopt;
        if (!field) continue;
        const Indices& list = std::get<Indices>(form->attributes[*field]);
        if (list.size() == 2) pads.push_back(list);
        if (list.size() == 4) enlarged.push_back({list[2], list[3]});
      }
      for (const Indices& large : pads)
        for (const Indices& small : pads)
          for (const Indices& by : enlarged)
            if (large[0] - small[0] == by[0] && large[1] - small[1] == by[1] && !(large == small))
              larger_[{end, to_string(AttributeValue(large))}] = {small, by};
    }
  }

  Indices window(const std::string& role, const Indices& list) {
    if (const auto found = larger_.find({role, to_string(AttributeValue(list))}); found != larger_.end()) {
      const Indices small = window(role, found->second.first), by = enlargement(role, found->second.second);
      return {small[0] + by[0], small[1] + by[1]};
    }
    return named(role, list);
  }
  Indices enlargement(const std::string& role, const Indices& list) {
    return options_.windows == Windows::kFree ? named("enlarged_" + role, list) : list;
  }
  Indices named(const std::string& role, const Indices& list) {
    std::vector<std::string>& known = windows_[role];
    const std::string text = to_string(AttributeValue(list));
    const auto at = std::find(known.begin(), known.end(), text) - known.begin();
    if (static_cast<std::size_t>(at) == known.size()) known.push_back(text);
    Indices result;
    for (std::size_t i = 0; i < list.size(); ++i)
      result.push_back(fresh(role + (at ? std::to_string(at + 1) : "") + "_" + std::to_string(i), list[i]));
    return result;
  }
  void generalize_windows(const Operator& op, Attributes& attributes) {
    for (std::size_t f = 0; f < op.fields().size(); ++f) {
      Indices* list = std::get_if<Indices>(&attributes[f]);
      const std::string& name = op.fields()[f].name;
      const std::string role = name == "centre" ? "pads_begin" : name;
      if (!list || (role != "kernel" && role != "pads_begin" && role != "pads_end")) continue;
      if (list->size() == 2) *list = window(role, *list);
      if (list->size() == 4) {
        const Indices by = enlargement(role, {(*list)[2], (*list)[3]});
        *list = {(*list)[0], (*list)[1], by[0], by[1]};
      }
    }
  }

  // Divides by a common factor: sizes and groups are not 0, so a g = b g means a = b.
  static std::optional<Index> without_common_factor(const Index& difference) {
    const auto& monomials = difference.polynomial()->monomials;
    if (!(difference.constant_term() == 0)) return std::nullopt;
    for (const AtomPointer& factor : monomials[0].factors) {
      Index rest = 0;
      bool common = true;
      for (const Monomial& m : monomials) {
        const auto at =
            std::find_if(m.factors.begin(), m.factors.end(), [&](const AtomPointer& a) { return a->id == factor->id; });
        if (!(common = at != m.factors.end())) break;
        Index term = m.coefficient;
        for (auto other = m.factors.begin(); other != m.factors.end(); ++other)
          if (other != at) term *= Index::atom(*other);
        rest += term;
      }
      if (common) return rest;
    }
    return std::nullopt;
  }

  // Solves left = right for a symbol. Sizes of constants come first, since they follow from those of inputs.
  bool unify(const Index& left, const Index& right) {
    const Index difference = substitute(left - right, current());
    if (difference.is_constant()) return difference == Index(0);
    const Monomial* best = nullptr;
    for (const Monomial& m : difference.polynomial()->monomials) {
      if (m.factors.size() != 1 || m.factors[0]->kind != Atom::Kind::kSymbol || std::abs(m.coefficient) != 1) continue;
      if (!best || m.factors[0]->name[0] == 'Q' || best->factors[0]->name[0] != 'Q') best = &m;
    }
    // An equation between quotients or remainders becomes a condition, unless typing implies it.
    bool divides = false;
    for_each_atom(difference, [&](const Atom& a) { divides |= a.kind != Atom::Kind::kSymbol; });
    if (divides) return true;
    if (!best) {
      const auto rest = without_common_factor(difference);
      return rest && unify(*rest, Index(0));
    }
    const std::string name = best->factors[0]->name;
    const Index symbol = Index::atom(best->factors[0]);
    const Index rest = best->coefficient == 1 ? symbol - difference : symbol + difference;
    bool inside = false;
    for_each_atom(rest, [&](const Atom& a) { inside |= a.kind == Atom::Kind::kSymbol && a.name == name; });
    if (inside) return false;
    solved_[name] = rest;
    for (auto& [n, value] : solved_) value = substitute(value, current());
    changed_ = true;
    return true;
  }

  std::vector<TensorType> define(const Operator& op, const Attributes& attributes, std::span<const TensorType> operands) {
    const Definition d = op.define(attributes, Inputs::of(operands).types_only());
    for (const Requirement& r : d.requirements())
      if (r.condition.relation == Condition::Relation::kEqual && r.condition.decided() != true &&
          !unify(r.condition.left, r.condition.right))
        throw Error(ErrorCode::kUnsupported, r.message);
    std::vector<TensorType> types;
    for (const Output& o : d.outputs()) types.push_back(o.type);
    return types;
  }

  // The choice's attributes for these operands that correspond to those found.
  std::optional<Attributes> general_attributes(const Choice& choice, const Form& form,
                                               const std::vector<TensorType>& operands) {
    Attributes found = form.attributes;
    const bool grouped = options_.groups && choice.op->field("group").has_value();
    if (grouped) {
      Index& group = std::get<Index>(found[choice.op->field("group").value()]);
      // One symbol cannot stand for several numbers of groups.
      if (!(originals_.try_emplace("group", group).first->second == group)) return std::nullopt;
      group = Index::symbol("group");
    }
    if (options_.windows != Windows::kNone) {
      generalize_windows(*choice.op, found);
      return found;
    }
    if (grouped) return found;
    if (!has_symbols(form.attributes)) return form.attributes;
    for (Attributes& a : choice.attributes(operands)) {
      a = choice.op->normalized(std::move(a), Inputs::of(std::span<const TensorType>(operands)).types_only());
      if (substitute(a, back()) == form.attributes) return a;
    }
    return std::nullopt;
  }

  bool infer() {
    std::vector<TensorType> known;
    for (std::uint32_t at = 0; at < q_.expressions.size(); ++at) {
      const Expression& e = q_.expressions[at];
      if (e.kind == Kind::kVariable) {
        known.push_back({DataType::kFloat, substitute(types_[at].shape, current())});
        continue;
      }
      if (e.kind == Kind::kConstant) {
        attributes_[at] = substitute(attributes_[at], current());
        known.push_back(define(*forms_.configuration().leaves[e.number].op, attributes_[at], {}).at(0));
        continue;
      }
      std::vector<TensorType> operands;
      for (const std::uint32_t a : e.arguments)
        if (a != Expression::kNone) operands.push_back(known[a]);
      const Form* form = form_of(q_, e, forms_);
      if (!form) return false;
      const Choice& choice = forms_.configuration().choices[e.number];
      const auto attributes = general_attributes(choice, *form, operands);
      if (!attributes) return false;
      attributes_[at] = *attributes;
      for (const std::uint32_t p : choice.parameters) operands.push_back(parameter(p));
      std::vector<TensorType> results = define(*choice.op, attributes_[at], operands);
      if (choice.activation) results = define(*choice.activation, choice.activation->defaults(), results);
      known.push_back(results.at(e.output));
    }
    for (std::size_t i = 0; i < q_.left.size(); ++i) {
      const Indices &a = known[q_.left[i]].shape, &b = known[q_.right[i]].shape;
      if (a.size() != b.size()) return false;
      for (std::size_t k = 0; k < a.size(); ++k)
        if (!unify(a[k], b[k])) return false;
    }
    return true;
  }

  Typing typing() const {
    Typing result;
    result.inputs.resize(q_.variables);
    for (std::uint32_t at = 0; at < q_.expressions.size(); ++at) {
      const Expression& e = q_.expressions[at];
      const Operator* op = operator_of(e, forms_.configuration());
      result.attributes.push_back(op ? said(*op, substitute(attributes_[at], current())) : std::vector<rules::Expression>());
      if (e.kind == Kind::kVariable) result.inputs[e.number] = {substitute(types_[at].shape, current()), false, {}, {}};
    }
    for (const auto& [number, p] : parameters_) {
      const Leaf& leaf = forms_.configuration().leaves[number];
      if (leaf.constant())
        result.constant_parameters[number] = said(*leaf.op, substitute(p.attributes, current()));
      else
        result.parameters[number] = {substitute(p.type.shape, current()), false, {}, {}};
    }
    // Enlargements must not be negative. For pads, the operators that compute them require it.
    std::set<std::string> said;
    for (const auto& [role, lists] : windows_)
      for (std::size_t n = 0; n < lists.size(); ++n)
        for (const char* axis : {"_0", "_1"}) {
          const Index size = substitute(Index::symbol(role + (n ? std::to_string(n + 1) : "") + axis), current());
          const bool enlarged = role.starts_with("enlarged");
          if (size.is_constant() || role == "kernel" || (size.as_atom() && !enlarged)) continue;
          if (said.insert(size.to_string()).second) result.conditions.push_back(less_equal(0, size));
        }
    return result;
  }

  const Equation& q_;
  Forms& forms_;
  const SizeOptions options_;
  std::vector<TensorType> types_;
  std::vector<Attributes> attributes_;
  struct Parameter {
    bool known = false;
    TensorType type;
    Attributes attributes;  // for a constant
  };
  std::map<std::uint32_t, Parameter> parameters_;  // by leaf
  std::map<std::string, Index> originals_, solved_;
  std::map<std::string, std::vector<std::string>> windows_;                            // symbol names by role
  std::map<std::pair<std::string, std::string>, std::pair<Indices, Indices>> larger_;  // a list that is the sum of two others
  bool changed_ = false;
};

}  // namespace

std::string input_name(std::uint32_t variable) {
  static constexpr std::string_view kLetters = "xyzuvwabcdefghijklmnopqrst";
  return variable < kLetters.size() ? std::string(1, kLetters[variable]) : "x" + std::to_string(variable);
}

const Form* form_of(const Equation& q, const Expression& e, Forms& forms) {
  if (e.kind != Kind::kOperator) return nullptr;
  std::vector<TypeId> types;
  for (const std::uint32_t a : e.arguments)
    if (a != Expression::kNone) types.push_back(q.expressions[a].type);
  for (const FormId f : forms.find(e.number, types))
    if (forms.form(f).variant == e.variant) return &forms.form(f);
  return nullptr;
}

const Operator* operator_of(const Expression& e, const Configuration& configuration) {
  if (e.kind == Kind::kConstant) return configuration.leaves[e.number].op;
  return e.kind == Kind::kOperator ? configuration.choices[e.number].op : nullptr;
}

std::set<std::uint32_t> parameters_of(const Equation& q, const std::vector<std::uint32_t>& roots,
                                      const Configuration& configuration) {
  const std::vector<bool> used = q.reachable(roots);
  std::set<std::uint32_t> result;
  for (std::size_t at = 0; at < used.size(); ++at)
    if (const Expression& e = q.expressions[at]; used[at] && e.kind == Kind::kOperator)
      for (const std::uint32_t leaf : configuration.choices[e.number].parameters) result.insert(leaf);
  return result;
}

Typing concrete_typing(const Equation& q, Forms& forms) {
  Typing typing;
  typing.inputs.resize(q.variables);
  for (const Expression& e : q.expressions) {
    typing.attributes.emplace_back();
    if (e.kind == Kind::kVariable) {
      typing.inputs[e.number] = {forms.type(e.type).type.shape, false, {}, {}};
      continue;
    }
    const Form* form = form_of(q, e, forms);
    if (e.kind == Kind::kConstant || form)
      typing.attributes.back() =
          said(*operator_of(e, forms.configuration()),
               e.kind == Kind::kConstant ? forms.configuration().leaves[e.number].attributes : form->attributes);
  }
  for (const auto* side : {&q.left, &q.right})
    for (const std::uint32_t number : parameters_of(q, *side, forms.configuration())) {
      const Leaf& leaf = forms.configuration().leaves[number];
      if (leaf.constant())
        typing.constant_parameters[number] = said(*leaf.op, leaf.attributes);
      else
        typing.parameters[number] = {leaf.type.shape, false, {}, {}};
    }
  return typing;
}

std::optional<Typing> sized_typing(const Equation& q, Forms& forms, const SizeOptions& options) {
  return Sizes(q, forms, options).run();
}

}  // namespace rewright::generator
