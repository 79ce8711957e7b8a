// States a partial equivalence as a rule: the target, and the source on slices where the target is wrong, put into place.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "generator/enumeration/enumeration.h"
#include "generator/partial/regions.h"
#include "rules/rule.h"

namespace rewright::generator {

// A graph that agrees with an operator somewhere. Both are members of classes, by number.
struct PartialEquivalence {
  std::uint32_t source = 0, target = 0;
  std::uint32_t computing = 0;  // the only member below the target that computes; the others rearrange
  Regions regions;
};

// Sizes and attributes in place of those that were found.
struct Statement {
  std::vector<Indices> shapes;                     // of each leaf
  std::map<std::uint32_t, Attributes> attributes;  // of members
  std::set<std::uint32_t> absent;                  // leaves that are left out: optional operands
};

// The source on slices of its operands that gives its result in a box of cells. Slices follow from the positions that the
// denotation reads. Where these reach beyond an operand, all up to its end is read.
struct Repair {
  struct Ends {
    bool begin = false, end = false;  // is the end of the operand's axis read?
  };
  std::vector<std::vector<Ends>> ends;  // by operand and axis
  struct Change {
    std::size_t field, entry;
    std::int64_t value;
  };
  std::vector<Change> changes;  // of the source's attributes: a slice within an operand has no pads
};
using Box = std::vector<std::pair<std::size_t, std::size_t>>;  // cells from, to, of each axis
using Repairs = std::map<Box, Repair>;

class PartialStatements {
 public:
  PartialStatements(const Enumeration& enumeration, const PartialEquivalence& found);

  // With the sizes and attributes that were found.
  const Statement& as_found() const { return as_found_; }
  // Finds out how each wrong box is made. False if one cannot be made from slices.
  bool find_repairs();
  const Repairs& repairs() const { return repairs_; }
  // nullopt if it cannot be stated so. `needs` gets conditions under which the target is well-typed where the source is.
  std::optional<Rule> rule(const Statement& statement, const Repairs& repairs, std::vector<Condition>* needs = nullptr) const;
  std::optional<Rule> rule(const Statement& statement) const { return rule(statement, repairs_); }
  // The leaves of the source, in order: the rule's inputs.
  const std::vector<std::uint32_t>& inputs() const { return inputs_; }

 private:
  class Side;
  PatternValue assemble(Side& side, const Box& box, const PatternValue& target, const Repairs& repairs) const;
  bool uniform(const Box& box) const;
  std::size_t cell(const std::vector<std::size_t>& at) const;
  std::vector<Box> parts(const Box& box, std::size_t axis) const;
  std::size_t piece_count(const Box& box) const;
  std::size_t best_axis(const Box& box) const;
  void collect_wrong(const Box& box, std::vector<Box>& boxes) const;
  std::optional<Repair> find_repair(const Box& box) const;
  Rule frame(const Statement& statement) const;

  const Enumeration& enumeration_;
  const PartialEquivalence& found_;
  Statement as_found_;
  std::vector<std::uint32_t> inputs_;
  Repairs repairs_;
};

}  // namespace rewright::generator
