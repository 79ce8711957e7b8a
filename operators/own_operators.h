// Operators that a program brings itself. They are known by name like all others: in rules, graphs, proofs, and the generator's
// configuration.
//
//   add_own_operators([](Registry& r) { r.add<Hadamard>(); });                // before anything asks for registry()
//   registry().get("Hadamard");
#pragma once

#include <functional>

#include "operators/operator.h"

namespace rewright::operators {

// To be called before the first call of registry(). Throws Error(kUsage) afterwards: the registry does not change once it is
// used.
void add_own_operators(std::function<void(Registry&)> add);

}  // namespace rewright::operators
