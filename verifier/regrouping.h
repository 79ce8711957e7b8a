// Sums in other variables, for sides that run over the same positions differently: a stride and an axis that is folded, a
// product of what was reshaped.
#pragma once

#include "verifier/solver.h"
#include "verifier/sum.h"

namespace rewright::proof {

// Equal to the sum where the assumptions hold. Variables are replaced one to one, by these laws, in this order:
//
//   over v with d | v + e         v = d t - e, over all t
//   over v with v div d           v = d q + r, over q and 0 <= r < d
//   over q and 0 <= r < d         v = d q + r, over v, where only guards tell q and r apart
Sum regrouped(const Sum& sum, const Guards& assumptions, Solver& solver);

}  // namespace rewright::proof
