// Cuts of operators: the work divided among processes, so that each computes a part of the results from parts of the operands.
// Nothing about it is listed by operator. Cuts are read off the denotation (FlexFlow's samples, operators, attributes
// and parameters are found that way, and halos), written as rules over the operator itself, and proved like rules:
//
//   MatMul(x, w) => Concat(MatMul(Slice(x; 0, A), w), MatMul(Slice(x; A, B), w); axis=0)                          samples
//   MatMul(x, w) => MatMul(Slice(x; 0, A), Slice(w; 0, A)) + MatMul(Slice(x; A, B), Slice(w; A, B))              partial sums
//   MatMul(x + y, w) => MatMul(x, w) + MatMul(y, w)                                                  of partial sums: linearity
//
// A rule cuts in two, at any place. Its second part is the same operator, to which the rule applies again: cuts into any number
// of parts of any sizes follow by induction. Of windows the rule is also proved for the operator without a pad in front, as it
// stands behind the first cut.
//
//   for (const Cut& cut : proposed_cuts(conv, attributes, types))
//     if (prove(cut_rules(conv, attributes, types, cut))) ...
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/namespaces.h"
#include "expressions/attributes.h"
#include "operators/operator.h"
#include "rules/rule.h"
#include "verifier/solver.h"

namespace rewright::plans {

// The part of a tensor that a process holds. A cut divides `units` of work; unit u of a tensor that is cut are the rows
// [u * unit, (u + 1) * unit) of one axis, for operands widened by a halo.
struct Share {
  enum class Kind {
    kWhole,    // all of it
    kCut,      // the rows of its units
    kFirst,    // an operand that is added once: the first process has it, the others have zeros
    kPartial,  // a tensor of the full size whose elements are to be combined over all processes
  };
  Kind kind = Kind::kWhole;
  std::size_t axis = 0;  // kCut
  Index unit = 1;        // kCut: rows a unit
  Index before = 0;      // kCut, operands: rows in front of the first unit's that are read as well
  Index after = 0;       // kCut, operands: rows behind the last unit's; below 0 where its own last rows are not read
  Reduction reduction = Reduction::kSum;  // kPartial; of operands only sums
  Index rows_after() const;               // that a part has beside its own: `after`, at least 0
  friend bool operator==(const Share&, const Share&) = default;
};

// A number in a node's attributes: attributes[field] itself, or its entry of this number.
struct AttributeEntry {
  std::size_t field = 0;
  std::optional<std::size_t> entry;
  friend bool operator==(const AttributeEntry&, const AttributeEntry&) = default;
};
void set_entry(Attributes& attributes, const AttributeEntry& place, const Index& value);
// The attribute with each of its numbers replaced by `of` it.
AttributeValue with_numbers(AttributeValue value, const std::function<Index(const Index&)>& of);

// A number in the attributes that depends on the part.
struct AttributeChange {
  enum class Kind {
    kScaled,    // multiplier times the number of units
    kFrontPad,  // as given in the first part, 0 in the others
    kBackPad,   // as given in the last part, 0 in the others
  };
  Kind kind = Kind::kScaled;
  AttributeEntry place;
  Index multiplier = 1;  // kScaled
  friend bool operator==(const AttributeChange&, const AttributeChange&) = default;
};

struct Cut {
  Index units;  // of work
  std::vector<Share> operands, outputs;
  std::vector<AttributeChange> changes;
  friend bool operator==(const Cut&, const Cut&) = default;

  bool has_windows() const;  // parts of an operand overlap
  // Are operands or results cut? Else each process does all of the work, on partial sums: what is linear in them gives partial
  // sums.
  bool divides() const;
};
std::string to_string(const Cut& cut);  // "x cut along 0; w whole => y cut along 0"

using OperandTypes = std::span<const std::optional<TensorType>>;  // nullopt: an optional operand that is absent

// Equal for nodes that differ in the values of their operands alone.
std::string node_key(const Operator& op, const Attributes& attributes, OperandTypes types);

// Cuts that the denotation suggests, each axis of the first output and each variable that is summed over. Some of them may be
// wrong: the proof decides. None for an operator without a denotation. Attributes are normalized.
std::vector<Cut> proposed_cuts(const Operator& op, const Attributes& attributes, OperandTypes types);

// The attributes of a part that has so many units.
Attributes part_attributes(const Attributes& attributes, const Cut& cut, const Index& units, bool is_first, bool is_last);

// The types of a part's operands.
std::vector<std::optional<TensorType>> part_types(OperandTypes types, const Cut& cut, const Index& units, bool is_first,
                                                  bool is_last);

// That the operator, cut in two, computes the same; all of the rules are to be proved. Throws Error(kUnsupported) where the cut
// cannot be written as a rule. With kAny the rules speak of all sizes, where those of `types` are only examples: one proof for
// many nodes, which fails where attributes or windows need the sizes that are there.
enum class SizesInRule { kAsGiven, kAny };
std::vector<Rule> cut_rules(const Operator& op, const Attributes& attributes, OperandTypes types, const Cut& cut,
                            SizesInRule sizes = SizesInRule::kAsGiven);

struct CutProof {
  bool proved = false;
  std::string open_question;  // where it is not
};
CutProof prove(const std::vector<Rule>& rules, const proof::Engine& engine = {});

// The proposed cuts that are proved. They are kept for equal nodes, and proofs by what the rules say, so that layers of other
// sizes are proved once, too. Almost all proposed cuts are proved in the end: a search may try all of them, and prove those of
// the plan that it found.
class CutFinder {
 public:
  // `proves`: else find() also gives cuts whose rules can be written and are not proved yet.
  explicit CutFinder(bool proves = true) : proves_(proves) {}
  bool proves() const { return proves_; }

  const std::vector<Cut>& find(const Operator& op, const Attributes& attributes, OperandTypes types);
  CutProof proof(const Operator& op, const Attributes& attributes, OperandTypes types, const Cut& cut);
  std::size_t proofs() const { return proofs_.size(); }

 private:
  const CutProof& kept(const std::vector<Rule>& rules);
  const bool proves_ = true;
  const proof::Engine engine_ = proof::shared_z3(proof::SolverOptions().seed);
  std::map<std::string, CutProof, std::less<>> proofs_;         // by the rules' text
  std::map<std::string, std::vector<Cut>, std::less<>> found_;  // by operator, attributes and types
};

}  // namespace rewright::plans
