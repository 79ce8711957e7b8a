// Why a rule that was proved up to some rank holds for tensors of any rank.
//
// An axis is *pointwise* in a case if each element of both sides' outputs, at a position z on that axis, is the element of the
// rule applied to the inputs' slices at a position computed from z alone, the same on both sides. Then the case follows from
// the rule at one rank less, and nothing has to be known of the case itself. Which axes are pointwise is read from the
// definitions: without the axis, a node's operands, attributes and conditions give the same denotation without the axis's
// position.
//
// If every case of the two highest ranks has a pointwise axis, which all inputs of the highest rank have, the rule holds for
// higher ranks: there are more axes of the kind that the cases have already, and one can be taken away. What a rule computes
// with ranks and axes is restricted so that no number in it can tell such ranks apart (docs/soundness.md).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "verifier/cases.h"

namespace rewright::proof {

class RankArgument {
 public:
  // `solver` answers whether sizes of the axis are right on both sides.
  RankArgument(const Rule& rule, Solver& solver) : rule_(rule), solver_(solver) {}

  // The next case, in the order of the enumeration, with its rank.
  void visit(std::size_t rank, const SymbolicCase& c);
  // Does the rule hold for all ranks, if the cases up to `ranks` were visited and proved? `largest` is the enumerator's.
  bool holds(std::size_t ranks, std::size_t largest) const;
  // Why not; empty if it does.
  std::string reason(std::size_t ranks, std::size_t largest) const;

 private:
  struct Rank {
    std::size_t cases = 0;
    std::string without;  // a case without a pointwise axis
  };
  void note_lengths(const SymbolicCase& c);
  void note_numbers(const SymbolicCase& c);
  std::string computes_with_ranks(std::size_t& named) const;

  const Rule& rule_;
  Solver& solver_;
  std::map<std::size_t, Rank> ranks_;
  std::map<std::string, std::size_t> lengths_;  // of a list, by its name and the inputs' ranks
  std::string open_list_;                       // a list whose length the inputs' ranks do not determine
  std::map<std::string, bool> numbers_;         // variables and quantities: a number in every case?
};

// Has the case a pointwise axis that all inputs of its highest rank have?
bool has_pointwise_axis(const Rule& rule, const SymbolicCase& c, Solver& solver);

}  // namespace rewright::proof
