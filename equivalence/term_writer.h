// Terms over values of the joint table, written node by node: the source of a rule in a step of a proof.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "equivalence/checker/proof.h"

namespace rewright::equivalence {

class TermWriter {
 public:
  TermWriter(Step::Kind kind, std::string description);

  // A value that the term is over. Sizes that are open have no names in the term.
  PatternValue leaf(ValueId id, const TensorType& type);
  // An operator's first output; fields that are not given have their default values.
  PatternValue node(std::string_view name, std::initializer_list<std::pair<std::string_view, AttributeValue>> given,
                    std::vector<PatternValue> inputs);
  // The step. `constant`: the second model's constant that the term explains; kNoValue: the term is a value of its own.
  Step finish(PatternValue output, ValueId constant = kNoValue);

 private:
  Step step_;
  Rule rule_;
};

}  // namespace rewright::equivalence
