#include "verifier/normal_form.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "expressions/division.h"
#include "verifier/divisions.h"
#include "verifier/number_laws.h"

namespace rewright::proof {

using Kind = ElementNode::Kind;

namespace {

// 0, 1, 2 ...
bool is_whole_number(const Sum& sum) {
  return sum.empty() || (sum.size() == 1 && sum[0].factors.empty() && sum[0].bound.empty() &&
                         sum[0].coefficient.denominator() == 1 && sum[0].coefficient.numerator() > 0);
}

}  // namespace

Index Normalizer::resolve(const Index& index, Scope& scope) {
  return without_divisions(replaced(with_contents(index, scope), scope.variables), assumptions_, solver_);
}

namespace {

std::optional<std::int64_t> whole_number(const Sum& value) {
  if (value.empty()) return 0;
  const bool is_number = value.size() == 1 && value[0].bound.empty() && value[0].guards.empty() && value[0].factors.empty() &&
                         value[0].coefficient.denominator() == 1;
  return is_number ? std::optional(value[0].coefficient.numerator()) : std::nullopt;
}

}  // namespace

// A position that is an element of a constant is that number, if it surely lies on its axis. Others become contents.
Index Normalizer::with_contents(const Index& index, Scope& scope) {
  bool depends = false;
  for_each_atom(index, [&](const Atom& a) { depends |= a.kind == Atom::Kind::kLoad || a.kind == Atom::Kind::kPosition; });
  if (!depends) return index;
  return substitute(index, [&](const Atom& a) -> std::optional<Index> {
    if (a.kind == Atom::Kind::kLoad) {
      const auto chosen = chosen_.find(a.element.get());
      const Sum value = chosen == chosen_.end() ? element(a.element, scope) : chosen->second;
      if (const auto number = whole_number(value)) return Index(*number);
      return index_of(value);
    }
    if (a.kind != Atom::Kind::kPosition) return std::nullopt;
    const Index position = replaced(with_contents(a.arguments[0], scope), scope.variables);
    const Index size = replaced(a.arguments[1], scope.variables);
    if (position.is_constant() && size.is_constant()) return axis_position(position, size);
    if (position.is_constant()) {
      const Index counted = position.value() < 0 ? position + size : position;
      const Guards inside = within(counted, size);
      if (std::all_of(inside.begin(), inside.end(), [&](const Guard& g) { return solver_.proves(assumptions_, g); }))
        return counted;
    }
    // There is only one position on an axis of one element; another one would be outside.
    if (size == Index(1)) {
      if (!positions_are_inside_) partial_ |= kNoSuchPosition;
      return Index(0);
    }
    return content(number(position), size);
  });
}

namespace {

bool has_bound_variable(const Index& index) {
  bool found = false;
  for_each_atom(index, [&](const Atom& a) { found |= a.kind == Atom::Kind::kBound; });
  return found;
}

bool has_bound_variable(const Guard& g) {
  return has_bound_variable(g.value) ||
         std::any_of(g.parts.begin(), g.parts.end(), [](const Guard& part) { return has_bound_variable(part); });
}

bool has_bound_variable(const Sum& sum) {
  const auto any = [](const auto& list, const auto& test) { return std::any_of(list.begin(), list.end(), test); };
  const auto in_guard = [](const Guard& g) { return has_bound_variable(g); };
  const auto in_sum = [](const Sum& s) { return has_bound_variable(s); };
  return any(sum, [&](const Term& t) {
    return !t.bound.empty() || any(t.guards, in_guard) || any(t.factors, [&](const Factor& f) {
      return any(f.position, [](const Index& p) { return has_bound_variable(p); }) || has_bound_variable(f.index) ||
             any(f.arguments, in_sum) || any(f.elements, [&](const MaximumElement& e) {
               return !e.bound.empty() || any(e.guards, in_guard) || in_sum(e.value);
             });
    });
  });
}

}  // namespace

// An integer: a polynomial of elements that are integers, else a content as a whole.
Index Normalizer::index_of(const Sum& value) {
  Index result = 0;
  for (const Term& t : value) {
    const bool is_product = t.bound.empty() && t.guards.empty() && t.coefficient.denominator() == 1 &&
                            std::all_of(t.factors.begin(), t.factors.end(), [&](const Factor& f) {
                              return f.kind == Factor::Kind::kIndex || is_integral(f, side_.inputs);
                            });
    if (!is_product) return content(value, {});
    Index product = t.coefficient.numerator();
    for (const Factor& f : t.factors) product *= f.kind == Factor::Kind::kIndex ? f.index : content(single(f), {});
    result += product;
  }
  return result;
}

Index Normalizer::content(const Sum& value, const std::optional<Index>& size) {
  if (has_bound_variable(value) || (size && has_bound_variable(*size)))
    throw Error(ErrorCode::kUnsupported, "a position depends on the contents of a tensor, which a sum runs over");
  const auto is_equal = [&](const Content& c) {
    return c.size == size && std::equal(c.value.begin(), c.value.end(), value.begin(), value.end(),
                                        [](const Term& a, const Term& b) { return is_same(a, b); });
  };
  const auto known = std::find_if(contents_.begin(), contents_.end(), is_equal);
  if (known != contents_.end()) return Index::symbol(known->name);
  contents_.push_back({std::string(kContent) + std::to_string(contents_.size()), value, size});
  return Index::symbol(contents_.back().name);
}

Guard Normalizer::resolve(const Condition& c, Scope& scope) {
  return without_offset(guard({resolve(c.left, scope), c.relation, resolve(c.right, scope)}), assumptions_);
}

Sum Normalizer::number(const Real& value) {
  // Products of long fractions leave 64 bits.
  constexpr std::int64_t kLong = std::int64_t{1} << 16;
  if (value.symbol.empty())
    if (const auto exact = Rational::exactly(value.value); exact && !(positions_are_inside_ && exact->denominator() > kLong))
      return constant(*exact);
  // Not a fraction of 64-bit integers, or NaN: an unknown that equals itself.
  const std::string name =
      value.symbol.empty() ? "bits " + std::to_string(std::bit_cast<std::uint64_t>(value.value)) : value.symbol;
  return single({.kind = Factor::Kind::kUnknown, .name = name});
}

Sum Normalizer::number(const Index& value) {
  Sum result = constant(value.constant_term());
  if (value.is_constant()) return result;
  for (const Monomial& m : value.polynomial()->monomials) {
    Index factors = 1;
    for (const AtomPointer& f : m.factors) factors *= Index::atom(f);
    Term t;
    t.coefficient = m.coefficient;
    t.factors.push_back({.kind = Factor::Kind::kIndex, .index = factors});
    result.push_back(std::move(t));
  }
  return result;
}

Sum Normalizer::at(const PatternValue& value, const Indices& position) {
  if (value.kind == PatternValue::Kind::kInput) {
    // Reads are inside of the tensor: an axis of one element has one position.
    Indices inside = position;
    const Indices& shape = side_.inputs.at(value.number).shape;
    for (std::size_t a = 0; a < inside.size(); ++a)
      if (shape.at(a) == Index(1)) inside[a] = 0;
    return single({.kind = Factor::Kind::kAccess, .input = value.number, .position = std::move(inside)});
  }
  const Output& output = side_.nodes.at(value.number).at(value.output);
  const PatternNode& node = side_.pattern->nodes[value.number];
  if (!output.element) throw Error(ErrorCode::kUnsupported, node.op->name() + " has no denotation");
  Scope scope{node, {}};
  for (std::size_t a = 0; a < position.size(); ++a) scope.variables.emplace_back(output.position.at(a), position[a]);
  return element(output.element, scope);
}

Sum Normalizer::element(const Element& e, Scope& scope) {
  switch (e->kind) {
    case Kind::kConstant:
      return e->scalar == Scalar::kReal ? number(e->real) : constant(e->integer);
    case Kind::kFromIndex:
      return number(resolve(e->index, scope));
    case Kind::kRead:
      return read(*e, scope);
    case Kind::kAdd:
      note_wrapping(*e, scope);
      return joined(element(e->arguments[0], scope), element(e->arguments[1], scope));
    case Kind::kMultiply:
      note_wrapping(*e, scope);
      return without_ratios(product(element(e->arguments[0], scope), element(e->arguments[1], scope)));
    case Kind::kDivide: {
      const Sum a = element(e->arguments[0], scope), b = element(e->arguments[1], scope);
      if (may_be_zero(b)) partial_ |= kDividesByZero;
      if (e->scalar != Scalar::kReal) return apply_function("integer quotient", nullptr, {a, b});
      return without_ratios(product(a, reciprocal(b)));
    }
    case Kind::kMaximum:
    case Kind::kMinimum: {
      const Rational sign = e->kind == Kind::kMaximum ? 1 : -1;
      std::vector<MaximumElement> elements;
      for (const Element& argument : e->arguments) add_elements({}, {}, scaled(element(argument, scope), sign), elements);
      return scaled(maximum(std::move(elements)), sign);
    }
    case Kind::kApply:
    case Kind::kSelect:
    case Kind::kConvert:
      return apply(*e, scope);
    case Kind::kReduce:
      return reduce(*e, scope);
    case Kind::kChoose:
      return choose(*e, scope);
  }
  return {};
}

// Integers of 8 bits wrap around.
void Normalizer::note_wrapping(const ElementNode& e, const Scope& scope) {
  const auto is_narrow = [&](const PatternValue& v) {
    return v.kind != PatternValue::Kind::kAbsent && is_integer(type_of(side_, v).type) && byte_size(type_of(side_, v).type) < 2;
  };
  const auto& inputs = scope.node.inputs;
  may_wrap_ = may_wrap_ || (e.scalar == Scalar::kInteger && std::any_of(inputs.begin(), inputs.end(), is_narrow));
}

std::optional<Sum> Normalizer::read_by_cases(const ElementNode& e, Scope& scope) {
  const ElementNode* load = nullptr;
  std::vector<Case> parts;
  for (const Index& index : e.position)
    if (!index.is_constant())
      for_each_atom(index, [&](const Atom& a) {
        if (load || a.kind != Atom::Kind::kLoad || chosen_.count(a.element.get()) > 0) return;
        parts = cases(simplified(element(a.element, scope)));
        if (parts.size() > 1) load = a.element.get();
      });
  if (!load) return std::nullopt;
  Sum result;
  const std::size_t depth = assumptions_.size();
  for (Case& part : parts) {
    if (surely_contradictory(part.guards)) continue;
    assumptions_.insert(assumptions_.end(), part.guards.begin(), part.guards.end());
    if (!solver_.proves_quickly(assumptions_, non_negative(-1))) {  // else there is no such case
      chosen_[load] = part.value;
      for (Term& t : with_guards(read(e, scope), part.guards)) result.push_back(std::move(t));
      chosen_.erase(load);
    }
    assumptions_.resize(depth);
  }
  return simplified(result);
}

Sum Normalizer::read(const ElementNode& e, Scope& scope) {
  if (auto by_cases = read_by_cases(e, scope)) return std::move(*by_cases);
  const PatternValue& operand = scope.node.inputs.at(static_cast<std::size_t>(e.operand));
  Indices position;
  for (const Index& i : e.position) position.push_back(resolve(i, scope));
  if (!e.zero_outside) return at(operand, position);
  const TensorType& type = type_of(side_, operand);
  Guards inside;
  for (std::size_t a = 0; a < position.size(); ++a)
    for (const Guard& g : within(position[a], type.shape[a])) inside.push_back(g);
  const std::size_t before = assumptions_.size();
  assumptions_.insert(assumptions_.end(), inside.begin(), inside.end());
  const Sum value = at(operand, position);
  assumptions_.resize(before);
  return with_guards(value, inside);
}

Sum Normalizer::reduce(const ElementNode& e, Scope& scope) {
  if (e.reduction == Reduction::kProduct) throw Error(ErrorCode::kUnsupported, "a product over an axis has no normal form");
  const Index bound = resolve(e.bound, scope), variable = Index::fresh(e.index.as_atom()->name);
  scope.variables.emplace_back(e.index, variable);
  const std::size_t before = assumptions_.size();
  Guards guards = within(variable, bound);
  assumptions_.insert(assumptions_.end(), guards.begin(), guards.end());
  for (const Condition& c : e.conditions) {
    guards.push_back(resolve(c, scope));
    assumptions_.push_back(guards.back());
  }
  const Sum body = element(e.arguments[0], scope);
  assumptions_.resize(before);
  scope.variables.pop_back();
  if (e.reduction == Reduction::kSum) {
    Sum result = counted(with_guards(body, guards, {variable}), variable, bound);
    return without_ratios(result);
  }
  const Rational sign = e.reduction == Reduction::kMax ? 1 : -1;
  std::vector<MaximumElement> elements;
  add_elements({variable}, guards, scaled(body, sign), elements);
  return scaled(maximum(std::move(elements)), sign);
}

Sum Normalizer::counted(const Sum& sum, const Index& variable, const Index& bound) {
  const Guards range = within(variable, bound);
  Sum result;
  for (const Term& t : sum) {
    Term rest = t;
    std::erase(rest.bound, variable);
    std::erase_if(rest.guards, [&](const Guard& g) { return g == range[0] || g == range[1]; });
    const Term probe = replaced(rest, {{variable, Index::symbol("!")}});
    const bool only_counted = rest.bound.size() + 1 == t.bound.size() && rest.guards.size() + 2 == t.guards.size() &&
                              to_string(Sum{probe}) == to_string(Sum{rest}) && !occurs(variable, bound);
    if (!only_counted || !solver_.proves_quickly(assumptions_, non_negative(bound))) {
      result.push_back(t);
      continue;
    }
    for (Term& counted : product({rest}, number(bound))) result.push_back(std::move(counted));
  }
  return result;
}

Sum Normalizer::choose(const ElementNode& e, Scope& scope) {
  // For each k, "the first k conditions hold and the next does not" is a case.
  Sum result;
  Guards before;
  const std::size_t depth = assumptions_.size();
  const auto in_case = [&](const Guards& guards, const Element& value) {
    if (surely_contradictory(guards)) return;
    assumptions_.insert(assumptions_.end(), guards.begin(), guards.end());
    for (Term& t : with_guards(element(value, scope), guards)) result.push_back(std::move(t));
    assumptions_.resize(depth);
  };
  for (const Condition& c : e.conditions) {
    const Guard holds = resolve(c, scope);
    Guards otherwise = before;
    otherwise.push_back(holds.negated());
    in_case(otherwise, e.arguments[1]);
    before.push_back(holds);
  }
  in_case(before, e.arguments[0]);
  return result;
}

// Sizes are not 0. Real parameters that a rule leaves open are nonzero only if the rule requires it.
bool Normalizer::may_be_zero(const Sum& divisor) {
  const auto all = [&](const auto& is) {
    return std::all_of(divisor.begin(), divisor.end(), [&](const Term& t) {
      return t.coefficient.numerator() > 0 && std::all_of(t.factors.begin(), t.factors.end(), is);
    });
  };
  if (divisor.size() == 1 && std::none_of(divisor[0].factors.begin(), divisor[0].factors.end(), [](const Factor& f) {
        return f.kind == Factor::Kind::kAccess || f.kind == Factor::Kind::kFunction || f.kind == Factor::Kind::kMaximum;
      }))
    return false;
  return divisor.empty() || !all([](const Factor& f) {
           return f.kind == Factor::Kind::kIndex || f.kind == Factor::Kind::kReciprocalIndex || (f.law && f.law->exponential);
         });
}

namespace {

// The numbers for which a function of reals is not defined.
unsigned partial_of(const Function& f, const std::vector<Sum>& arguments) {
  const auto argument = proof::number(arguments[0]);
  if (&f == &functions::sqrt) return argument && argument->numerator() >= 0 ? 0 : unsigned{kOfNegative};
  if (&f == &functions::log || &f == &functions::rsqrt) return kDividesByZero | kOfNegative;
  if (&f != &functions::pow) return kOutOfRange;
  const auto exponent = proof::number(arguments[1]);
  const bool is_negative = exponent && exponent->numerator() < 0;
  const unsigned result = is_negative || !exponent ? unsigned{kDividesByZero} : 0;
  if (is_whole_number(arguments[1])) return is_negative ? result : 0;
  return result | kOfNegative;
}

}  // namespace

Sum Normalizer::apply(const ElementNode& e, Scope& scope) {
  std::vector<Sum> arguments;
  for (const Element& a : e.arguments) arguments.push_back(element(a, scope));
  if (e.kind == Kind::kSelect && arguments[0].empty()) return arguments[2];  // of a condition that never holds
  if (e.kind == Kind::kSelect) return apply_function("select", nullptr, arguments);
  if (e.kind == Kind::kApply && e.function == &functions::is_nan) return {};                   // real numbers are numbers
  if (e.kind == Kind::kApply && e.function == &functions::nearest_float) return arguments[0];  // which are not rounded
  if (e.kind == Kind::kApply) {
    // A function of reals and its namesake on integers are different.
    const bool real = e.arguments[0]->scalar == Scalar::kReal;
    if (divides(e) && may_be_zero(arguments[1])) partial_ |= kDividesByZero;
    if (real && e.function->partial) partial_ |= partial_of(*e.function, arguments);
    return apply_function(std::string(e.function->name) + (real ? "" : " of integers"), e.function, arguments);
  }
  const Scalar from = e.arguments[0]->scalar;
  const bool only_another_kind = (from == Scalar::kInteger && e.scalar == Scalar::kReal) || from == Scalar::kBoolean;
  if (only_another_kind) return arguments[0];
  if (e.scalar == Scalar::kInteger && is_integer_sum(arguments[0])) return arguments[0];
  const char* names[] = {"real", "integer", "boolean"};
  return apply_function(std::string("convert ") + names[static_cast<int>(from)] + " to " + names[static_cast<int>(e.scalar)],
                        nullptr, arguments);
}

bool Normalizer::is_integer_sum(const Sum& sum) {
  return is_integral(sum, side_.inputs, [this](const std::vector<MaximumElement>& some) { return is_never_empty(some); });
}

// A maximum of maxima is one maximum. Parts that depend only on the element's own variables stay inside.
void Normalizer::add_elements(const Indices& bound, const Guards& guards, const Sum& value,
                              std::vector<MaximumElement>& elements) {
  for (const Case& c : cases(simplified(value))) {
    Guards all = guards;
    all.insert(all.end(), c.guards.begin(), c.guards.end());
    if (surely_contradictory(all)) continue;
    const auto is_maximum = [](const Term& t) {
      return t.bound.empty() && t.guards.empty() && t.factors.size() == 1 && t.factors[0].kind == Factor::Kind::kMaximum &&
             t.coefficient.numerator() > 0;
    };
    // max(max S + r) is the maximum of s + r over all s in S.
    const auto nested = std::find_if(c.value.begin(), c.value.end(), is_maximum);
    if (nested == c.value.end() || std::count_if(c.value.begin(), c.value.end(), is_maximum) > 1) {
      if (auto e = simplified(MaximumElement{bound, std::move(all), c.value})) elements.push_back(std::move(*e));
      continue;
    }
    Sum rest = c.value;
    rest.erase(rest.begin() + (nested - c.value.begin()));
    for (const MaximumElement& inner : nested->factors[0].elements) {
      // A set may be in several cases, so its variables are renamed.
      Replacements names;
      MaximumElement e{bound, all, {}};
      for (const Index& v : inner.bound) {
        names.emplace_back(v, Index::fresh(v.as_atom()->name));
        e.bound.push_back(names.back().second);
      }
      for (const Guard& g : replaced(inner.guards, names)) e.guards.push_back(g);
      e.value = joined(scaled(replaced(inner.value, names), nested->coefficient), rest);
      if (auto simple = simplified(e)) elements.push_back(std::move(*simple));
    }
  }
}

// Guards without the elements' variables are decided outside. Common addends, and positive common factors, are factored out.
Sum Normalizer::maximum(std::vector<MaximumElement> elements) {
  const Guard* split = nullptr;
  for (const MaximumElement& e : elements)
    for (const Guard& g : e.guards)
      if (!split && std::none_of(e.bound.begin(), e.bound.end(), [&](const Index& v) { return occurs(v, g); })) split = &g;
  if (split) {
    Sum result;
    for (const Guard& literal : {*split, split->negated()}) {
      const Guard other = literal.negated();
      std::vector<MaximumElement> kept;
      for (MaximumElement e : elements) {
        Guards all = e.guards;
        all.push_back(literal);
        if (surely_contradictory(all) || std::find(e.guards.begin(), e.guards.end(), other) != e.guards.end()) continue;
        std::erase_if(e.guards, [&](const Guard& g) { return surely_implies(literal, g); });
        kept.push_back(std::move(e));
      }
      for (Term& t : with_guards(maximum(std::move(kept)), {literal})) result.push_back(std::move(t));
    }
    return result;
  }
  drop_repeated(elements);
  drop_undecisive(elements, side_.inputs, may_wrap_,
                  [this](const std::vector<MaximumElement>& some) { return is_never_empty(some); });
  if (elements.size() == 1 && elements[0].bound.empty() && elements[0].guards.empty()) return elements[0].value;
  if (const auto fewer = of_lattice(elements)) return *fewer;
  const bool only_zeros =
      std::all_of(elements.begin(), elements.end(), [](const MaximumElement& e) { return e.value.empty(); });
  if (only_zeros && is_never_empty(elements)) return {};
  if (const Sum outside = take_common_addends(elements); !outside.empty()) return joined(maximum(std::move(elements)), outside);
  if (const auto power = maximum_of_powers(elements)) return *power;
  const auto positive = take_common_factors(elements, [&](const Factor& f) { return is_positive(f); });
  if (!positive.empty()) {
    // A multiple of a maximum may have become a maximum.
    std::vector<MaximumElement> rest;
    for (const MaximumElement& e : elements) add_elements(e.bound, e.guards, e.value, rest);
    Sum result = maximum(std::move(rest));
    for (const Factor& f : positive) result = product(result, single(f));
    return result;
  }
  Rational common = 0;
  for (const MaximumElement& e : elements)
    for (const Term& t : e.value) common = common_divisor(common, t.coefficient);
  Term t;
  if (!common.is_zero()) {
    t.coefficient = common;
    for (MaximumElement& e : elements) e.value = scaled(std::move(e.value), common.reciprocal());
  }
  Factor f{.kind = Factor::Kind::kMaximum};
  f.elements = std::move(elements);
  t.factors.push_back(std::move(f));
  return {std::move(t)};
}

}  // namespace rewright::proof
