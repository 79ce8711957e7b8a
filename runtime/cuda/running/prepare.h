// Prepares executions.
#pragma once

#include <memory>

#include "runtime/cuda/running/execution.h"

namespace rewright::cuda {

// An execution of the graph, by the plan that is measured to be fastest where the options leave a choice. Preparing one
// overwrites what stays on the device.
std::unique_ptr<Execution> prepare(const std::shared_ptr<Driver>& driver, const Graph& graph, ConstantStore& constants,
                                   const CudaOptions& options, const Residents& residents = {}, const InsteadOf& instead = {});

}  // namespace rewright::cuda
