// Resampling along one axis. Source positions are ratios of integers, so that they are exact, whatever the sizes.
#pragma once

#include <string>
#include <vector>

#include "expressions/element.h"
#include "expressions/index.h"

namespace rewright::operators {

struct Fraction {
  Index numerator = 0, denominator = 1;
};
// The simplest fraction that is this number when rounded to a float (ONNX gives scales as floats).
Fraction to_fraction(double value);

// How positions of the result become positions of the source, and what is taken there; the names are ONNX's.
struct Resampling {
  std::string mode, coordinates, rounding;
  Real cubic_coefficient;
  bool exclude_outside = false, antialias = false;
};

struct ResampledAxis {
  Index size, target;
  Fraction scale;                 // need not be exactly target / size
  Fraction crop_begin, crop_end;  // tf_crop_and_resize: the part of the source, as shares of size - 1
};

// The source position of element p.
Fraction source_position(const Resampling& how, const ResampledAxis& axis, const Index& p);

// An element of the source and its weight; null: 1.
struct Tap {
  Index position;
  Element weight;
};
std::vector<Tap> taps(const Resampling& how, const ResampledAxis& axis, const Index& p);

}  // namespace rewright::operators
