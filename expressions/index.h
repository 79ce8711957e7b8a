// Index expressions: integers, sizes and positions, known or symbolic.
//
// An Index is a polynomial with integer coefficients over atoms (named sizes, bound variables, floor division, remainder,
// minimum, maximum, positions on axes, elements of integer tensors), in a canonical order, so that equal polynomials compare
// equal. A constant is stored in place: with known sizes all arithmetic is plain integer arithmetic. Arithmetic throws
// Error(kBadInput) on overflow.
//
//   const Index n = Index::symbol("N");
//   n * 2 == n + n;                                                           // true
//   const Index out = floor_div(n + 2 * 1 - 3, 2) + 1;                        // "((N + 1) div 2)"
//   out.is_constant();                                                        // false: out.value() would throw
//   substitute(out, [](const Atom& a) -> std::optional<Index> {               // 112
//     return a.name == "N" ? std::optional<Index>(224) : std::nullopt;
//   }).value();
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rewright {

struct Atom;
struct Polynomial;
struct ElementNode;
using AtomPointer = std::shared_ptr<const Atom>;

class Index {
 public:
  Index() = default;
  Index(std::int64_t value) : value_(value) {}  // NOLINT: a number is an index expression
  Index(int value) : value_(value) {}           // NOLINT
  Index(std::size_t value);                     // NOLINT

  static Index symbol(std::string name);                          // a named size; equal names mean equal sizes
  static Index fresh(std::string name);                           // a bound variable, different from every other
  static Index atom(AtomPointer atom);                            // the polynomial that is just this atom
  static Index load(std::shared_ptr<const ElementNode> element);  // the value of an integer element, as an index

  bool is_constant() const { return polynomial_ == nullptr; }
  std::optional<std::int64_t> constant() const;
  // The constant's value; throws Error(kUnsupported) that names the expression if it is symbolic.
  std::int64_t value() const;
  // The polynomial without its constant term (null for a constant), and the constant term.
  const Polynomial* polynomial() const { return polynomial_.get(); }
  std::int64_t constant_term() const { return value_; }
  // The atom if the expression is a single atom with coefficient 1, else null.
  const Atom* as_atom() const;

  std::string to_string() const;  // "2*N + 1", "(H div 2) + 1"
  std::uint64_t hash() const;

  friend Index operator+(const Index& a, const Index& b);
  friend Index operator-(const Index& a, const Index& b);
  friend Index operator*(const Index& a, const Index& b);
  Index operator-() const { return Index(0) - *this; }
  Index& operator+=(const Index& b) { return *this = *this + b; }
  Index& operator-=(const Index& b) { return *this = *this - b; }
  Index& operator*=(const Index& b) { return *this = *this * b; }
  friend bool operator==(const Index& a, const Index& b) { return compare(a, b) == 0; }
  static std::strong_ordering compare(const Index& a, const Index& b);  // a total order, for canonical forms

 private:
  friend struct IndexAccess;
  std::int64_t value_ = 0;                        // the constant term
  std::shared_ptr<const Polynomial> polynomial_;  // the other terms, at least one; null for a constant
};

using Indices = std::vector<Index>;

// Floor division, its remainder (0 <= mod < b), and division rounded up. The caller makes sure that b is at least 1; a constant
// that is not throws Error(kBadInput).
Index floor_div(const Index& a, const Index& b);
Index mod(const Index& a, const Index& b);
Index ceil_div(const Index& a, const Index& b);
// The position on an axis of `size` elements that `index` means: a negative index counts from the end, as in ONNX's Gather.
// Whether the index is in [-size, size) is checked when the expression is executed, by checked_index, which throws
// Error(kBadInput).
Index axis_position(const Index& index, const Index& size);
std::int64_t checked_index(std::int64_t index, std::int64_t size);
Index min(const Index& a, const Index& b);
Index max(const Index& a, const Index& b);
Index product(std::span<const Index> factors);

std::string to_string(const Indices& indices);  // "[N, 3, 2*H]"

// Each as a number; throws Error(kUnsupported) if one is symbolic.
std::vector<std::int64_t> values(const Indices& indices);
Indices to_indices(std::span<const std::int64_t> values);
inline bool all_constant(const Indices& indices) {
  for (const Index& i : indices)
    if (!i.is_constant()) return false;
  return true;
}

struct Atom {
  enum class Kind { kSymbol, kBound, kFloorDiv, kMod, kMin, kMax, kPosition, kLoad };
  Kind kind;
  std::uint64_t id = 0;                        // kBound: unique, in order of creation
  std::string name;                            // kSymbol, kBound
  Indices arguments;                           // kFloorDiv, kMod: dividend, divisor; kMin, kMax: two; kPosition: index, size
  std::shared_ptr<const ElementNode> element;  // kLoad
};
std::strong_ordering compare(const Atom& a, const Atom& b);

struct Monomial {
  std::int64_t coefficient;
  std::vector<AtomPointer> factors;  // sorted, at least one; N^2 is N, N
};
struct Polynomial {
  std::vector<Monomial> monomials;  // sorted by factors, coefficients not 0
};

// Replaces the atoms for which `replacement` gives an expression, also inside of other atoms (div, mod, ...).
using Substitution = std::function<std::optional<Index>(const Atom&)>;
Index substitute(const Index& index, const Substitution& replacement);
Indices substitute(const Indices& indices, const Substitution& replacement);

// Calls `visit` for every atom in the expression, also inside of other atoms, but not for those in the elements of kLoad.
void for_each_atom(const Index& index, const std::function<void(const Atom&)>& visit);

// A condition on indices: left RELATION right.
struct Condition {
  enum class Relation { kEqual, kNotEqual, kLess, kLessEqual };
  Index left;
  Relation relation;
  Index right;

  std::optional<bool> decided() const;  // whether it holds, if the difference of the sides is a constant; else nullopt
  std::string to_string() const;
  Condition negated() const;
  friend bool operator==(const Condition&, const Condition&) = default;
};
Condition equal(Index a, Index b);
Condition not_equal(Index a, Index b);
Condition less(Index a, Index b);
Condition less_equal(Index a, Index b);

}  // namespace rewright
