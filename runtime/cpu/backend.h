// The CPU backend: oneDNN, OpenBLAS, and tile programs compiled from denotations.
//
// Floats are IEEE: subnormal numbers are kept, as flushing them would change results.
#pragma once

#include "runtime/session.h"

namespace rewright {

const Backend& cpu_backend();

}  // namespace rewright
