// Graphs timed in a process of their own, for devices whose runtime is this library.
#pragma once

#include <memory>
#include <string>

#include "optimizer/devices/device.h"
#include "rules/rule.h"
#include "runtime/session.h"

namespace rewright::api {

// The arguments of make_device in the other process.
struct MeasuringProcess {
  std::string program;  // `rewright`: called as `rewright time-graphs FOLDER`
  std::string device;
  int threads = 1;
  MathClass math = MathClass::kReassociates;
  KernelChoice kernels = KernelChoice::kEstimated;
};

// The device with a Device::time_afresh that starts a process; if that fails, the device itself times the graphs.
std::unique_ptr<Device> make_fresh_device(MeasuringProcess process, std::unique_ptr<Device> here);

// For the started program: reads the request from the folder, and writes the times there. Throws Error.
void time_graphs_in_folder(const std::string& folder);

}  // namespace rewright::api
