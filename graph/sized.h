// What does not depend on sizes that are not known.
#pragma once

#include "expressions/attributes.h"

namespace rewright::graph {

bool is_sized(const Attributes& attributes);  // are all indices in them numbers?

}  // namespace rewright::graph
