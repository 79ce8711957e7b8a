// Identities of functions of two arguments.
#pragma once

#include <cstdint>
#include <optional>

#include "expressions/function.h"

namespace rewright {

// The e with f(x, e) = x for all x; nullopt if there is none, or none is known.
std::optional<std::int64_t> right_identity(const Function& f);

}  // namespace rewright
