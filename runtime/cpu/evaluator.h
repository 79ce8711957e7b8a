// Evaluates constant subgraphs with the CPU's kernels.
#pragma once

#include <memory>

#include "optimizer/device.h"

namespace rewright {

std::unique_ptr<Evaluator> make_cpu_evaluator(int threads = 1);

}  // namespace rewright
