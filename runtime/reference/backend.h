// The reference backend: the interpreter of denotations. Slow, plain, and what every other backend is compared with.
#pragma once

#include "runtime/session.h"

namespace rewright::runtime {

const Backend& reference_backend();

}  // namespace rewright::runtime
