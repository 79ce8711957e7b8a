// Random inputs that a model accepts: positions are within the tensors they index, according to the denotations.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::optimizer {

// Integers from `low` to `high`, inclusive.
struct IntegerRange {
  std::int64_t low = 0, high = 1;
  friend bool operator==(const IntegerRange&, const IntegerRange&) = default;
};

// For each input, the valid range of its integers: positions on an axis that the model indexes with them, directly or after
// moves, choices, conversions, sums and products with constants; otherwise 0 and 1, which are truth values and small counts.
// Positions that operators without a denotation also read (the count of a loop, a shape) are small. Unknown sizes count as 1.
// Undefined for inputs of reals.
std::vector<IntegerRange> integer_ranges(const Graph& graph);

// The named sizes of axes on which integers of the graph's inputs are positions: with size 1 there would be a single position.
std::set<std::string> indexed_sizes(const Graph& graph);

// The names of integer inputs for which the model gives no range: nothing is indexed with them. If a model accepts none of the
// drawn inputs, these are the likely cause.
std::vector<std::string> inputs_without_range(const Graph& graph);

// Distributions of inputs, from the usual one to those that restrictive models may still accept.
enum class Draw {
  kUsual,     // normal reals; integers from integer_ranges
  kSmall,     // integers 0 and 1 as far as in range
  kZeros,     // integers of 0
  kOnes,      // integers of 1
  kPositive,  // integers of 1, and reals from 0.5 to 1.5
  kOpen,      // integer lists that begin with -1, like the open size of a shape, and continue with 1
  kMissing,   // as usual, and some reals are missing (NaN) where the model asks whether they are (missing_numbers.h)
};
inline constexpr Draw kDraws[] = {Draw::kUsual, Draw::kSmall, Draw::kZeros, Draw::kOnes, Draw::kPositive, Draw::kOpen};

// Distributions to try until the model accepts one: with missing numbers, if it fills them; each other kind, then, if there are
// integers, the usual one with other seeds, since a model may accept only some inputs of a kind (a traced mixture of experts
// fixes which experts get tokens).
struct Attempt {
  Draw draw;
  std::uint64_t seed;  // added to the caller's
};
std::vector<Attempt> attempts(const Graph& graph);

// Random inputs of a graph; missing symbolic sizes are 1. Strings are words, or numbers if they are parsed as such; inputs with
// a default have it. Throws Error(kUnsupported) with the name of an input that is not a tensor of known rank.
std::vector<Tensor> random_inputs(const Graph& graph, const std::map<std::string, std::int64_t>& sizes, std::uint64_t seed,
                                  Draw draw = Draw::kUsual);

}  // namespace rewright::optimizer
