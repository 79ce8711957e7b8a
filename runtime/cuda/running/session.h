// Sessions on a GPU.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/planning/choices.h"
#include "runtime/resident.h"
#include "runtime/session.h"

namespace rewright::cuda {

struct CudaOptions {
  int device = 0;  // the number of the driver's GPU
  Precision precision = Precision::kFloat;
  std::filesystem::path cache = {};        // folder of compiled kernels; empty: no cache
  std::shared_ptr<Choices> choices = {};   // earlier measurements; null: each session measures
  std::optional<bool> in_streams = {};     // run independent steps concurrently; unset: if measured to be faster
  std::optional<bool> channels_last = {};  // convolutions in tensor cores' layout; unset: if measured to be faster
};

// A session backend for this device, which is also a ResidentBackend.
std::unique_ptr<Backend> make_backend(std::shared_ptr<Driver> driver, const CudaOptions& cuda);

// See ResidentBackend::prepare_resident.
std::unique_ptr<Session> make_resident_session(std::shared_ptr<Driver> driver, const Graph& graph,
                                               const SessionOptions& options, const CudaOptions& cuda,
                                               const Residence& residence);

// A session that is also a DeviceSession (runtime/device_tensor.h).
std::unique_ptr<Session> make_session(std::shared_ptr<Driver> driver, const Graph& graph, const SessionOptions& options,
                                      const CudaOptions& cuda);

}  // namespace rewright::cuda
