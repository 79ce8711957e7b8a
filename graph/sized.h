// Attributes without symbolic sizes.
#pragma once

#include "expressions/attributes.h"

namespace rewright::graph {

bool is_sized(const Attributes& attributes);  // are all indices in them numbers?

}  // namespace rewright::graph
