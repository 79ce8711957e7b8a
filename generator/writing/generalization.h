// How an equation may be said more generally: families of shapes, each with steps that turn numbers of attributes into
// variables. What of it is true is for others to find out.
#pragma once

#include <functional>
#include <vector>

#include "generator/writing/typing.h"

namespace rewright::generator {

// An alternative for the shapes, and the steps that may follow it.
struct Family {
  Typing base;
  // Steps, the largest first: a step that was taken makes those of the same `subject` superfluous. False: it changes nothing.
  struct Step {
    std::function<bool(Typing&)> take;
    int subject = 0;
  };
  std::vector<Step> steps;
  bool last = false;     // if this can be said, nothing after it is tried
  bool windows = false;  // kernels and pads are symbols, axis by axis
};

// Does it speak of kernels or pads of a certain size?
bool speaks_of_windows(const Typing& typing, const Equation& equation, const Configuration& configuration);

// The most general first; the last says the equation as it was found.
std::vector<Family> families(const Equation& equation, Forms& forms);

}  // namespace rewright::generator
