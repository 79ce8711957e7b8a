// Consequences of the kept equations, where all that graphs of fewer operators compute equally counts as equal: the classes of
// the enumeration are the classes of an e-graph in which nothing below the root is left to be found. A rewrite is laid on a
// root and, below it, on any members of the operands' classes; what it gives is an application to classes again. So all graphs
// that are equal by congruence are one root, and only rewrites of whole graphs are steps.
//
// Of what the levels below found equal each equation is kept or follows from kept ones. So what is derived here follows from
// kept equations, though by more steps than a small e-graph would take.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "generator/enumeration/candidates.h"
#include "generator/pruning/rewrite_index.h"

namespace rewright::generator {

struct ClassDerivationLimits {
  std::size_t roots = 400;     // that are looked at for one equation
  std::size_t matches = 4000;  // of rewrites with one root
};

class ClassTheory {
 public:
  // Of an enumeration whose levels below the last were run. `keys` are those for which the equations of its members have to
  // hold, or they are taken for coincidences.
  ClassTheory(const Enumeration& enumeration, std::span<const std::uint64_t> keys);

  // Returns its number.
  std::uint32_t add(const Equation& equation);
  void set_active(std::uint32_t number, bool active) { active_[number] = active; }

  // Thread-safe with forms of one's own. Without one of the equations, if that is said. Of an equation between graphs of lower
  // levels nothing is said here: false.
  bool derives(const Candidate& candidate, const ClassDerivationLimits& limits, Forms& forms,
               std::optional<std::uint32_t> without = {}) const;
  // Nor where the enumeration has not enough variables of a type, or not all that stands below the roots.
  bool derives(const Equation& equation, const ClassDerivationLimits& limits, Forms& forms,
               std::optional<std::uint32_t> without = {}) const;

 private:
  friend class RootSearch;
  // A symbol applied to classes.
  struct Node {
    Symbol symbol = 0;
    std::array<ClassId, 3> operands{kNoClass, kNoClass, kNoClass};
    friend auto operator<=>(const Node&, const Node&) = default;
  };
  // A number for each node, in one array.
  class NodeTable {
   public:
    // Where its number stands, kNoClass at first, and whether it is new.
    std::pair<ClassId*, bool> insert(const Node& node);
    ClassId find(const Node& node) const;  // kNoClass where there is none
    std::size_t size() const { return count_; }
    template <class F>
    void each(const F& f) const {
      for (const Entry& e : entries_)
        if (e.node.symbol != Symbols::kUnknown) f(e.node, e.number);
    }

   private:
    struct Entry {
      Node node{.symbol = Symbols::kUnknown};
      ClassId number = kNoClass;
    };
    std::size_t slot(const Node& node) const;
    std::vector<Entry> entries_ = std::vector<Entry>(64);
    std::size_t count_ = 0;
  };
  // A class of a level below the last, or else a root of the last level.
  struct Place {
    ClassId known = kNoClass;
    Node root{};
    TypeId type = 0;  // of the root
  };

  Node node(Symbol symbol, std::array<ClassId, 3> operands) const;
  std::optional<Place> place(const Graphlet& graphlet) const;
  std::optional<Place> place(const Equation& equation, std::uint32_t at, const std::vector<ClassId>& variables) const;

  const Enumeration& enumeration_;
  Symbols symbols_;
  RewriteIndex index_;
  std::vector<bool> active_;
  NodeTable known_;                                   // the class of an application
  std::vector<Node> nodes_;                           // of each class, in order, one class after the other
  std::vector<std::uint32_t> first_;                  // of a class: its first node
  std::vector<std::uint64_t> begins_;                 // of a class: the bits of its symbols
  std::vector<bool> vector_;                          // of a class: is it of rank 1?
  std::map<TypeId, std::vector<ClassId>> variables_;  // of each type
};

}  // namespace rewright::generator
