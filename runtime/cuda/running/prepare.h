// Prepares executions.
#pragma once

#include <memory>

#include "runtime/cuda/running/execution.h"

namespace rewright::cuda {

// An execution of the graph. Where the options leave a choice of plans, uses the fastest by measurement. Preparing overwrites
// resident tensors.
std::unique_ptr<Execution> prepare(const std::shared_ptr<Driver>& driver, const Graph& graph, ConstantStore& constants,
                                   const CudaOptions& options, const Residents& residents = {}, const InsteadOf& instead = {});

}  // namespace rewright::cuda
