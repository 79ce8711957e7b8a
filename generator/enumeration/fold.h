// Rearrangements that move a part of one axis into another: the halves of an image become a batch, a batch becomes one image,
// every second row becomes an image of its own.
#pragma once

#include <optional>
#include <vector>

#include "generator/enumeration/configuration.h"
#include "generator/enumeration/operator_arguments.h"

namespace rewright::generator {

// Part k is a factor of 2 of axis from[k]; it becomes a factor of axis to[k].
struct Fold {
  std::vector<std::size_t> from, to;
  bool outer_part = true;   // the halves of an axis; else every second element
  bool outer_place = true;  // one part after the other; else the parts alternate
};

// Half of a size; nullopt if it cannot be halved as an expression.
std::optional<Index> half_of(const Index& size);

// A split and a concatenation where halves stay whole; else a reshape that splits axes, a transpose and a reshape that joins
// axes. None where an axis cannot be halved.
std::vector<FurtherStep> steps(const Fold& fold, const TensorType& type);

// fold(from=2|2x3,to=0,part=outer|inner,place=outer|inner)
void add_folds(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves);

}  // namespace rewright::generator
