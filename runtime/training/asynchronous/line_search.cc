#include "runtime/training/asynchronous/line_search.h"

#include <cmath>
#include <limits>

namespace rewright::training {

double search_line(const OnLine& start, double first, const std::function<OnLine(double)>& evaluate) {
  constexpr double kFalls = 1e-4, kRises = 0.9;  // of the first slope
  constexpr int kTries = 30;
  double low = 0, high = std::numeric_limits<double>::infinity(), step = first;
  for (int n = 0; n < kTries; ++n) {
    const OnLine here = evaluate(step);
    if (!(here.value <= start.value + kFalls * step * start.slope))
      high = step;
    else if (here.slope < kRises * start.slope)
      low = step;
    else
      return step;
    step = std::isinf(high) ? 2 * low : (low + high) / 2;
  }
  return 0;
}

}  // namespace rewright::training
