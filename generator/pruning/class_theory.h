// Derives equations from the kept ones, using the enumeration's classes as the classes of an e-graph in which everything below
// the root is already merged. A rewrite matches a root and, below it, any members of the operands' classes; its result is again
// an application to classes. So graphs that are equal by congruence are one root, and only rewrites at the root are steps.
//
// Every equality found on the lower levels is either kept or follows from kept equations. A derivation here therefore follows
// from kept equations, though by more steps than a small e-graph would take.
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
  std::size_t roots = 400;     // examined for one equation
  std::size_t matches = 4000;  // rewrites of one root
};

class ClassTheory {
 public:
  // For an enumeration whose levels below the last were run. Members whose equations do not hold under all of `keys` are
  // coincidences and left out.
  ClassTheory(const Enumeration& enumeration, std::span<const std::uint64_t> keys);

  // Returns the equation's number.
  std::uint32_t add(const Equation& equation);
  void set_active(std::uint32_t number, bool active) { active_[number] = active; }

  // Does the candidate follow from the active equations (except `without`)? Thread-safe if each thread has its own forms.
  // Always false for equations between graphs below the last level.
  bool derives(const Candidate& candidate, const ClassDerivationLimits& limits, Forms& forms,
               std::optional<std::uint32_t> without = {}) const;
  // Does any equation follow? Also false if the enumeration has too few variables of a type, or lacks a value below the roots.
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
  // A map from nodes to numbers, in one array.
  class NodeTable {
   public:
    // The place of the node's number (kNoClass at first), and whether it is new.
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
  // A class below the last level, or a root of the last level.
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
  NodeTable known_;                                   // application to class
  std::vector<Node> nodes_;                           // of all classes, in order
  std::vector<std::uint32_t> first_;                  // by class: its first node
  std::vector<std::uint64_t> begins_;                 // by class: bits of its symbols
  std::vector<bool> vector_;                          // by class: is it of rank 1?
  std::map<TypeId, std::vector<ClassId>> variables_;  // of each type
};

}  // namespace rewright::generator
