// The cases of a proof for all sizes: ranks, element types, axes and permutations are enumerated; sizes and all other numbers
// are symbolic.
//
// For symbolic sizes, definitions of broadcasting operators assume equal sizes. "One of the two is 1" is a case of its own,
// with the number 1 in place of the size. So are 0 and 1 wherever a definition distinguishes them from other numbers.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rules/bindings.h"
#include "verifier/side.h"
#include "verifier/solver.h"

namespace rewright::proof {

struct SymbolicCase {
  std::vector<TensorType> inputs;
  Bindings bindings;
  DefinedSide source;
  Guards hypotheses;  // the source is well-typed, the rule's conditions hold, no tensor is without elements
  bool has_model;     // proved, not only not refuted

  std::string to_string() const;
};

class CaseEnumerator {
 public:
  CaseEnumerator(const Rule& rule, Solver& solver) : rule_(rule), solver_(solver) {}

  // Visits all cases whose largest input has this rank. `visit` returns false to stop. Throws Error(kUnsupported) if something
  // could not be enumerated, so that the cases are incomplete.
  bool for_each(std::size_t rank, const std::function<bool(const SymbolicCase&)>& visit);
  // The largest rank that has cases beyond those of smaller ranks.
  std::size_t largest_rank(std::size_t limit) const;
  // The elements of a list of this length, as symbols.
  static Indices symbols(const std::string& list, std::size_t length);

 private:
  using Values = std::map<std::string, AttributeValue, std::less<>>;
  struct State {
    Values values;                  // of all variables bound so far
    std::vector<std::size_t> open;  // ranks of the unnamed parts of shapes
    std::set<std::string> settled;  // equations whose other cases were enumerated
    Guards given;                   // what distinguishes the case
    Guards covered;                 // another case covers this one where one of these holds
    Replacements solved;            // symbols of the shapes, and their values
  };

  void collect_variables();
  bool choose_ranks(std::size_t rank, std::size_t next, State state);
  bool choose_values(State state, std::size_t next);
  bool resolve(const State& state);
  bool settle(State state);
  bool split_broadcast(const State& state, const Condition& equation, const Guards& hypotheses, const DefinedSide& source,
                       const Bindings& bindings);
  bool demands_one(const Index& one, const Index& other, const DefinedSide& source, const Bindings& bindings) const;
  struct Shapes {
    std::vector<Attributes> attributes;  // of each node, normalized
    std::vector<TensorType> types;       // of all outputs
  };
  bool split_special(State& state, const std::vector<TensorType>& types, const Bindings& bindings, const Guards& hypotheses);
  std::optional<Shapes> shapes_of(const Pattern& side, const std::vector<TensorType>& types, const Bindings& bindings) const;
  static bool agree(const std::optional<Shapes>& general, const std::optional<Shapes>& special, const Replacements& step);
  std::optional<Indices> factors_of_one(const Index& product, const Guards& hypotheses);
  bool enumerate_known(const State& state, const PatternNode& node, std::size_t rank, const std::string& message);
  std::vector<TensorType> input_types(const State& state, const Bindings& bindings) const;
  std::optional<Bindings> bind(const State& state, std::vector<TensorType>& types) const;
  bool gather(const Bindings& bindings, Guards& guards, bool partly = false) const;
  // The lengths of a list that a definition accepts.
  static std::vector<std::size_t> lengths(const std::string& list, const PatternNode& node, const DefinedSide& before,
                                          const Bindings& bindings);
  static void substitute_solved(State& state, const Index& variable, const Index& value);

  const Rule& rule_;
  Solver& solver_;
  enum class Sort { kIndex, kList, kReal, kText, kBool, kType };
  std::map<std::string, Sort> variables_;
  std::set<std::string> shape_lists_;
  std::map<std::string, std::vector<DataType>> types_;
  const std::function<bool(const SymbolicCase&)>* visit_ = nullptr;
};

}  // namespace rewright::proof
