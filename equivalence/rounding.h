// How far results of the second model can lie from those of the first one in floating point, for inputs within given ranges.
//
// For each output an upper bound of the absolute difference of one element, over all inputs within the ranges and all orders in
// which sums may be added. Operators that both models have, of the same operands, round alike and differ by nothing; where a
// proved equation computes a value in another way, the errors of both ways from what they read count, and differences that are
// there already are carried on. Propagated through the denotations of the operators, as a range and an error of each element.
// Outputs that depend on an operator without a bound (a comparison that rounding may decide, a procedure) have none, and say
// so.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "equivalence/checker/proof.h"

namespace rewright::equivalence {

struct ValueRange {
  double low = -1, high = 1;
};

struct RoundingOptions {
  std::map<std::string, ValueRange> ranges = {};   // of inputs of reals, by name; others: from -1 to 1
  std::map<std::string, std::int64_t> sizes = {};  // of named axes
  double tolerance = kRoundingTolerance;           // of the proof
  std::function<bool()> ended = {};
};

struct RoundingBound {
  std::string output;           // of the first model
  std::optional<double> bound;  // absolute, of each element
  std::string reason;           // why there is none
};

// `steps`: of the proof whose equations are in the table; all outputs are equal in it.
std::vector<RoundingBound> rounding_bounds(const Joint& joint, const std::vector<Step>& steps, const RoundingOptions& options);

}  // namespace rewright::equivalence
