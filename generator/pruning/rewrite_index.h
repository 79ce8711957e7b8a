// Equations as rewrites of one value each, indexed by a tree over their left sides (a discrimination tree): common beginnings
// share a path, and one walk finds all matches.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "generator/enumeration/expressions.h"

namespace rewright::generator {

// An output of a choice with certain attributes, or a constant.
using Symbol = std::uint32_t;

// Numbers symbols in the order in which they occur.
class Symbols {
 public:
  static constexpr Symbol kUnknown = ~Symbol{0};
  explicit Symbols(const Configuration& configuration) : configuration_(configuration) {}
  Symbol number(const Expression& e);      // adds it if it is new
  Symbol find(const Expression& e) const;  // kUnknown if it is new
  std::size_t size() const { return expressions_.size(); }
  const Expression& expression(Symbol symbol) const { return expressions_[symbol]; }  // without operands
  bool commutative(Symbol symbol) const { return commutative_[symbol] != 0; }

 private:
  using Key = std::array<std::uint32_t, 4>;
  static Key key(const Expression& e);
  const Configuration& configuration_;
  std::map<Key, Symbol> numbers_;
  std::vector<Expression> expressions_;
  std::vector<std::uint8_t> commutative_;
};

class RewriteIndex {
 public:
  static constexpr std::size_t kMostVariables = 16;
  // A node of the target: a variable, or a symbol applied to earlier nodes.
  struct Step {
    bool variable = false;
    std::uint32_t number = 0;  // the variable, numbered in the order in which the walk binds them, or the symbol
    std::array<std::uint32_t, 3> operands{Expression::kNone, Expression::kNone, Expression::kNone};
  };
  struct Rewrite {
    std::uint32_t equation = 0;
    Symbol root = 0;           // of the left side
    std::vector<Step> target;  // the last one is the root
    // Each side has variables that the other lacks, as in x - x = y - y. The value then depends on none of these, and the
    // target is a symbol of the equation's own, of the type of the left side, applied to the variables that both sides have.
    bool own = false;
  };
  // The next symbol of a left side in prefix order.
  struct Branch {
    enum class Kind : std::uint8_t { kSymbol, kNew, kKnown };
    Kind kind = Kind::kSymbol;
    std::uint32_t number = 0;  // the symbol; kNew: 1 for a vector; kKnown: the variable
    std::uint32_t next = 0;
  };
  struct Position {
    std::vector<Branch> symbols, variables;
    std::uint64_t begins = 0;             // bit_of() all symbols
    std::vector<std::uint32_t> rewrites;  // those whose left side ends here
  };
  static std::uint64_t bit_of(Symbol symbol) { return std::uint64_t{1} << symbol % 64; }

  // Adds both directions, except from a side that is a variable, or towards a side with a variable that the other lacks.
  void add(const Equation& equation, std::uint32_t number, const Forms& forms, Symbols& symbols);

  const Position& position(std::uint32_t number) const { return positions_[number]; }
  const Rewrite& rewrite(std::uint32_t number) const { return rewrites_[number]; }

  // Calls found(rewrite, classes of the variables) for all matches at a symbol applied to classes, until it returns false. The
  // host provides the classes: is_vector(class); same(class, class); begins(class), the bits of its symbols; and members(class,
  // symbol, f), which calls f(operands) for each member with the symbol until f returns false, and returns whether it never
  // did.
  template <class Host, class Found>
  bool match(const Host& host, const Symbols& symbols, Symbol root, const std::array<std::uint32_t, 3>& operands,
             Found&& found) const {
    Walk<Host, Found> walk{*this, host, symbols, found, {}};
    const std::vector<Branch>& roots = positions_[0].symbols;
    const auto at = std::find_if(roots.begin(), roots.end(), [&](const Branch& b) { return b.number == root; });
    return at == roots.end() || walk.apply(*at, operands, nullptr, 0);
  }

 private:
  using Bound = std::array<std::uint32_t, kMostVariables>;
  struct Pending {
    std::uint32_t operand;
    const Pending* rest;
  };
  template <class Host, class Found>
  struct Walk {
    const RewriteIndex& index;
    const Host& host;
    const Symbols& symbols;
    Found& found;
    Bound bound;

    bool step(std::uint32_t number, const Pending* pending, std::uint32_t count) {
      const Position& at = index.positions_[number];
      if (!pending) {
        for (const std::uint32_t r : at.rewrites)
          if (!found(r, bound)) return false;
        return true;
      }
      for (const Branch& b : at.variables) {
        if (b.kind == Branch::Kind::kKnown) {
          if (host.same(bound[b.number], pending->operand) && !step(b.next, pending->rest, count)) return false;
        } else if (host.is_vector(pending->operand) == (b.number != 0)) {
          bound[count] = pending->operand;
          if (!step(b.next, pending->rest, count + 1)) return false;
        }
      }
      const std::uint64_t begins = host.begins(pending->operand);
      if ((at.begins & begins) == 0) return true;
      for (const Branch& b : at.symbols)
        if ((bit_of(b.number) & begins) != 0 &&
            !host.members(pending->operand, b.number, [&](const std::array<std::uint32_t, 3>& operands) {
              return apply(b, operands, pending->rest, count);
            }))
          return false;
      return true;
    }

    bool apply(const Branch& b, const std::array<std::uint32_t, 3>& operands, const Pending* rest, std::uint32_t count) {
      if (!ordered(b.next, operands, rest, count)) return false;
      return !symbols.commutative(b.number) || operands[0] == operands[1] ||
             ordered(b.next, {operands[1], operands[0], operands[2]}, rest, count);
    }

    bool ordered(std::uint32_t next, const std::array<std::uint32_t, 3>& operands, const Pending* rest, std::uint32_t count) {
      std::array<Pending, 3> own{};
      for (std::size_t k = 3; k-- > 0;)
        if (operands[k] != Expression::kNone) {
          own[k] = {operands[k], rest};
          rest = &own[k];
        }
      return step(next, rest, count);
    }
  };

  std::uint32_t branch(std::uint32_t from, Branch wanted);
  void add(const Equation& equation, std::uint32_t output, bool back, std::uint32_t number, const Forms& forms,
           Symbols& symbols);

  std::vector<Position> positions_{1};  // the first is the root
  std::vector<Rewrite> rewrites_;
};

}  // namespace rewright::generator
