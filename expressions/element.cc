#include "expressions/element.h"

#include <bit>
#include <cmath>
#include <sstream>

#include "base/error.h"

namespace rewright {

namespace {

using Kind = ElementNode::Kind;

Element make(ElementNode node) { return std::make_shared<const ElementNode>(std::move(node)); }

Element combine(Kind kind, Element a, Element b) {
  if (a->scalar != b->scalar) throw Error(ErrorCode::kBadInput, "element types differ");
  ElementNode node{.kind = kind, .scalar = a->scalar};
  node.arguments = {std::move(a), std::move(b)};
  return make(std::move(node));
}

bool is_constant(const Element& e, double value) {
  if (e->kind != Kind::kConstant) return false;
  return e->scalar == Scalar::kReal ? e->real == Real(value) : static_cast<double>(e->integer) == value;
}

}  // namespace

bool operator==(const Real& a, const Real& b) {
  return a.symbol == b.symbol && (std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value) ||
                                  (std::isnan(a.value) && std::isnan(b.value)));
}

Element real(Real value) {
  ElementNode node{.kind = Kind::kConstant, .scalar = Scalar::kReal};
  node.real = std::move(value);
  return make(std::move(node));
}

Element integer(std::int64_t value) {
  ElementNode node{.kind = Kind::kConstant, .scalar = Scalar::kInteger};
  node.integer = value;
  return make(std::move(node));
}

Element boolean(bool value) {
  ElementNode node{.kind = Kind::kConstant, .scalar = Scalar::kBoolean};
  node.integer = value ? 1 : 0;
  return make(std::move(node));
}

Element constant(Scalar scalar, const Real& value) {
  if (!value.symbol.empty()) return convert(real(value), scalar);
  switch (scalar) {
    case Scalar::kReal:
      return real(value);
    case Scalar::kInteger:
      return integer(static_cast<std::int64_t>(value.value));
    case Scalar::kBoolean:
      return boolean(value.value != 0);
  }
  return nullptr;
}

Element from_index(Index index) {
  if (const auto c = index.constant()) return integer(*c);
  ElementNode node{.kind = Kind::kFromIndex, .scalar = Scalar::kInteger};
  node.index = std::move(index);
  return make(std::move(node));
}

Element operator+(Element a, Element b) { return combine(Kind::kAdd, std::move(a), std::move(b)); }
Element operator-(Element a) {
  Element minus_one = constant(a->scalar, -1);
  return std::move(minus_one) * std::move(a);
}
Element operator-(Element a, Element b) { return std::move(a) + -std::move(b); }
Element operator*(Element a, Element b) {
  if (is_constant(a, 1)) return b;
  if (is_constant(b, 1)) return a;
  return combine(Kind::kMultiply, std::move(a), std::move(b));
}
Element operator/(Element a, Element b) { return combine(Kind::kDivide, std::move(a), std::move(b)); }
Element maximum(Element a, Element b) { return combine(Kind::kMaximum, std::move(a), std::move(b)); }
Element minimum(Element a, Element b) { return combine(Kind::kMinimum, std::move(a), std::move(b)); }

Element apply(const Function& f, Element a) {
  ElementNode node{.kind = Kind::kApply, .scalar = f.returns_argument_scalar ? a->scalar : f.result};
  node.function = &f;
  node.arguments = {std::move(a)};
  return make(std::move(node));
}

Element apply(const Function& f, Element a, Element b) {
  ElementNode node{.kind = Kind::kApply, .scalar = f.returns_argument_scalar ? a->scalar : f.result};
  node.function = &f;
  node.arguments = {std::move(a), std::move(b)};
  return make(std::move(node));
}

Element choose(std::vector<Condition> all_of, Element then, Element otherwise) {
  std::vector<Condition> open;
  for (Condition& c : all_of) {
    const auto decided = c.decided();
    if (decided == false) return otherwise;
    if (!decided) open.push_back(std::move(c));
  }
  if (open.empty()) return then;
  ElementNode node{.kind = Kind::kChoose, .scalar = then->scalar};
  node.conditions = std::move(open);
  node.arguments = {std::move(then), std::move(otherwise)};
  return make(std::move(node));
}

Element select(Element condition, Element then, Element otherwise) {
  ElementNode node{.kind = Kind::kSelect, .scalar = then->scalar};
  node.arguments = {std::move(condition), std::move(then), std::move(otherwise)};
  return make(std::move(node));
}

Element convert(Element e, Scalar to) {
  if (e->scalar == to) return e;
  ElementNode node{.kind = Kind::kConvert, .scalar = to};
  node.arguments = {std::move(e)};
  return make(std::move(node));
}

Element sum(const std::string& name, const Index& bound, const Body1& body) {
  return reduce(Reduction::kSum, name, {bound}, [&](const Indices& i) { return body(i[0]); });
}

Element reduce(Reduction kind, const std::string& name, const Indices& bounds, const BodyN& body, const WhereN& where) {
  Indices variables;
  for (std::size_t i = 0; i < bounds.size(); ++i)
    variables.push_back(Index::fresh(bounds.size() == 1 ? name : name + std::to_string(i)));
  Element result = body(variables);
  std::vector<Condition> conditions;
  bool never = false;
  if (where)
    for (Condition& c : where(variables)) {
      const auto decided = c.decided();
      if (decided == false) never = true;
      if (!decided) conditions.push_back(std::move(c));
    }
  // The guards stand at the innermost loop; one loop at least is kept so that an empty reduction has its neutral element.
  for (std::size_t i = bounds.size(); i-- > 0;) {
    ElementNode node{.kind = Kind::kReduce, .scalar = result->scalar};
    node.reduction = kind;
    node.index = variables[i];
    node.bound = never ? Index(0) : bounds[i];
    if (i + 1 == bounds.size()) node.conditions = std::move(conditions);  // NOLINT(bugprone-use-after-move): the first time
    node.arguments = {std::move(result)};
    result = make(std::move(node));
  }
  return result;
}

Element pick(const Index& position, const Indices& entries) {
  if (entries.empty()) return integer(0);
  if (const auto c = position.constant(); c && *c >= 0 && *c < static_cast<std::int64_t>(entries.size()))
    return from_index(entries[static_cast<std::size_t>(*c)]);
  Element result = from_index(entries.back());
  for (std::size_t k = entries.size() - 1; k-- > 0;)
    result = choose({equal(position, Index(k))}, from_index(entries[k]), std::move(result));
  return result;
}

std::strong_ordering compare(const Element& a, const Element& b) {
  if (a == b) return std::strong_ordering::equal;
  if (!a || !b) return (a != nullptr) <=> (b != nullptr);
  if (auto c = a->kind <=> b->kind; c != 0) return c;
  if (auto c = a->scalar <=> b->scalar; c != 0) return c;
  if (auto c = a->reduction <=> b->reduction; c != 0) return c;
  if (auto c = a->operand <=> b->operand; c != 0) return c;
  if (auto c = a->zero_outside <=> b->zero_outside; c != 0) return c;
  if (auto c = a->integer <=> b->integer; c != 0) return c;
  if (auto c = std::bit_cast<std::uint64_t>(a->real.value) <=> std::bit_cast<std::uint64_t>(b->real.value); c != 0) return c;
  if (auto c = a->real.symbol <=> b->real.symbol; c != 0) return c;
  if (a->function != b->function) return (a->function ? a->function->name : "") <=> (b->function ? b->function->name : "");
  if (auto c = Index::compare(a->index, b->index); c != 0) return c;
  if (auto c = Index::compare(a->bound, b->bound); c != 0) return c;
  if (auto c = a->position.size() <=> b->position.size(); c != 0) return c;
  for (std::size_t i = 0; i < a->position.size(); ++i)
    if (auto c = Index::compare(a->position[i], b->position[i]); c != 0) return c;
  if (auto c = a->conditions.size() <=> b->conditions.size(); c != 0) return c;
  for (std::size_t i = 0; i < a->conditions.size(); ++i) {
    if (auto c = a->conditions[i].relation <=> b->conditions[i].relation; c != 0) return c;
    if (auto c = Index::compare(a->conditions[i].left, b->conditions[i].left); c != 0) return c;
    if (auto c = Index::compare(a->conditions[i].right, b->conditions[i].right); c != 0) return c;
  }
  if (auto c = a->arguments.size() <=> b->arguments.size(); c != 0) return c;
  for (std::size_t i = 0; i < a->arguments.size(); ++i)
    if (auto c = compare(a->arguments[i], b->arguments[i]); c != 0) return c;
  return std::strong_ordering::equal;
}

namespace {

// Binding strength of a printed expression, to set parentheses only where they are needed.
enum Strength { kSumStrength = 0, kProductStrength = 1, kAtomStrength = 2 };

struct Shown {
  std::string text;
  Strength strength;
};

std::string join(const std::vector<Condition>& conditions) {
  std::string s;
  for (const Condition& c : conditions) s += (s.empty() ? "" : ", ") + c.to_string();
  return s;
}

Shown show(const Element& e, const std::vector<std::string>& names) {
  const auto part = [&](std::size_t i, Strength least) {
    const Shown s = show(e->arguments[i], names);
    return s.strength >= least ? s.text : "(" + s.text + ")";
  };
  const auto call = [&](std::string_view name) {
    std::string s(name);
    s += "(";
    for (std::size_t i = 0; i < e->arguments.size(); ++i) s += (i ? ", " : "") + show(e->arguments[i], names).text;
    return Shown{s + ")", kAtomStrength};
  };
  switch (e->kind) {
    case Kind::kConstant: {
      if (e->scalar != Scalar::kReal) return {std::to_string(e->integer), kAtomStrength};
      if (!e->real.symbol.empty()) return {e->real.symbol, kAtomStrength};
      std::ostringstream out;
      out.precision(9);
      out << e->real.value;
      return {out.str(), kAtomStrength};
    }
    case Kind::kFromIndex:
      return {"(" + e->index.to_string() + ")", kAtomStrength};
    case Kind::kRead: {
      const auto k = static_cast<std::size_t>(e->operand);
      return {(k < names.size() ? names[k] : "x" + std::to_string(k)) + to_string(e->position), kAtomStrength};
    }
    case Kind::kAdd:
      return {part(0, kSumStrength) + " + " + part(1, kSumStrength), kSumStrength};
    case Kind::kMultiply:
      return {part(0, kProductStrength) + " * " + part(1, kProductStrength), kProductStrength};
    case Kind::kDivide:
      return {part(0, kProductStrength) + " / " + part(1, kAtomStrength), kProductStrength};
    case Kind::kMaximum:
      return call("max");
    case Kind::kMinimum:
      return call("min");
    case Kind::kApply:
      return call(e->function->name);
    case Kind::kSelect:
      return call("select");
    case Kind::kConvert:
      return call(e->scalar == Scalar::kReal ? "real" : e->scalar == Scalar::kInteger ? "integer" : "boolean");
    case Kind::kReduce: {
      const char* name = e->reduction == Reduction::kSum       ? "sum"
                         : e->reduction == Reduction::kProduct ? "product"
                         : e->reduction == Reduction::kMax     ? "max"
                                                               : "min";
      std::string s = std::string(name) + "(" + e->index.to_string() + " < " + e->bound.to_string();
      if (!e->conditions.empty()) s += " | " + join(e->conditions);
      return {s + ") " + part(0, kProductStrength), kProductStrength};
    }
    case Kind::kChoose:
      return {"if " + join(e->conditions) + " then " + part(0, kProductStrength) + " else " + part(1, kProductStrength),
              kSumStrength};
  }
  return {};
}

struct Rewriter {
  const ReadReplacement& read;
  std::vector<std::pair<std::uint64_t, Index>> renamed;  // bound variables in scope
  const Substitution& atoms;

  Index index(const Index& i) {
    return substitute(i, [&](const Atom& atom) -> std::optional<Index> {
      if (atom.kind == Atom::Kind::kBound)
        for (auto it = renamed.rbegin(); it != renamed.rend(); ++it)
          if (it->first == atom.id) return it->second;
      if (atom.kind == Atom::Kind::kLoad) return Index::load(element(atom.element));
      return atoms ? atoms(atom) : std::nullopt;
    });
  }

  std::vector<Condition> conditions(const std::vector<Condition>& all) {
    std::vector<Condition> result;
    for (const Condition& c : all) result.push_back({index(c.left), c.relation, index(c.right)});
    return result;
  }

  Element element(const Element& e) {
    switch (e->kind) {
      case Kind::kConstant:
        return e;
      case Kind::kFromIndex:
        return from_index(index(e->index));
      case Kind::kRead: {
        ElementNode node{.kind = Kind::kRead, .scalar = e->scalar};
        node.operand = e->operand;
        node.zero_outside = e->zero_outside;
        node.position.reserve(e->position.size());
        for (const Index& i : e->position) node.position.push_back(index(i));
        if (read)
          if (Element replaced = read(node)) return replaced;
        return make(std::move(node));
      }
      case Kind::kChoose:
        return choose(conditions(e->conditions), element(e->arguments[0]), element(e->arguments[1]));
      case Kind::kReduce: {
        ElementNode node{.kind = Kind::kReduce, .scalar = e->scalar};
        node.reduction = e->reduction;
        node.bound = index(e->bound);
        node.index = Index::fresh(e->index.as_atom()->name);
        renamed.emplace_back(e->index.as_atom()->id, node.index);
        node.conditions = conditions(e->conditions);
        node.arguments = {element(e->arguments[0])};
        renamed.pop_back();
        return make(std::move(node));
      }
      default: {
        ElementNode node{.kind = e->kind, .scalar = e->scalar};
        node.function = e->function;
        node.arguments.reserve(e->arguments.size());
        for (const Element& a : e->arguments) node.arguments.push_back(element(a));
        return make(std::move(node));
      }
    }
  }
};

}  // namespace

std::string to_string(const Element& element, const std::vector<std::string>& operand_names) {
  return element ? show(element, operand_names).text : "(no denotation)";
}

Element rewrite(const Element& element, const ReadReplacement& read, const Substitution& atoms) {
  return Rewriter{read, {}, atoms}.element(element);
}

Index operation_count(const Element& e) {
  Index count = 0;
  switch (e->kind) {
    case Kind::kReduce: {  // a nest of loops accumulates in its innermost one
      const Element& body = e->arguments[0];
      const bool nested = body->kind == Kind::kReduce && body->reduction == e->reduction;
      return e->bound * (operation_count(body) + (nested ? 0 : 1));
    }
    case Kind::kChoose:
      return max(operation_count(e->arguments[0]), operation_count(e->arguments[1]));
    case Kind::kAdd:
    case Kind::kMultiply:
    case Kind::kDivide:
    case Kind::kMaximum:
    case Kind::kMinimum:
    case Kind::kSelect:
      count = 1;
      break;
    case Kind::kApply:
      count = e->function->flops;
      break;
    default:
      break;
  }
  for (const Element& a : e->arguments) count += operation_count(a);
  return count;
}

}  // namespace rewright
