#include "verifier/smt_writer.h"

#include <algorithm>

#include "base/error.h"

namespace rewright::proof::internal {

namespace {

std::string number(std::int64_t value) {
  if (value >= 0) return std::to_string(value);
  return "(- " + std::to_string(value).substr(1) + ")";
}

std::string call(std::string_view function, const std::vector<std::string>& arguments) {
  std::string text = "(" + std::string(function);
  for (const std::string& a : arguments) text += " " + a;
  return text + ")";
}

// The quotient if the polynomial is a multiple of the divisor (a monomial or number).
std::optional<Index> exact_quotient(const Index& polynomial, const Index& divisor) {
  if (divisor == Index(0)) return std::nullopt;
  if (const auto d = divisor.constant()) {
    if (*d < 1) return std::nullopt;
  } else if (divisor.constant_term() != 0 || divisor.polynomial()->monomials.size() != 1) {
    return polynomial == divisor    ? std::optional<Index>(1)
           : polynomial == -divisor ? std::optional<Index>(-1)
           : polynomial == Index(0) ? std::optional<Index>(0)
                                    : std::nullopt;
  }
  const Index quotient = floor_div(polynomial, divisor);
  return quotient * divisor == polynomial ? std::optional(quotient) : std::nullopt;
}

// Is the quotient one of the polynomial's terms?
bool has_term(const Index& polynomial, const Index& quotient) {
  if (polynomial.is_constant()) return false;
  const Atom& wanted = *quotient.as_atom();
  for (const Monomial& m : polynomial.polynomial()->monomials)
    if (m.coefficient == 1 && m.factors.size() == 1 && compare(*m.factors[0], wanted) == 0) return true;
  return false;
}

}  // namespace

SmtWriter::SmtWriter(const Guards& assumptions, Detail detail) : detail_(detail) {
  for (const Guard& g : assumptions)
    if (g.kind == Guard::Kind::kNonNegative && (g.value + 1).as_atom()) positive_.push_back(g);
  for (const Guard& g : assumptions) require(g);
}

std::string SmtWriter::declare(char kind) {
  std::string variable = kind + std::to_string(next_++);
  declarations_ += "(declare-fun " + variable + " () Int)\n";
  return variable;
}

const SmtWriter::Division& SmtWriter::division(const Index& dividend, const Index& divisor) {
  for (const Division& d : divisions_)
    if (d.dividend == dividend && d.divisor == divisor) return d;
  Division d{
      dividend, divisor, declare('q'), declare('r'), write(dividend), write(divisor), surely_positive(divisor, positive_)};
  // q*D as a product with the quotient's unknown. If only the remainder occurs, there is no atom for the quotient.
  const Index quotient = quotient_of(d);
  atoms_.emplace(quotient.polynomial()->monomials[0].factors[0], d.quotient);
  const std::string back = write(quotient * divisor);
  const std::string definition = "(and (= " + call("+", {back, d.remainder}) + " " + d.dividend_text + ") (<= 0 " +
                                 d.remainder + ") (< " + d.remainder + " " + d.divisor_text + "))";
  divisions_.push_back(d);
  assert_if_positive(d, definition);
  for (const Division& known : divisions_)
    if (known.dividend == dividend && known.divisor == divisor) return known;
  return divisions_.back();
}

Index SmtWriter::quotient_of(const Division& d) {
  return Index::atom(std::make_shared<const Atom>(Atom{Atom::Kind::kFloorDiv, 0, {}, {d.dividend, d.divisor}, nullptr}));
}

void SmtWriter::assert_if_positive(const Division& d, const std::string& statement) {
  assertions_.push_back(d.surely_positive ? statement : "(=> (<= 1 " + d.divisor_text + ") " + statement + ")");
}

std::string SmtWriter::write_atom(const AtomPointer& atom) {
  if (const auto known = atoms_.find(atom); known != atoms_.end()) return known->second;
  std::string text;
  const bool is_variable = atom->kind == Atom::Kind::kSymbol || atom->kind == Atom::Kind::kBound;
  if (detail_ == Detail::kOpaque && !is_variable && atom->kind != Atom::Kind::kLoad) {
    has_unknown_divisions_ = true;
    text = declare('u');
    atoms_.emplace(atom, text);
    return text;
  }
  switch (atom->kind) {
    case Atom::Kind::kSymbol:
    case Atom::Kind::kBound:
      text = declare('x');
      break;
    case Atom::Kind::kFloorDiv:
      text = division(atom->arguments[0], atom->arguments[1]).quotient;
      break;
    case Atom::Kind::kMod:
      text = division(atom->arguments[0], atom->arguments[1]).remainder;
      break;
    case Atom::Kind::kMin:
    case Atom::Kind::kMax: {
      const std::string a = write(atom->arguments[0]), b = write(atom->arguments[1]);
      text = declare('m');
      const std::string order = atom->kind == Atom::Kind::kMin ? "<=" : ">=";
      assertions_.push_back("(and (" + order + " " + text + " " + a + ") (" + order + " " + text + " " + b +
                            ") (or (= " + text + " " + a + ") (= " + text + " " + b + ")))");
      break;
    }
    case Atom::Kind::kPosition:
    case Atom::Kind::kLoad:
      throw Error(ErrorCode::kUnsupported, "a position depends on the contents of a tensor");
  }
  atoms_.emplace(atom, text);
  return text;
}

std::string SmtWriter::write(const Index& index) {
  if (const auto c = index.constant()) return number(*c);
  std::vector<std::string> terms;
  for (const Monomial& m : index.polynomial()->monomials) {
    std::vector<std::string> factors;
    for (const AtomPointer& factor : m.factors) factors.push_back(write_atom(factor));
    std::string text = factors[0];
    if (factors.size() > 1) {
      std::sort(factors.begin(), factors.end());
      text = call("*", factors);
      if (detail_ != Detail::kExact) {
        has_products_ = true;
        auto [product, inserted] = products_.try_emplace(text);
        if (inserted) {
          product->second = declare('p');
          // A product of positive factors is at least as large as each.
          if (std::all_of(m.factors.begin(), m.factors.end(),
                          [&](const AtomPointer& f) { return surely_positive(Index::atom(f), positive_); }))
            for (const std::string& factor : factors) assertions_.push_back("(<= " + factor + " " + product->second + ")");
        }
        text = product->second;
      }
    }
    terms.push_back(m.coefficient == 1 ? text : call("*", {number(m.coefficient), text}));
  }
  if (index.constant_term() != 0) terms.push_back(number(index.constant_term()));
  return terms.size() == 1 ? terms[0] : call("+", terms);
}

std::string SmtWriter::write(const Guard& g) {
  switch (g.kind) {
    case Guard::Kind::kNonNegative:
      compared_.push_back(g.value);
      return "(<= 0 " + write(g.value) + ")";
    case Guard::Kind::kZero:
      return "(= 0 " + write(g.value) + ")";
    case Guard::Kind::kNonZero:
      return "(not (= 0 " + write(g.value) + "))";
    case Guard::Kind::kAll:
      return write_all(g.parts);
    case Guard::Kind::kAny:
      break;
  }
  if (g.parts.empty()) return "false";
  std::vector<std::string> parts;
  for (const Guard& part : g.parts) parts.push_back(write(part));
  return call("or", parts);
}

std::string SmtWriter::write_all(const Guards& guards) {
  if (guards.empty()) return "true";
  std::vector<std::string> parts;
  for (const Guard& g : guards) parts.push_back(write(g));
  return parts.size() == 1 ? parts[0] : call("and", parts);
}

void SmtWriter::require_some_nonzero_sum(const std::vector<Indicator>& indicators) {
  std::vector<std::string> terms;
  for (const Indicator& i : indicators) {
    const std::string denominator = number(i.coefficient.denominator()) + ".0";
    std::string value = std::to_string(i.coefficient.absolute().numerator()) + ".0";
    if (i.coefficient.denominator() != 1) value = call("/", {value, denominator});
    if (i.coefficient.numerator() < 0) value = call("-", {value});
    terms.push_back(call("ite", {write_all(i.guards), value, "0.0"}));
  }
  terms.push_back("0.0");
  assertions_.push_back("(not (= 0.0 " + call("+", terms) + "))");
}

std::string SmtWriter::existence(const std::vector<Existence>& covers) {
  std::vector<std::string> parts;
  for (const Existence& e : covers) {
    std::string body = write_all(e.guards), bound;
    for (const Index& variable : e.bound) bound += "(" + write_atom(variable.polynomial()->monomials[0].factors[0]) + " Int)";
    parts.push_back(bound.empty() ? body : "(exists (" + bound + ") " + body + ")");
  }
  return parts.empty() ? "false" : call("or", parts);
}

bool SmtWriter::require_different_covers(const std::vector<Existence>& left, const std::vector<Existence>& right) {
  std::string statement = "(not (= " + existence(left) + " " + existence(right) + "))";
  for (const std::vector<Existence>* covers : {&left, &right})
    for (const Existence& e : *covers)
      for (const Index& variable : e.bound) {
        // Unknowns for expressions with the quantified variable are declared outside of its scope.
        for (const auto& [atom, text] : atoms_)
          if (atom->kind != Atom::Kind::kBound && atom->kind != Atom::Kind::kSymbol && occurs(variable, Index::atom(atom)))
            return false;
        const std::string own = write_atom(variable.polynomial()->monomials[0].factors[0]);
        for (const auto& [product, text] : products_)
          if ((" " + product.substr(0, product.size() - 1) + " ").find(" " + own + " ") != std::string::npos) return false;
      }
  assertions_.push_back(std::move(statement));
  return true;
}

void SmtWriter::add_lemmas() {
  const std::vector<Index> compared = compared_;
  const std::vector<Division> divisions = divisions_;
  for (std::size_t i = 0; i < divisions.size(); ++i) {
    const Division& d = divisions[i];
    const std::string &e = d.dividend_text, &q = d.quotient, &r = d.remainder;
    assert_if_positive(d, "(= (<= 0 " + e + ") (<= 0 " + q + "))");
    assert_if_positive(d, "(= (< " + e + " " + d.divisor_text + ") (<= " + q + " 0))");
    assert_if_positive(d, "(=> (= " + q + " 0) (= " + r + " " + e + "))");
    // Quotient and remainder are unique.
    for (std::size_t j = 0; j < i; ++j) {
      const Division& f = divisions[j];
      if (!(f.divisor == d.divisor)) continue;
      assert_if_positive(d, "(or (and (= " + q + " " + f.quotient + ") (= " + r + " " + f.remainder + ")) (not (= " + e + " " +
                                f.dividend_text + ")))");
    }
    // Division by m*D is division by D and then by m: the quotients are q and Q with m*Q <= q < m*Q + m, and likewise for
    // multiples.
    for (const Division& f : divisions) {
      const auto m = exact_quotient(f.divisor, d.divisor);
      if (!(f.dividend == d.dividend) || !m || *m == Index(1)) continue;
      const Index remainder = quotient_of(d) - *m * quotient_of(f);
      std::vector<Index> scales{1};
      for (const Division& other : divisions)
        if (detail_ == Detail::kLinear && !other.divisor.is_constant() &&
            std::find(scales.begin(), scales.end(), other.divisor) == scales.end())
          scales.push_back(other.divisor);
      for (const Index& scale : scales) {
        std::string statement =
            "(and (<= 0 " + write(remainder * scale) + ") (<= 0 " + write((*m - 1 - remainder) * scale) + "))";
        for (const Index& positive : {f.divisor, scale})
          if (!surely_positive(positive, positive_)) statement = "(=> (<= 1 " + write(positive) + ") " + statement + ")";
        assert_if_positive(d, statement);
      }
    }
    // Nonnegative terms stay nonnegative when multiplied by D: a position p <= q has p*D <= q*D.
    const Index quotient = quotient_of(d);
    for (const Index& p : compared)
      if (detail_ == Detail::kLinear && !d.divisor.is_constant() && has_term(p, quotient))
        assert_if_positive(d, "(=> (<= 0 " + write(p) + ") (<= 0 " + write(p * d.divisor) + "))");
    // e + m*D >= 0 exactly if q + m >= 0.
    for (const Index& p : compared)
      for (const Index& side : {p, -p - 1}) {
        const auto m = exact_quotient(side - d.dividend, d.divisor);
        if (!m) continue;
        const std::string shifted = call("+", {q, write(*m)});
        assert_if_positive(d, "(= (<= 0 " + write(side) + ") (<= 0 " + shifted + "))");
      }
  }
}

std::string SmtWriter::text() {
  add_lemmas();
  std::string result = declarations_;
  std::sort(assertions_.begin(), assertions_.end());
  assertions_.erase(std::unique(assertions_.begin(), assertions_.end()), assertions_.end());
  for (const std::string& a : assertions_) result += "(assert " + a + ")\n";
  return result;
}

}  // namespace rewright::proof::internal
