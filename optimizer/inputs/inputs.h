// Random inputs that a model accepts: positions lie within what they index, as the denotations say.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::optimizer {

// Integers from `low` to `high`, both included.
struct IntegerRange {
  std::int64_t low = 0, high = 1;
  friend bool operator==(const IntegerRange&, const IntegerRange&) = default;
};

// For each input of the graph the integers that are valid for its elements: positions in an axis that the model indexes with
// them, directly or after moves, conversions, sums and products with constants; else 0 and 1, which are truth values, and small
// counts. Of an input that something without a denotation reads (the count of a loop, a shape) no more than 0 and 1 are drawn.
// Sizes that are not known count as 1. For inputs of reals it says nothing.
std::vector<IntegerRange> integer_ranges(const Graph& graph);

// The names of inputs of integers for whose elements the model gives no range: nothing is indexed with them, or what has no
// denotation reads them. Where a model accepts none of the inputs that are drawn, these are what could not be drawn.
std::vector<std::string> inputs_without_range(const Graph& graph);

// Distributions of inputs, from the usual one to what a picky model may still accept.
enum class Draw {
  kUsual,     // normal reals; integers as integer_ranges has them
  kSmall,     // integers of 0 and 1 as far as they are in range
  kZeros,     // integers of 0
  kOnes,      // integers of 1
  kPositive,  // integers of 1, and reals from 0.5 to 1.5
  kOpen,      // lists of integers that begin with -1, as an open size of a shape, and go on with 1
};
inline constexpr Draw kDraws[] = {Draw::kUsual, Draw::kSmall, Draw::kZeros, Draw::kOnes, Draw::kPositive, Draw::kOpen};

// Distributions to try until the model accepts one: each kind, then, where there are integers, the usual one with other seeds:
// a model may accept some inputs of a kind and not others (a trace of experts fixes which of them get tokens).
struct Attempt {
  Draw draw;
  std::uint64_t seed;  // added to the caller's
};
std::vector<Attempt> attempts(const Graph& graph);

// Inputs of a graph, seeded; symbolic sizes as given, else 1. Strings are words, or numbers where
// they are read as such; an input that has a default is that. Throws Error(kUnsupported), naming the input,
// for one that is no tensor of a known rank.
std::vector<Tensor> random_inputs(const Graph& graph, const std::map<std::string, std::int64_t>& sizes, std::uint64_t seed,
                                  Draw draw = Draw::kUsual);

}  // namespace rewright::optimizer
