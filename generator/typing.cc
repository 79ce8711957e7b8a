#include "generator/typing.h"

#include <algorithm>
#include <map>

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

// Types of elements are those of the inputs.
std::vector<rewright::Expression> said(const Operator& op, const Attributes& attributes) {
  std::vector<rewright::Expression> result;
  for (std::size_t i = 0; i < attributes.size(); ++i)
    result.push_back(std::holds_alternative<DataType>(attributes[i]) && op.fields()[i].name == "type"
                         ? rewright::Expression::variable("T")
                         : rewright::Expression::literal(attributes[i]));
  return result;
}

class Sizes {
 public:
  Sizes(const Equation& equation, Forms& forms, const SizeOptions& options) : q_(equation), forms_(forms), options_(options) {}

  std::optional<Typing> run() {
    for (std::uint32_t at = 0; at < q_.expressions.size(); ++at) prepare(at);
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
      attributes_[at] = substitute(leaf.attributes, [&](const Atom& atom) -> std::optional<Index> {
        if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
        return fresh("Q" + std::to_string(at) + atom.name, Index::symbol(atom.name));
      });
    }
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

  // Solves a symbol out of left = right; sizes of constants first, they follow from those of inputs.
  bool unify(const Index& left, const Index& right) {
    const Index difference = substitute(left - right, current());
    if (difference.is_constant()) return difference == Index(0);
    const Monomial* best = nullptr;
    for (const Monomial& m : difference.polynomial()->monomials) {
      if (m.factors.size() != 1 || m.factors[0]->kind != Atom::Kind::kSymbol || std::abs(m.coefficient) != 1) continue;
      if (!best || m.factors[0]->name[0] == 'Q' || best->factors[0]->name[0] != 'Q') best = &m;
    }
    if (!best) return false;
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

  // The choice's attributes for these operands that are those which were found.
  std::optional<Attributes> general_attributes(const Choice& choice, const Form& form,
                                               const std::vector<TensorType>& operands) const {
    if (const auto group = choice.op->field("group"); group && options_.groups) {
      Attributes a = form.attributes;
      a[*group] = Index::symbol("group");
      return a;
    }
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
      result.attributes.push_back(op ? said(*op, substitute(attributes_[at], current())) : std::vector<rewright::Expression>());
      if (e.kind == Kind::kVariable) result.inputs[e.number] = {substitute(types_[at].shape, current()), false, {}, {}};
    }
    return result;
  }

  const Equation& q_;
  Forms& forms_;
  const SizeOptions options_;
  std::vector<TensorType> types_;
  std::vector<Attributes> attributes_;
  std::map<std::string, Index> originals_, solved_;
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
  return typing;
}

std::optional<Typing> sized_typing(const Equation& q, Forms& forms, const SizeOptions& options) {
  return Sizes(q, forms, options).run();
}

}  // namespace rewright::generator
