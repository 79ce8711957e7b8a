// Runs plans on a device.
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
  std::filesystem::path cache = {};        // folder of compiled kernels; empty: none
  std::shared_ptr<Choices> choices = {};   // what was measured before; null: nothing, for each session anew
  std::optional<bool> in_streams = {};     // independent steps side by side; unset: where that is measured to be faster
  std::optional<bool> channels_last = {};  // convolutions on tensor cores; unset: where that is measured to be faster
};

// A backend of sessions on this device; it is a ResidentBackend, too.
std::unique_ptr<Backend> make_backend(std::shared_ptr<Driver> driver, const CudaOptions& cuda);

// See ResidentBackend::prepare_resident.
std::unique_ptr<Session> make_resident_session(std::shared_ptr<Driver> driver, const Graph& graph,
                                               const SessionOptions& options, const CudaOptions& cuda,
                                               const Residence& residence);

// It is a DeviceSession, too (runtime/device_tensor.h).
std::unique_ptr<Session> make_session(std::shared_ptr<Driver> driver, const Graph& graph, const SessionOptions& options,
                                      const CudaOptions& cuda);

}  // namespace rewright::cuda
