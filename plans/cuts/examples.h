// An example of every operator, for the page of cuts and its tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plans/cuts/cut.h"

namespace rewright::plans {

struct OperatorExample {
  const Operator* op = nullptr;
  Attributes attributes;                         // normalized
  std::vector<std::optional<TensorType>> types;  // of the operands
};

// Examples of all operators of the registry that have a denotation, by name: the first operands of a few shapes and types that
// the operator accepts with the attributes that it has by default, or with given ones where it has none.
std::vector<OperatorExample> operator_examples();

// The page of cuts (docs/cuts.md): of each example its operands, and each cut that is proved.
std::string cuts_page();

}  // namespace rewright::plans
