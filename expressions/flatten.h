// Denotations flattened for known sizes, which CodeEvaluator runs: variables are slots, affine positions are strides, and
// nested reductions are nested loops whose ranges are narrowed by their conditions.
//
//   Flattener flattener(sizes_of_operands);
//   for (std::size_t a = 0; a < rank; ++a) flattener.variable(output.position[a], sizes[a]);
//   const CodePointer code = flattener.flatten(output.element);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "expressions/element.h"
#include "expressions/tensor.h"

namespace rewright {

struct Code;

// An index expression: constant + sum of coefficient * slot + sum of coefficient * product of factors.
struct IndexCode {
  struct Factor {
    Atom::Kind kind;
    int slot = -1;                     // kBound
    std::vector<IndexCode> arguments;  // kFloorDiv, kMod, kMin, kMax
    std::shared_ptr<const Code> load;  // kLoad
  };
  struct Term {
    std::int64_t coefficient;
    std::vector<Factor> factors;
  };
  std::int64_t constant = 0;
  std::vector<std::pair<int, std::int64_t>> affine;  // slot, coefficient
  std::vector<Term> others;
  bool is_affine() const { return others.empty(); }
  std::int64_t coefficient(int slot) const {
    for (const auto& [s, c] : affine)
      if (s == slot) return c;
    return 0;
  }
};

// A condition: value >= 0, value == 0 or value != 0.
struct Guard {
  IndexCode value;
  enum class Test { kNotNegative, kZero, kNotZero } test;
};

struct Code {
  ElementNode::Kind kind;
  Scalar scalar;
  Real real;
  std::int64_t integer = 0;
  IndexCode index;   // kFromIndex
  int operand = -1;  // kRead
  std::vector<IndexCode> position;
  std::vector<bool> checked;  // one an axis: must the position be compared with the bounds?
  bool zero_outside = false;
  IndexCode offset;  // kRead with affine positions: the row-major place
  bool affine = false;
  const Function* function = nullptr;
  std::vector<std::shared_ptr<const Code>> arguments;
  std::vector<Guard> guards;  // kChoose
  // kReduce: a nest of loops, innermost last
  Reduction reduction = Reduction::kSum;
  struct Loop {
    int slot;
    IndexCode bound;
    std::vector<Guard> guards;  // linear in this loop's variable: they narrow its range
    std::vector<Guard> late;    // decided by this loop's variable, but do not give a range: tested at each step
  };
  std::vector<Loop> loops;
  // Not empty for a sum of products of affine reads: the innermost loop advances by strides.
  std::vector<std::shared_ptr<const Code>> factors;
  // kReduce: unless -1, its values are kept in the memory of this number, one for each combination of its free variables.
  int memory = -1;
  std::vector<std::pair<int, std::int64_t>> memory_axes;  // of the free variables: slot, range
};
using CodePointer = std::shared_ptr<const Code>;

struct Interval {
  std::int64_t low, high;
};

class Flattener {
 public:
  // A reduction that would keep more than `most_remembered` values (at most 2^30) is computed again instead.
  explicit Flattener(std::vector<Sizes> operands, std::int64_t most_remembered = std::int64_t{1} << 22);

  // Multiplies zeros outside of an operand as well, which then are not a number with what is none. Otherwise sums may leave
  // them out, where their bounds are linear.
  void keep_zeros_outside() { keeps_zeros_outside_ = true; }
  // Declares a variable that runs from 0 to bound - 1; returns its slot.
  int variable(const Index& index, std::int64_t bound);
  std::size_t slot_count() const { return ranges_.size(); }
  // The number of reductions that keep their values.
  std::size_t memory_count() const { return memory_count_; }

  // Throws Error(kUnsupported) for a symbolic size.
  CodePointer flatten(const Element& e);

 private:
  IndexCode index(const Index& i);
  IndexCode::Factor factor(const Atom& atom);
  Guard guard(const Condition& c);
  std::optional<Interval> interval(const IndexCode& code) const;
  void read(const ElementNode& e, Code& code);
  void reduce(const Element& e, Code& code);
  CodePointer remembered(const std::shared_ptr<Code>& code);

  std::vector<Sizes> operands_;
  bool keeps_zeros_outside_ = false;
  std::vector<Interval> ranges_;
  std::vector<int> live_;  // the variables in scope
  std::unordered_map<std::uint64_t, int> slots_;
  std::unordered_map<const ElementNode*, std::shared_ptr<Code>> reductions_;  // shared subexpressions are flattened once
  std::size_t memory_count_ = 0;
  std::int64_t most_remembered_;
};

}  // namespace rewright
