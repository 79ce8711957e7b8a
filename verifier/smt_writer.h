// Writes index polynomials and guards as SMT-LIB. Internal to the solver.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "verifier/solver.h"

namespace rewright::proof::internal {

class SmtWriter {
 public:
  // The level of detail. kOpaque: divisions, minima and maxima are unknowns. kLinear: they are defined, but products of
  // unknowns are unknowns. kExact: everything is defined.
  enum class Detail { kOpaque, kLinear, kExact };
  SmtWriter(const Guards& assumptions, Detail detail);

  void require(const Guard& guard) { assertions_.push_back(write(guard)); }
  void require_some_nonzero_sum(const std::vector<Indicator>& indicators);
  // False if a quantified variable is part of a division, which cannot be expressed here.
  bool require_different_covers(const std::vector<Existence>& left, const std::vector<Existence>& right);

  // Is something left undefined, so that only a proof (no counterexample) counts?
  bool is_abstract() const { return has_products_ || has_unknown_divisions_; }
  // Declarations and assertions, with the definitions and lemmas of all divisions.
  std::string text();

 private:
  struct Division {
    Index dividend, divisor;
    std::string quotient, remainder, dividend_text, divisor_text;
    bool surely_positive;
  };
  struct AtomOrder {
    bool operator()(const AtomPointer& a, const AtomPointer& b) const { return compare(*a, *b) < 0; }
  };

  std::string write(const Index& index);
  std::string write(const Guard& guard);
  std::string write_all(const Guards& guards);
  std::string write_atom(const AtomPointer& atom);
  std::string existence(const std::vector<Existence>& covers);
  const Division& division(const Index& dividend, const Index& divisor);
  static Index quotient_of(const Division& division);
  std::string declare(char kind);
  void add_lemmas();
  void assert_if_positive(const Division& division, const std::string& statement);

  Detail detail_;
  bool has_products_ = false;           // products left as unknowns
  bool has_unknown_divisions_ = false;  // divisions left as unknowns
  Guards positive_;                     // assumptions that an atom is at least 1
  std::map<AtomPointer, std::string, AtomOrder> atoms_;
  std::map<std::string, std::string> products_;
  std::vector<Division> divisions_;
  std::vector<Index> compared_;  // polynomials in inequalities, for the threshold lemma
  std::string declarations_;
  std::vector<std::string> assertions_;
  int next_ = 0;
};

}  // namespace rewright::proof::internal
