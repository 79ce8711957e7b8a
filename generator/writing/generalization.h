// Possible generalizations of an equation: families of shapes, each with steps that turn numbers of attributes into variables.
// Whether the result holds is checked elsewhere.
#pragma once

#include <functional>
#include <vector>

#include "generator/writing/typing.h"

namespace rewright::generator {

// One alternative for the shapes, and the steps that may follow.
struct Family {
  Typing base;
  // A step, the largest first. Once a step is applied, others of the same `subject` are skipped. take() returns false if
  // nothing changes.
  struct Step {
    std::function<bool(Typing&)> take;
    int subject = 0;
  };
  std::vector<Step> steps;
  bool last = false;     // if this one holds, later families are not tried
  bool windows = false;  // kernels and pads are symbols, one for each axis
};

// Does the typing mention kernels or pads of fixed sizes?
bool speaks_of_windows(const Typing& typing, const Equation& equation, const Configuration& configuration);

// The most general first; the last is the equation as found.
std::vector<Family> families(const Equation& equation, Forms& forms);

}  // namespace rewright::generator
