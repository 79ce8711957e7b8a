#include "runtime/training/steps/rate_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rewright::training {

double RateSchedule::at(std::int64_t step, std::int64_t steps) const {
  if (step < warm_up) return rate * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  const auto done = static_cast<double>(step - warm_up), all = static_cast<double>(std::max<std::int64_t>(1, steps - warm_up));
  switch (kind) {
    case Kind::kConstant:
      return rate;
    case Kind::kCosine:
      return rate * 0.5 * (1 + std::cos(std::numbers::pi * done / all));
    case Kind::kStep:
      return rate * std::pow(0.1, std::floor(3 * done / all));
  }
  return rate;
}

}  // namespace rewright::training
