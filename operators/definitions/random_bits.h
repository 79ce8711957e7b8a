// Random numbers that are a function of where they are used: the same for any number of processes, and after a resumption.
#pragma once

#include <array>
#include <cstdint>

#include "operators/gradient.h"

namespace rewright::operators {

// Where random elements of a training step come from: scalars (int64) of the graph, and how many times it was drawn from.
struct RandomSource {
  std::uint64_t seed;
  ValueId step, part;  // part: of the batch
  std::int64_t draws = 0;
};

// x in training with elements dropped at this probability, from 0 to 1, the others grown by as much as is lost (Srivastava et
// al., JMLR 2014), and the mask of those that are kept.
std::array<ValueId, 2> add_dropout(GraphBuilder& graph, ValueId x, double ratio, RandomSource& random);

// x rounded to a type of 16 bits at random, so that the mean is x: element i by word `first` + i of the source's present draw.
ValueId add_stochastic_round(GraphBuilder& graph, ValueId x, DataType to, const RandomSource& random, std::int64_t first = 0);

}  // namespace rewright::operators
