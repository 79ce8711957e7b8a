// What becomes of the scores of ai.onnx.ml's models.
#pragma once

namespace rewright {

// The x that a normally distributed number is below with probability p; infinite at 0 and 1, and no number beyond.
double probit(double p);

}  // namespace rewright
