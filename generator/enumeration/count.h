// The number of graphs that the classes represent. A graph is a set of operator applications that contains the operands of
// each, and may have several outputs. Counted by dynamic programming over the members of the classes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "generator/enumeration/enumeration.h"

namespace rewright::generator {

// A term is an application with everything it depends on. A term of three is a chain x(y(z)), where x may also use z, or a fork
// x(y, z). The tables hold the number of terms whose applications belong to given classes.
class GraphCounter {
 public:
  // Counts graphs of at most this many operators (at most 4).
  static constexpr std::size_t kMostOperators = 4;
  GraphCounter(const Enumeration& enumeration, std::size_t operators);

  // The graphs, without those of the full number of operators whose outermost application is on the last level.
  double graphs() const { return graphs_; }
  // The graphs whose outermost application is this one of the last level, over all choices of variables. Thread-safe.
  double graphs(const Application& last) const;

 private:
  struct Pairs {
    std::unordered_map<std::uint64_t, double> values;
    static std::uint64_t key(ClassId a, ClassId b) { return std::uint64_t{a} << 32 | b; }
    double& operator()(ClassId a, ClassId b) { return values[key(a, b)]; }
    double at(ClassId a, ClassId b) const {
      const auto found = values.find(key(a, b));
      return found == values.end() ? 0 : found->second;
    }
  };
  using Triples = std::map<std::array<ClassId, 3>, double>;

  std::span<const Member> members() const;
  void count_single();
  void count_two();
  void count_three();
  double graphs_of_four() const;

  // The ways to choose terms for the operands with this many applications in total.
  double terms(const Application& a, std::size_t applications) const;
  double around_single(const Application& a, ClassId inner) const;
  double around_two(const Application& a, ClassId outer, ClassId inner) const;
  double around_both(const Application& a, ClassId first, ClassId second) const;
  double around_three(const Application& a) const;
  // The number of chains with these classes for x, y and z; kNoClass: not used.
  double chains(ClassId x, ClassId y, ClassId z) const;
  double forks(ClassId x, ClassId y, ClassId z) const;
  double two_and_single(ClassId y, ClassId z, ClassId single) const;
  double two_around_one(ClassId y, ClassId other, ClassId z) const;

  std::vector<ClassId> distinct(const Application& a) const;
  // Sums `value` over all assignments of operands to kinds: 0 is a leaf, 1, 2, ... are terms. `value` gets the class of each
  // kind (kNoClass if unused) and the order in which kinds first appear.
  template <class Value>
  double patterns(const Application& a, int kinds, const Value& value) const;

  const Enumeration& e_;
  std::size_t operators_;
  double graphs_ = 0;
  std::vector<double> leaf_, single_, two_, chain_, fork_;               // terms by the class of the outermost application
  std::vector<std::vector<ClassId>> inner_;                              // for terms of two: the possible classes of z
  Pairs two_yz_, chain_yz_, chain_xy_, chain_xz_, fork_yz_, fork_xy_;    // by the classes of two applications
  Triples chain_xyz_, fork_xyz_;                                         // if there are operators of three operands
  std::vector<double> around_, chain_z_, fork_y_;                        // by the class of an inner application
  double singles_ = 0, twos_ = 0, threes_ = 0, chains_ = 0, forks_ = 0;  // outermost applications, whatever their outputs
  bool ternary_ = false;
};

}  // namespace rewright::generator
