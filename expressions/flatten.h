// A denotation flattened for known sizes: variables are slots, affine positions are strides, nests of reductions are nests of
// loops with narrowed ranges. What the interpreter runs.
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

// sum of coefficient * product of factors, over slots of variables; affine if every term has just one slot.
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

// A condition as code: value >= 0, == 0 or != 0.
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
  std::vector<bool> checked;  // per axis: must the position be compared with the bounds?
  bool zero_outside = false;
  IndexCode offset;  // kRead with affine positions: where it is in the operand's elements
  bool affine = false;
  const Function* function = nullptr;
  std::vector<std::shared_ptr<const Code>> arguments;
  std::vector<Guard> guards;  // kChoose
  // kReduce: a nest of loops, innermost last
  Reduction reduction = Reduction::kSum;
  struct Loop {
    int slot;
    IndexCode bound;
    std::vector<Guard> guards;  // those decided when this loop's variable is known
    std::vector<Guard> late;    // of these, the ones that only testing decides (not linear in this variable)
  };
  std::vector<Loop> loops;
  // A sum of products of affine reads: the innermost loop runs over strides.
  std::vector<std::shared_ptr<const Code>> factors;
  // kReduce: if not -1, its values are kept in the memory of this number, by the free variables (slot and range).
  int memory = -1;
  std::vector<std::pair<int, std::int64_t>> memory_axes;
};
using CodePointer = std::shared_ptr<const Code>;

struct Interval {
  std::int64_t low, high;
};

class Flattener {
 public:
  // A reduction keeps at most `most_remembered` values (at most 2^30).
  explicit Flattener(std::vector<Sizes> operands, std::int64_t most_remembered = std::int64_t{1} << 22);

  // A variable that runs from 0 to bound - 1; returns its slot.
  int variable(const Index& index, std::int64_t bound);
  std::size_t slot_count() const { return ranges_.size(); }
  // How many reductions keep their values.
  std::size_t memory_count() const { return memory_count_; }

  // Throws Error(kUnsupported) for a size that is not known.
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
  std::vector<Interval> ranges_;
  std::vector<int> live_;  // the variables around what is being flattened
  std::unordered_map<std::uint64_t, int> slots_;
  std::unordered_map<const ElementNode*, std::shared_ptr<Code>> reductions_;  // an expression may stand in several places
  std::size_t memory_count_ = 0;
  std::int64_t most_remembered_;
};

}  // namespace rewright
