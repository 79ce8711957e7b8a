// The reference backend: the interpreter of denotations. It is slow and plain, and every other backend is compared with it.
#pragma once

#include "runtime/session.h"

namespace rewright::runtime {

const Backend& reference_backend();

}  // namespace rewright::runtime
