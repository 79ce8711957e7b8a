// Evaluates constant subgraphs with the CPU's kernels.
#pragma once

#include <memory>

#include "optimizer/devices/device.h"

namespace rewright::cpu {

// `checkpoint` is called between operators; its exception ends the evaluation.
std::unique_ptr<Evaluator> make_cpu_evaluator(int threads = 1, Checkpoint checkpoint = {});

}  // namespace rewright::cpu
