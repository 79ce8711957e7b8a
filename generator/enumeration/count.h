// How many graphs the classes stand for: sets of operator applications that contain the operands of each, where a graph may
// have several outputs. Counted by dynamic programming over the members of the classes, not one by one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "generator/enumeration/enumeration.h"

namespace rewright::generator {

// Applications with all that they need are terms. Those of three are a chain, x(y(z)) where x may take z as well, or a fork,
// x(y, z). What is known of terms is how many there are whose applications belong to given classes.
class GraphCounter {
 public:
  // Counts of graphs with at most this many operators, up to 4.
  static constexpr std::size_t kMostOperators = 4;
  GraphCounter(const Enumeration& enumeration, std::size_t operators);

  // Without the terms of as many operators whose outermost application is one of the last level.
  double graphs() const { return graphs_; }
  // The terms whose outermost application is this one of the last level, with all names of variables. Thread-safe.
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

  // The choices of terms for the operands that have this many applications together.
  double terms(const Application& a, std::size_t applications) const;
  double around_single(const Application& a, ClassId inner) const;
  double around_two(const Application& a, ClassId outer, ClassId inner) const;
  double around_both(const Application& a, ClassId first, ClassId second) const;
  double around_three(const Application& a) const;
  // For an assignment of x, y, z to operands; kNoClass for those that are none.
  double chains(ClassId x, ClassId y, ClassId z) const;
  double forks(ClassId x, ClassId y, ClassId z) const;
  double two_and_single(ClassId y, ClassId z, ClassId single) const;
  double two_around_one(ClassId y, ClassId other, ClassId z) const;

  std::vector<ClassId> distinct(const Application& a) const;
  // Sums over which operand is a leaf (0), and which terms (1, 2, ...) the others are; `value` gets the class of each kind,
  // which is kNoClass if it is not used, and the order in which the kinds first appear.
  template <class Value>
  double patterns(const Application& a, int kinds, const Value& value) const;

  const Enumeration& e_;
  std::size_t operators_;
  double graphs_ = 0;
  std::vector<double> leaf_, single_, two_, chain_, fork_;               // terms by the class of the outermost
  std::vector<std::vector<ClassId>> inner_;                              // of two: the classes that z may have
  Pairs two_yz_, chain_yz_, chain_xy_, chain_xz_, fork_yz_, fork_xy_;    // by the classes of two applications
  Triples chain_xyz_, fork_xyz_;                                         // if there are operators of three operands
  std::vector<double> around_, chain_z_, fork_y_;                        // by the class of an inner one
  double singles_ = 0, twos_ = 0, threes_ = 0, chains_ = 0, forks_ = 0;  // outermost applications, whatever their outputs
  bool ternary_ = false;
};

}  // namespace rewright::generator
