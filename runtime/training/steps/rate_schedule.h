// The learning rate of each step.
#pragma once

#include <cstdint>

namespace rewright::training {

// The rate rises linearly in the first `warm_up` steps, then follows `kind`.
//
//   const RateSchedule schedule{RateSchedule::Kind::kCosine, 0.05, 100};
//   const double rate = schedule.at(step, steps);
struct RateSchedule {
  enum class Kind {
    kConstant,
    kCosine,  // falls to 0 at the last step (Loshchilov and Hutter, arXiv:1608.03983, without restarts)
    kStep,    // falls to a tenth after each third of the steps
  };
  Kind kind = Kind::kConstant;
  double rate = 0.01;
  std::int64_t warm_up = 0;                                // steps
  double at(std::int64_t step, std::int64_t steps) const;  // 0 <= step < steps
};

}  // namespace rewright::training
