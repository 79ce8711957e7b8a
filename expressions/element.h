// Element expressions: the element at one position of a tensor as an expression over the elements of an operator's inputs. This
// is the language of denotations, read by the interpreter, the fingerprint, the prover, kernels and operation counts.
//
//   y[i, j] = sum(k < K) a[i, k] * b[k, j], in an operator's define():
//
//   d.output(a.type(), {a.size(0), b.size(1)}, [&](const Indices& i) {
//     return sum("k", a.size(1), [&](const Index& k) { return a({i[0], k}) * b({k, i[1]}); });
//   });
//
// Builders throw Error(kBadInput) where kinds of scalars do not fit.
#pragma once

#include <compare>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "expressions/data_type.h"
#include "expressions/function.h"
#include "expressions/index.h"

namespace rewright {

struct ElementNode;
using Element = std::shared_ptr<const ElementNode>;

// A real parameter: a number, or, in a rule, a named unknown.
struct Real {
  double value = 0;
  std::string symbol;  // the unknown's name; empty: the parameter is `value`
  Real() = default;
  Real(double v) : value(v) {}  // NOLINT: a number is a real parameter
  static Real unknown(std::string name) {
    Real r;
    r.symbol = std::move(name);
    return r;
  }
  friend bool operator==(const Real& a, const Real& b);  // NaN equals NaN, 0.0 differs from -0.0: by bits
};

enum class Reduction { kSum, kProduct, kMax, kMin };

struct ElementNode {
  enum class Kind {
    kConstant,   // real or integer
    kFromIndex,  // an index expression as an integer
    kRead,       // operand[position]; with zero_outside 0 outside of the bounds, else the position must be within them
    kAdd,        // two arguments; not of truth values, whose `or` is a Function
    kMultiply,   // two arguments
    kDivide,     // two arguments; integers: towards zero
    kMaximum,    // two arguments; a NaN argument gives NaN
    kMinimum,    // two arguments
    kApply,      // function(arguments)
    kReduce,     // reduction over variable < bound of arguments[0], where all conditions hold
    kChoose,     // all conditions hold ? arguments[0] : arguments[1]; only the chosen one is evaluated
    kSelect,     // arguments[0] (a truth value) ? arguments[1] : arguments[2]
    kConvert,    // arguments[0] as `scalar`: integer to real; real to integer towards zero; truth value: not 0
  };
  Kind kind;
  Scalar scalar;
  Real real{};               // kConstant of kReal
  std::int64_t integer = 0;  // kConstant of kInteger, kBoolean
  Index index{};             // kFromIndex; kReduce: the bound variable (a kBound atom)
  Index bound{};             // kReduce: the variable runs from 0 to bound - 1
  Reduction reduction = Reduction::kSum;
  int operand = -1;    // kRead: which input
  Indices position{};  // kRead
  bool zero_outside = false;
  std::vector<Condition> conditions{};  // kReduce, kChoose: conjunction
  const Function* function = nullptr;
  std::vector<Element> arguments{};
};

Element real(Real value);
Element integer(std::int64_t value);
Element boolean(bool value);
Element constant(Scalar scalar, const Real& value);  // the real, converted to the given kind
Element from_index(Index index);

Element operator+(Element a, Element b);
Element operator-(Element a, Element b);
Element operator-(Element a);
Element operator*(Element a, Element b);
Element operator/(Element a, Element b);
Element maximum(Element a, Element b);
Element minimum(Element a, Element b);
Element apply(const Function& f, Element a);
Element apply(const Function& f, Element a, Element b);
Element choose(std::vector<Condition> all_of, Element then, Element otherwise);
Element select(Element condition, Element then, Element otherwise);
Element convert(Element e, Scalar to);
inline Element as_real(Element e) { return convert(std::move(e), Scalar::kReal); }

// Reductions over 0 <= variable < bound, and over several variables at once, the first outermost. `body` gets the variables;
// only those count for which all conditions of `where` hold. An empty maximum is -infinity, an empty sum 0.
using Body1 = std::function<Element(const Index&)>;
using BodyN = std::function<Element(const Indices&)>;
using WhereN = std::function<std::vector<Condition>(const Indices&)>;
Element sum(const std::string& name, const Index& bound, const Body1& body);
Element reduce(Reduction kind, const std::string& name, const Indices& bounds, const BodyN& body, const WhereN& where = {});

// entries[position]: a choice among given index expressions, such as the elements of a shape.
Element pick(const Index& position, const Indices& entries);

// A total order on expressions by structure (bound variables by their own order), for canonical forms.
std::strong_ordering compare(const Element& a, const Element& b);

// Readable algebra: "sum(c < C) sum(r < R) x[n, c, p + r] * w[k, c, r]"; operands are named by `operand_names`.
std::string to_string(const Element& element, const std::vector<std::string>& operand_names);

// A new expression in which reads are replaced (null: keep) and atoms of all index expressions substituted (nullopt: keep).
// The bound variables of reductions get fresh names, so results can be combined without capture.
using ReadReplacement = std::function<Element(const ElementNode& read)>;
Element rewrite(const Element& element, const ReadReplacement& read, const Substitution& atoms);

// Arithmetic operations for one evaluation (additions, multiplications, divisions, comparisons; functions by their `flops`), as
// an expression over the symbolic sizes. Guards count as true.
Index operation_count(const Element& element);

}  // namespace rewright
