// Times alternatives in turn, so that each finds the caches as another one leaves them.
#pragma once

#include <cstddef>

namespace rewright::cpu {

struct TurnLimits {
  int least_rounds = 1, most_rounds = 1;
  double enough_seconds = 0;  // of all runs together: no round is begun behind the least ones
};

// `run(round, k)` runs alternative k and returns its seconds, 0 where it is left out.
template <class Run>
void in_turn(std::size_t count, const TurnLimits& limits, const Run& run) {
  double spent = 0;
  for (int round = 0; round < limits.least_rounds || (spent < limits.enough_seconds && round < limits.most_rounds); ++round)
    for (std::size_t k = 0; k < count; ++k) spent += run(round, k);
}

}  // namespace rewright::cpu
