// A line search for the weak conditions of Wolfe, by bisection (Lewis and Overton, Mathematical Programming 141, 2013).
#pragma once

#include <functional>

namespace rewright::training {

struct OnLine {
  double value, slope;  // of the function along the line
};

// Evaluates the function at a step from 0 along the line until the value falls enough and the slope has risen enough. Returns
// that step, which was evaluated last; 0 if none is found.
//
//   const double step = search_line({2, -1}, 1, [&](double t) { return at(t); });
double search_line(const OnLine& start, double first, const std::function<OnLine(double)>& evaluate);

}  // namespace rewright::training
