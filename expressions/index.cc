#include "expressions/index.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/hash_mix.h"
#include "expressions/element.h"

namespace rewright {

// Builds an Index from a polynomial and a constant; the only place where the representation is put together.
struct IndexAccess {
  static Index make(std::vector<Monomial> monomials, std::int64_t constant) {
    Index result(constant);
    if (!monomials.empty()) result.polynomial_ = std::make_shared<const Polynomial>(Polynomial{std::move(monomials)});
    return result;
  }
  // Changes the constant term; indices share the polynomial.
  static Index with_constant(const Index& index, std::int64_t constant) {
    Index result = index;
    result.value_ = constant;
    return result;
  }
  static bool is_same(const Index& a, const Index& b) { return a.polynomial_ == b.polynomial_ && a.value_ == b.value_; }
};

namespace {

[[noreturn]] void throw_overflow() { throw Error(ErrorCode::kBadInput, "a size or position is beyond 64 bits"); }
std::int64_t add(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw_overflow();
  return r;
}
std::int64_t subtract(std::int64_t a, std::int64_t b) {  // the least number has no negative
  std::int64_t r;
  if (__builtin_sub_overflow(a, b, &r)) throw_overflow();
  return r;
}
std::int64_t multiply(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw_overflow();
  return r;
}
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

std::strong_ordering compare_factors(const std::vector<AtomPointer>& a, const std::vector<AtomPointer>& b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (auto c = compare(*a[i], *b[i]); c != 0) return c;
  return std::strong_ordering::equal;
}

std::span<const Monomial> monomials(const Index& index) {
  if (index.is_constant()) return {};
  return index.polynomial()->monomials;
}

std::vector<Monomial> merge(std::span<const Monomial> a, std::span<const Monomial> b, std::int64_t scale_b) {
  std::vector<Monomial> result;
  result.reserve(a.size() + b.size());
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const auto order = i == a.size()   ? std::strong_ordering::greater
                       : j == b.size() ? std::strong_ordering::less
                                       : compare_factors(a[i].factors, b[j].factors);
    if (order < 0) {
      result.push_back(a[i++]);
    } else if (order > 0) {
      result.push_back({multiply(b[j].coefficient, scale_b), b[j].factors});
      ++j;
    } else {
      const std::int64_t c = add(a[i].coefficient, multiply(b[j].coefficient, scale_b));
      if (c != 0) result.push_back({c, a[i].factors});
      ++i, ++j;
    }
  }
  return result;
}

Index scaled(const Index& a, std::int64_t c) {
  if (c == 0) return 0;
  if (c == 1) return a;
  return IndexAccess::make(merge({}, monomials(a), c), multiply(a.constant_term(), c));
}

// The terms of `a` that are multiples of `d`, divided by it; the others are left in `rest`.
Index exact_part(const Index& a, const Index& d, Index& rest) {
  std::vector<Monomial> quotient, left;
  std::int64_t quotient_constant = 0, left_constant = 0;
  if (const auto c = d.constant()) {
    for (const Monomial& m : monomials(a))
      (m.coefficient % *c == 0 ? quotient : left)
          .push_back({m.coefficient % *c == 0 ? m.coefficient / *c : m.coefficient, m.factors});
    quotient_constant = floor_divide(a.constant_term(), *c);
    left_constant = a.constant_term() - quotient_constant * *c;
  } else if (d.constant_term() == 0 && d.polynomial()->monomials.size() == 1) {
    const Monomial& divisor = d.polynomial()->monomials[0];
    Index sum = 0;
    for (const Monomial& m : monomials(a)) {
      std::vector<AtomPointer> remaining = m.factors;
      bool divides = m.coefficient % divisor.coefficient == 0;
      for (const AtomPointer& f : divisor.factors) {
        auto at = std::find_if(remaining.begin(), remaining.end(), [&](const AtomPointer& g) { return compare(*f, *g) == 0; });
        if (at == remaining.end()) {
          divides = false;
          break;
        }
        remaining.erase(at);
      }
      if (!divides) {
        left.push_back(m);
      } else if (remaining.empty()) {
        quotient_constant += m.coefficient / divisor.coefficient;
      } else {
        quotient.push_back({m.coefficient / divisor.coefficient, std::move(remaining)});
      }
    }
    std::sort(quotient.begin(), quotient.end(),
              [](const Monomial& x, const Monomial& y) { return compare_factors(x.factors, y.factors) < 0; });
    left_constant = a.constant_term();
  } else if (a == d) {
    rest = 0;
    return 1;
  } else {
    rest = a;
    return 0;
  }
  rest = IndexAccess::make(std::move(left), left_constant);
  return IndexAccess::make(std::move(quotient), quotient_constant);
}

Index binary_atom(Atom::Kind kind, const Index& a, const Index& b) {
  return Index::atom(std::make_shared<const Atom>(Atom{kind, 0, {}, {a, b}, nullptr}));
}

std::uint64_t hash_atom(const Atom& atom) {
  std::uint64_t h = hash_mix(static_cast<std::uint64_t>(atom.kind), atom.id);
  for (char c : atom.name) h = hash_mix(h, static_cast<unsigned char>(c));
  for (const Index& a : atom.arguments) h = hash_mix(h, a.hash());
  return h;
}

}  // namespace

Index::Index(std::size_t value) : value_(static_cast<std::int64_t>(value)) {
  if (value > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())) throw_overflow();
}

Index Index::symbol(std::string name) {
  return atom(std::make_shared<const Atom>(Atom{Atom::Kind::kSymbol, 0, std::move(name), {}, nullptr}));
}

Index Index::fresh(std::string name) {
  // Only the order of creation matters, and within one definition that order is the same in every run.
  static std::atomic<std::uint64_t> next{1};
  return atom(std::make_shared<const Atom>(Atom{Atom::Kind::kBound, next++, std::move(name), {}, nullptr}));
}

Index Index::atom(AtomPointer atom) {
  std::vector<Monomial> only(1);  // an initializer list would be copied
  only[0].coefficient = 1;
  only[0].factors.push_back(std::move(atom));
  return IndexAccess::make(std::move(only), 0);
}

Index Index::load(std::shared_ptr<const ElementNode> element) {
  if (element->kind == ElementNode::Kind::kFromIndex) return element->index;
  if (element->kind == ElementNode::Kind::kConstant) return element->integer;
  return atom(std::make_shared<const Atom>(Atom{Atom::Kind::kLoad, 0, {}, {}, std::move(element)}));
}

std::optional<std::int64_t> Index::constant() const {
  if (polynomial_) return std::nullopt;
  return value_;
}

std::int64_t Index::value() const {
  if (polynomial_)
    throw Error(ErrorCode::kUnsupported, "the size " + to_string() + " is not known", {}, "give it with --shape");
  return value_;
}

const Atom* Index::as_atom() const {
  if (!polynomial_ || value_ != 0 || polynomial_->monomials.size() != 1) return nullptr;
  const Monomial& m = polynomial_->monomials[0];
  return m.coefficient == 1 && m.factors.size() == 1 ? m.factors[0].get() : nullptr;
}

Index operator+(const Index& a, const Index& b) {
  if (a.is_constant() && b.is_constant()) return add(a.value_, b.value_);
  if (a.is_constant()) return IndexAccess::with_constant(b, add(a.value_, b.value_));
  if (b.is_constant()) return IndexAccess::with_constant(a, add(a.value_, b.value_));
  return IndexAccess::make(merge(monomials(a), monomials(b), 1), add(a.value_, b.value_));
}

Index operator-(const Index& a, const Index& b) {
  if (a.is_constant() && b.is_constant()) return subtract(a.value_, b.value_);
  if (b.is_constant()) return IndexAccess::with_constant(a, subtract(a.value_, b.value_));
  return IndexAccess::make(merge(monomials(a), monomials(b), -1), subtract(a.value_, b.value_));
}

Index operator*(const Index& a, const Index& b) {
  if (a.is_constant() && b.is_constant()) return multiply(a.value_, b.value_);
  if (a.is_constant()) return scaled(b, a.value_);
  if (b.is_constant()) return scaled(a, b.value_);
  Index result = scaled(a, b.value_) + scaled(b, a.value_) - multiply(a.value_, b.value_);
  for (const Monomial& x : monomials(a))
    for (const Monomial& y : monomials(b)) {
      std::vector<AtomPointer> factors;
      std::merge(x.factors.begin(), x.factors.end(), y.factors.begin(), y.factors.end(), std::back_inserter(factors),
                 [](const AtomPointer& p, const AtomPointer& q) { return compare(*p, *q) < 0; });
      result += IndexAccess::make({Monomial{multiply(x.coefficient, y.coefficient), std::move(factors)}}, 0);
    }
  return result;
}

std::strong_ordering Index::compare(const Index& a, const Index& b) {
  if (a.polynomial_ == b.polynomial_) return a.value_ <=> b.value_;
  const auto x = monomials(a), y = monomials(b);
  if (x.size() != y.size()) return x.size() <=> y.size();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (auto c = compare_factors(x[i].factors, y[i].factors); c != 0) return c;
    if (auto c = x[i].coefficient <=> y[i].coefficient; c != 0) return c;
  }
  return a.value_ <=> b.value_;
}

std::strong_ordering compare(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (auto c = a.kind <=> b.kind; c != 0) return c;
  if (auto c = a.id <=> b.id; c != 0) return c;
  if (a.id == 0)  // a bound variable's name is only for reading
    if (auto c = a.name <=> b.name; c != 0) return c;
  if (auto c = a.arguments.size() <=> b.arguments.size(); c != 0) return c;
  for (std::size_t i = 0; i < a.arguments.size(); ++i)
    if (auto c = Index::compare(a.arguments[i], b.arguments[i]); c != 0) return c;
  if (a.element == b.element) return std::strong_ordering::equal;
  return compare(a.element, b.element);
}

std::uint64_t Index::hash() const {
  std::uint64_t h = hash_mix(0x51ed270b, static_cast<std::uint64_t>(value_));
  for (const Monomial& m : monomials(*this)) {
    h = hash_mix(h, static_cast<std::uint64_t>(m.coefficient));
    for (const AtomPointer& f : m.factors) h = hash_mix(h, hash_atom(*f));
  }
  return h;
}

Index floor_div(const Index& a, const Index& b) {
  if (b.constant() == 1) return a;
  if (b.is_constant() && b.value() <= 0) throw Error(ErrorCode::kBadInput, "division by " + b.to_string());
  if (a.is_constant() && b.is_constant()) return floor_divide(a.value(), b.value());
  if (a.constant() == 0) return 0;
  Index rest;
  const Index exact = exact_part(a, b, rest);
  if (rest.constant() == 0) return exact;
  if (rest.is_constant() && b.is_constant()) return exact + floor_divide(rest.value(), b.value());
  return exact + binary_atom(Atom::Kind::kFloorDiv, rest, b);
}

Index mod(const Index& a, const Index& b) {
  if (b.constant() == 1) return 0;
  if (b.is_constant() && b.value() <= 0) throw Error(ErrorCode::kBadInput, "remainder of a division by " + b.to_string());
  if (a.is_constant() && b.is_constant()) return a.value() - b.value() * floor_divide(a.value(), b.value());
  Index rest;
  exact_part(a, b, rest);
  if (rest.is_constant() && (rest.value() == 0 || b.is_constant())) return mod(rest, b.is_constant() ? b : Index(1));
  return binary_atom(Atom::Kind::kMod, rest, b);
}

Index ceil_div(const Index& a, const Index& b) { return floor_div(a + b - 1, b); }

Index axis_position(const Index& index, const Index& size) {
  if (index.is_constant() && size.is_constant() && -size.value() <= index.value() && index.value() < size.value())
    return index.value() < 0 ? index + size : index;
  return binary_atom(Atom::Kind::kPosition, index, size);
}

std::int64_t checked_index(std::int64_t index, std::int64_t size) {
  if (0 <= index && index < size) return index;
  if (-size <= index && index < 0) return index + size;
  throw Error(ErrorCode::kBadInput,
              "index " + std::to_string(index) + " is outside of an axis of size " + std::to_string(size));
}

Index min(const Index& a, const Index& b) {
  if (const auto d = (a - b).constant()) return *d <= 0 ? a : b;
  return Index::compare(a, b) < 0 ? binary_atom(Atom::Kind::kMin, a, b) : binary_atom(Atom::Kind::kMin, b, a);
}

Index max(const Index& a, const Index& b) {
  if (const auto d = (a - b).constant()) return *d >= 0 ? a : b;
  return Index::compare(a, b) < 0 ? binary_atom(Atom::Kind::kMax, a, b) : binary_atom(Atom::Kind::kMax, b, a);
}

Index product(std::span<const Index> factors) {
  Index result = 1;
  for (const Index& f : factors) result *= f;
  return result;
}

namespace {

std::string show_atom(const Atom& atom) {
  const auto argument = [&](int i) {
    const Index& a = atom.arguments[static_cast<std::size_t>(i)];
    const std::string s = a.to_string();
    return a.is_constant() || a.as_atom() ? s : "(" + s + ")";
  };
  switch (atom.kind) {
    case Atom::Kind::kSymbol:
    case Atom::Kind::kBound:
      return atom.name;
    case Atom::Kind::kFloorDiv:
      return "(" + argument(0) + " div " + argument(1) + ")";
    case Atom::Kind::kMod:
      return "(" + argument(0) + " mod " + argument(1) + ")";
    case Atom::Kind::kMin:
      return "min(" + atom.arguments[0].to_string() + ", " + atom.arguments[1].to_string() + ")";
    case Atom::Kind::kMax:
      return "max(" + atom.arguments[0].to_string() + ", " + atom.arguments[1].to_string() + ")";
    case Atom::Kind::kPosition:
      return "position(" + atom.arguments[0].to_string() + ", " + atom.arguments[1].to_string() + ")";
    case Atom::Kind::kLoad:
      return "int(" + to_string(atom.element, {}) + ")";
  }
  return {};
}

}  // namespace

std::string Index::to_string() const {
  std::string s;
  const auto append = [&](std::int64_t coefficient, const std::string& rest) {
    const bool negative = coefficient < 0;
    s += s.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
    const std::string magnitude = std::to_string(coefficient).substr(negative ? 1 : 0);
    s += rest.empty() ? magnitude : magnitude == "1" ? rest : magnitude + "*" + rest;
  };
  for (const Monomial& m : monomials(*this)) {
    std::string factors;
    for (const AtomPointer& f : m.factors) factors += (factors.empty() ? "" : "*") + show_atom(*f);
    append(m.coefficient, factors);
  }
  if (value_ != 0 || s.empty()) append(value_, "");
  return s;
}

std::string to_string(const Indices& indices) {
  std::string s = "[";
  for (std::size_t i = 0; i < indices.size(); ++i) s += (i ? ", " : "") + indices[i].to_string();
  return s + "]";
}

std::vector<std::int64_t> values(const Indices& indices) {
  std::vector<std::int64_t> result;
  result.reserve(indices.size());
  for (const Index& i : indices) result.push_back(i.value());
  return result;
}

Indices to_indices(std::span<const std::int64_t> values) { return Indices(values.begin(), values.end()); }

namespace {

// Substitutes in one atom; nullopt: it stays as it is.
std::optional<Index> substituted(const Atom& atom, const Substitution& replacement) {
  if (auto r = replacement(atom)) return r;
  switch (atom.kind) {
    case Atom::Kind::kSymbol:
    case Atom::Kind::kBound:
      return std::nullopt;
    case Atom::Kind::kLoad:
      return Index::load(rewrite(atom.element, {}, replacement));
    default:
      break;
  }
  const Index a = substitute(atom.arguments[0], replacement), b = substitute(atom.arguments[1], replacement);
  if (IndexAccess::is_same(a, atom.arguments[0]) && IndexAccess::is_same(b, atom.arguments[1])) return std::nullopt;
  switch (atom.kind) {
    case Atom::Kind::kFloorDiv:
      return floor_div(a, b);
    case Atom::Kind::kMod:
      return mod(a, b);
    case Atom::Kind::kPosition:
      return axis_position(a, b);
    case Atom::Kind::kMin:
      return min(a, b);
    default:
      return max(a, b);
  }
}

}  // namespace

Index substitute(const Index& index, const Substitution& replacement) {
  if (index.is_constant()) return index;
  if (const Atom* const atom = index.as_atom()) return substituted(*atom, replacement).value_or(index);
  // Terms that stay are not built again, and keep their order.
  std::vector<Monomial> kept;
  Index changed = 0;
  bool is_changed = false;
  for (const Monomial& m : monomials(index)) {
    std::optional<Index> term;  // nullopt: as it is, up to this factor
    for (std::size_t k = 0; k < m.factors.size(); ++k) {
      const std::optional<Index> r = substituted(*m.factors[k], replacement);
      if (!r && !term) continue;
      if (!term) {
        const std::vector<AtomPointer> before(m.factors.begin(), m.factors.begin() + static_cast<std::ptrdiff_t>(k));
        term = before.empty() ? Index(m.coefficient) : IndexAccess::make({Monomial{m.coefficient, before}}, 0);
      }
      *term *= r ? *r : Index::atom(m.factors[k]);
    }
    if (term)
      changed += *term, is_changed = true;
    else
      kept.push_back(m);
  }
  if (!is_changed) return index;
  return IndexAccess::make(std::move(kept), index.constant_term()) + changed;
}

Indices substitute(const Indices& indices, const Substitution& replacement) {
  Indices result;
  result.reserve(indices.size());
  for (const Index& i : indices) result.push_back(substitute(i, replacement));
  return result;
}

void for_each_atom(const Index& index, const std::function<void(const Atom&)>& visit) {
  for (const Monomial& m : monomials(index))
    for (const AtomPointer& f : m.factors) {
      visit(*f);
      for (const Index& a : f->arguments) for_each_atom(a, visit);
    }
}

std::optional<bool> Condition::decided() const {
  const auto d = (right - left).constant();
  if (!d) return std::nullopt;
  switch (relation) {
    case Relation::kEqual:
      return *d == 0;
    case Relation::kNotEqual:
      return *d != 0;
    case Relation::kLess:
      return *d > 0;
    case Relation::kLessEqual:
      return *d >= 0;
  }
  return std::nullopt;
}

Condition Condition::negated() const {
  switch (relation) {
    case Relation::kEqual:
      return {left, Relation::kNotEqual, right};
    case Relation::kNotEqual:
      return {left, Relation::kEqual, right};
    case Relation::kLess:
      return {right, Relation::kLessEqual, left};
    case Relation::kLessEqual:
      return {right, Relation::kLess, left};
  }
  return *this;
}

std::string Condition::to_string() const {
  const char* sign = relation == Relation::kEqual      ? " == "
                     : relation == Relation::kNotEqual ? " != "
                     : relation == Relation::kLess     ? " < "
                                                       : " <= ";
  return left.to_string() + sign + right.to_string();
}

Condition equal(Index a, Index b) { return {std::move(a), Condition::Relation::kEqual, std::move(b)}; }
Condition not_equal(Index a, Index b) { return {std::move(a), Condition::Relation::kNotEqual, std::move(b)}; }
Condition less(Index a, Index b) { return {std::move(a), Condition::Relation::kLess, std::move(b)}; }
Condition less_equal(Index a, Index b) { return {std::move(a), Condition::Relation::kLessEqual, std::move(b)}; }

}  // namespace rewright
