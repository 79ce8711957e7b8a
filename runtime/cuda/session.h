// Runs plans on a device.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/cuda/driver.h"
#include "runtime/session.h"

namespace rewright::cuda {

struct CudaOptions {
  Precision precision = Precision::kFloat;
  std::filesystem::path cache;  // folder of compiled kernels; empty: none
};

std::unique_ptr<Session> make_session(std::shared_ptr<Driver> driver, const Graph& graph, const SessionOptions& options,
                                      const CudaOptions& cuda);

}  // namespace rewright::cuda
