// Computes normal forms from denotations: the element of a rule's side at a symbolic position, over the rule's inputs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operators/operator.h"
#include "rules/rule.h"
#include "verifier/side.h"
#include "verifier/solver.h"
#include "verifier/terms.h"

namespace rewright::proof {

// Reasons for a value to be undefined on some inputs. A target that has one which its source does not have may be undefined
// where the source has a value.
enum Partial : unsigned {
  kDividesByZero = 1,
  kOfNegative = 2,       // a root, a logarithm or a power of a negative number
  kSignOfPower = 4,      // a logarithm of x^y, whose sign depends on both
  kOutOfRange = 8,       // an inverse function
  kNoSuchPosition = 16,  // an element at a position that may be outside of its axis
};

// Throws Error(kUnsupported) if there is no normal form: no denotation, positions that depend on elements which a sum runs
// over, products over axes.
class Normalizer {
 public:
  // The assumptions must hold wherever the normal form is used. Positions that depend on elements have symbols, which are added
  // to `contents`; both sides of a rule share them. `positions_are_inside`: see ProofLimits.
  Normalizer(const DefinedSide& side, Guards assumptions, Solver& solver, Contents& contents,
             std::set<std::string> positive_numbers = {}, bool positions_are_inside = false)
      : side_(side),
        assumptions_(std::move(assumptions)),
        solver_(solver),
        positive_numbers_(std::move(positive_numbers)),
        contents_(contents),
        positions_are_inside_(positions_are_inside) {}

  Sum at(const PatternValue& value, const Indices& position);
  // Was there a divisor that may be 0, or a function that is not defined everywhere? A product with 0 would hide it in the
  // normal form.
  unsigned partial() const { return partial_; }  // bits of Partial

 private:
  struct Scope {
    const PatternNode& node;
    Replacements variables;
  };
  Sum element(const Element& e, Scope& scope);
  Sum read(const ElementNode& e, Scope& scope);
  // A read at a position that is read off a tensor by cases (a Concat), case by case; nullopt for others.
  std::optional<Sum> read_by_cases(const ElementNode& e, Scope& scope);
  Sum reduce(const ElementNode& e, Scope& scope);
  Sum choose(const ElementNode& e, Scope& scope);
  Sum apply(const ElementNode& e, Scope& scope);
  Sum reciprocal(const Sum& sum);
  Sum number(const Real& value);
  Sum number(const Index& value);
  Sum apply_function(const std::string& name, const Function* law, const std::vector<Sum>& arguments);
  Sum function_value(const std::string& name, const Function* law, const std::vector<Sum>& arguments);
  std::optional<Sum> of_power(const std::string& name, const Function* law, const std::vector<Sum>& arguments);
  std::optional<Sum> of_product(const std::string& name, const Function* law, Sum argument);
  std::optional<Sum> of_factors(const std::string& name, const Function* law, const Sum& argument);
  std::optional<Sum> of_truth_values(const std::string& name, const Function* law, const std::vector<Sum>& arguments);
  std::optional<Sum> of_less(const std::string& name, const Sum& a, const Sum& b);
  std::optional<Sum> of_division(const std::string& name, const Function* law, const std::vector<Sum>& arguments);
  Sum of_maximum(const std::string& name, const Function* law, const Term& argument);
  std::optional<Sum> of_lattice(const std::vector<MaximumElement>& elements);
  std::optional<Sum> maximum_of_powers(const std::vector<MaximumElement>& elements);
  bool is_never_empty(const std::vector<MaximumElement>& elements);
  bool is_integer_sum(const Sum& sum);
  void note_wrapping(const ElementNode& e, const Scope& scope);
  bool is_positive(const Factor& factor);
  Sum maximum(std::vector<MaximumElement> elements);
  void add_elements(const Indices& bound, const Guards& guards, const Sum& value, std::vector<MaximumElement>& elements);
  // Replaces a variable that only occurs as a count by its number of values.
  Sum counted(const Sum& sum, const Index& variable, const Index& bound);
  // Sums of exponentials that are divided by themselves are 1.
  Sum without_ratios(const Sum& sum);
  bool is_positive_sum(const Sum& sum);
  static bool may_be_zero(const Sum& divisor);
  Index resolve(const Index& index, Scope& scope);
  Index with_contents(const Index& index, Scope& scope);
  Index index_of(const Sum& value);
  Index content(const Sum& value, const std::optional<Index>& size);
  Guard resolve(const Condition& condition, Scope& scope);

  const DefinedSide& side_;
  Guards assumptions_;  // grows inside scopes
  Solver& solver_;
  std::set<std::string> positive_numbers_;  // names of unknown numbers
  Contents& contents_;
  std::map<const ElementNode*, Sum> chosen_;  // values of elements that are positions, in the present case
  bool positions_are_inside_;
  bool may_wrap_ = false;  // a sum of integers of 8 bits was computed as such
  unsigned partial_ = 0;
};

}  // namespace rewright::proof
