// The reference backend: the interpreter of denotations. Slow and simple; all other backends are compared with it.
#pragma once

#include "runtime/session.h"

namespace rewright::runtime {

const Backend& reference_backend();

}  // namespace rewright::runtime
