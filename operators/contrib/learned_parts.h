// Parts of the graphs of classical models.
#pragma once

#include <string>

#include "operators/contrib/contrib.h"

namespace rewright::operators {

// Rows of features: a vector is one row. Throws Error(kBadInput) for other ranks.
ValueId rows_of(ContribNode& n, std::size_t i);

// The inverse of the standard normal distribution function; infinite at 0 and 1, NaN outside of [0, 1].
ValueId probit(ContribNode& n, ValueId scores);

// A post_transform of rows of scores, by ONNX's name. Throws Error(kBadInput) if there is none of that name.
ValueId transformed(ContribNode& n, ValueId scores, const std::string& how);
inline ValueId transformed(ContribNode& n, ValueId scores) {
  return transformed(n, scores, n.source.text("post_transform", "NONE"));
}

// The labels of classes by their numbers, from the attributes with these names.
ValueId labels_of(ContribNode& n, ValueId classes, const char* integers, const char* texts);

}  // namespace rewright::operators
