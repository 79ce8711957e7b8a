// Random numbers of training as a function of their use: the same for any number of processes, and after a resumption.
#pragma once

#include <array>
#include <cstdint>

#include "operators/gradient.h"

namespace rewright::operators {

// The source of random elements of a training step: a seed, int64 scalars of the graph, and the number of draws so far.
struct RandomSource {
  std::uint64_t seed;
  ValueId step, part;  // the training step, and the part of the batch
  std::int64_t draws = 0;
};

// Dropout in training (Srivastava et al., JMLR 2014): x with elements set to 0 with probability `ratio`, from 0 to 1, and the
// others divided by 1 - ratio; and the mask of the elements that are kept.
std::array<ValueId, 2> add_dropout(GraphBuilder& graph, ValueId x, double ratio, RandomSource& random);

// x rounded stochastically to a 16-bit type, so that the mean is x. Element i uses word `first` + i of the source's current
// draw.
ValueId add_stochastic_round(GraphBuilder& graph, ValueId x, DataType to, const RandomSource& random, std::int64_t first = 0);

}  // namespace rewright::operators
