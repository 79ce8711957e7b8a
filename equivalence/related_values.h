// Values of the second model that no value of the first one equals, but one operator or a few make of one: channels that were
// filled up with zeros to whole blocks, rows that were joined for a product, axes in another order through several operators,
// channels in blocks, and integers of 8 bits that became unsigned, all 128 larger, or the other way round, and negated sums.
//
// Such a term over a value of the first model is added to the table as a kValue. Once it is proved equal to the second model's
// value, equations that follow are about as many nodes as if the value were known.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "equivalence/checker/proof.h"
#include "equivalence/sample_runs.h"

namespace rewright::equivalence {

// The node's output has elements of this input, moved, and nothing else.
bool only_reads(const Graph& graph, const Node& node, std::size_t input);

// A way to make a value of another one.
struct Relation {
  enum class Kind { kFilledUp, kReshaped, kTransposed, kShifted, kBlocked, kNegated };
  Kind kind;
  std::vector<std::size_t> perm{};  // kTransposed, kBlocked
  Indices apart{};                  // kBlocked: the sizes whose axes change places, between two that are the value's own
};

// All that may make a value of one type of a value of another.
std::vector<Relation> relations_between(const TensorType& from, const TensorType& to);
// The kValue that makes a value of this type of `a`.
Step related_term(const Joint& joint, ValueId a, const TensorType& type, const Relation& relation);

class RelatedValues {
 public:
  // `add_value` adds a kValue to the table of the proof, and returns its value.
  RelatedValues(const Joint& joint, const SampleRuns& runs, std::function<ValueId(const Step&)> add_value);

  // Values of terms, in the table, that `b` agrees with in all samples.
  std::vector<ValueId> terms_for(ValueId b);

 private:
  bool only_moves(ValueId b) const;
  bool agree(ValueId a, ValueId b, const Relation& relation) const;
  std::vector<Relation> relations_to(const TensorType& from, const TensorType& to) const;

  const Joint& joint_;
  const SampleRuns& runs_;
  const std::function<ValueId(const Step&)> add_value_;
  std::map<std::string, std::vector<Relation>> blocks_;       // that the second model puts values into, by their sizes
  std::map<std::pair<ValueId, std::string>, ValueId> terms_;  // by class of the value, and by what the term says
};

}  // namespace rewright::equivalence
