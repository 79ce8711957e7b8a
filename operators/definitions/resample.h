// Resampling along one axis. Source positions are fractions of integers, so they are exact for all sizes.
#pragma once

#include <string>
#include <vector>

#include "expressions/attributes.h"
#include "expressions/element.h"
#include "expressions/index.h"

namespace rewright::operators {

struct Fraction {
  Index numerator = 0, denominator = 1;
};
// The simplest fraction that, rounded to float, equals `value`. ONNX gives scales as floats.
Fraction to_fraction(double value);

// The mapping from positions of the result to positions of the source, and the interpolation there. The names are ONNX's.
struct Resampling {
  std::string mode, coordinates, rounding;
  Real cubic_coefficient;
  bool exclude_outside = false, antialias = false;
};

struct ResampledAxis {
  Index size, target;
  Fraction scale;                 // need not be exactly target / size
  Fraction crop_begin, crop_end;  // tf_crop_and_resize: the part of the source, as fractions of size - 1
};

// The source position of element p.
Fraction source_position(const Resampling& how, const ResampledAxis& axis, const Index& p);

// An element of the source and its weight; null: 1.
struct Tap {
  Index position;
  Element weight;
};
std::vector<Tap> taps(const Resampling& how, const ResampledAxis& axis, const Index& p);

// Attributes of Resizes by one axis each that make, one after the other, what a Resize with these attributes makes of a tensor
// of these sizes, up to rounding. They are fewer operations, as the weights of an axis are applied to sums over the others.
// Gathering along the innermost axis is done where there are the fewest elements: after axes that shrink, and before those that
// grow. Empty if the elements are only moved, or fewer than two axes change.
std::vector<Attributes> resizes_by_axis(const Attributes& resize, const Sizes& from);

}  // namespace rewright::operators
